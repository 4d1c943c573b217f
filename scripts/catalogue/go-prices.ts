/**
 * On-demand prices as Karpenter's AWS provider keeps them: generated Go files with one map from region to instance type
 * to US dollars an hour, for Linux and shared tenancy.
 */

/** Folder of the price files in the module. */
export const PRICING_FOLDER = "pkg/providers/pricing";
/** Files whose prices are in US dollars; the one for China is in yuan. */
export const PRICE_FILES = ["zz_generated.pricing_aws.go", "zz_generated.pricing_aws_us_gov.go"] as const;

/** What one generated file says. */
interface GoPrices {
  /** Day on which the prices were read, ISO 8601. */
  readonly asOf: string;
  /** US dollars an hour by region and instance type. */
  readonly regions: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

/**
 * Reads one generated Go file.
 *
 * @param name shown in messages.
 * @throws Error where the file has no date, a price outside a region, a price twice, or a region without prices.
 */
export function parseGoPrices(source: string, name: string): GoPrices {
  const asOf = /^\/\/ generated at (\d{4}-\d{2}-\d{2})T/m.exec(source)?.[1];
  if (asOf === undefined) throw new Error(`${name} has no line "// generated at DATE".`);
  const regions = new Map<string, Map<string, number>>();
  let region: Map<string, number> | undefined;
  for (const line of source.split("\n")) {
    const opened = /^\t"([a-z0-9-]+)": \{$/.exec(line)?.[1];
    if (opened !== undefined) {
      region = new Map();
      regions.set(opened, region);
      continue;
    }
    for (const [, instanceType, price] of line.matchAll(/"([a-z0-9.-]+)": (\d+\.\d+),/g)) {
      if (instanceType === undefined) continue;
      if (region === undefined) throw new Error(`${name} prices ${instanceType} outside a region.`);
      if (region.has(instanceType)) throw new Error(`${name} prices ${instanceType} twice in one region.`);
      region.set(instanceType, Number(price));
    }
  }
  if (regions.size === 0) throw new Error(`${name} has no region.`);
  for (const [named, prices] of regions) {
    if (prices.size === 0) throw new Error(`${name} has no price for ${named}.`);
  }
  return { asOf, regions };
}

/**
 * Text of infra/plan/catalogue/prices-data.ts: the same for the same input, whatever the order of the files.
 *
 * @param module path and version of the Go module.
 * @param instanceTypes those to keep, in the order in which they are written.
 */
export function renderPriceData(
  module: string,
  files: readonly GoPrices[],
  instanceTypes: readonly string[],
): string {
  const regions = files
    .flatMap(({ asOf, regions }) => [...regions].map(([region, prices]) => ({ region, asOf, prices })))
    .sort((a, b) => (a.region < b.region ? -1 : 1));
  const blocks = regions.map(({ region, asOf, prices }) => {
    const kept = instanceTypes.flatMap((instanceType) => {
      const price = prices.get(instanceType);
      return price === undefined ? [] : [`      "${instanceType}": ${price},`];
    });
    return [`  "${region}": {`, `    asOf: "${asOf}",`, "    hourlyUsd: {", ...kept, "    },", "  },"].join(
      "\n",
    );
  });
  return `${[
    "// Made by scripts/catalogue/update-prices.ts; do not edit.",
    "",
    "/**",
    " * Day of the prices and US dollars an hour, by region.",
    " *",
    ` * Source: the Go module ${module}.`,
    " */",
    "export const priceData: Readonly<",
    "  Record<string, { readonly asOf: string; readonly hourlyUsd: Readonly<Record<string, number>> }>",
    "> = {",
    ...blocks,
    "};",
  ].join("\n")}\n`;
}
