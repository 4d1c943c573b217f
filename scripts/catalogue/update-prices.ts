/**
 * Renews the prices of machines in infra/plan/catalogue/data/prices.json. Karpenter's AWS provider publishes on-demand prices, Linux,
 * shared tenancy, as generated Go files: one map from region to instance type to US dollars an hour.
 *
 *     npx tsx scripts/catalogue/update-prices.ts v1.14.1                    a tag of the provider, from GitHub
 *     npx tsx scripts/catalogue/update-prices.ts v1.14.1 --from FOLDER      the same from a checkout or an unpacked Go module
 *
 * `--output FILE` writes elsewhere. The same tag gives the same bytes. Prices of storage and services are renewed by hand: the
 * script lists them with their sources.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import type { PriceFile } from "../../infra/plan/catalogue/prices.ts";
import { errorWords, UserError } from "../errors.ts";

const REPOSITORY = "aws/karpenter-provider-aws";
const FOLDER = "pkg/providers/pricing";
/** Files with prices in US dollars, without those of China in yuan. */
const FILES = ["zz_generated.pricing_aws.go", "zz_generated.pricing_aws_us_gov.go"];
const TARGET = fileURLToPath(new URL("../../infra/plan/catalogue/data/prices.json", import.meta.url));
const TIMEOUT_MILLISECONDS = 60_000;

type Regions = PriceFile["machines"]["regions"];

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { from: { type: "string" }, output: { type: "string", default: TARGET } },
  });
  const [tag] = positionals;
  if (tag === undefined) throw new UserError("Missing tag of the provider, such as v1.14.1.");
  const texts = await Promise.all(FILES.map((name) => sourceText(tag, name, values.from)));
  const found = texts.flatMap((text, index) => Object.entries(parseGoPrices(text, FILES[index] ?? "")));
  const file = JSON.parse(readFileSync(TARGET, "utf8")) as PriceFile;
  const renewed: PriceFile = {
    ...file,
    machines: {
      source: `https://github.com/${REPOSITORY}/tree/${tag}/${FOLDER}`,
      regions: catalogued(Object.fromEntries(found)),
    },
  };
  writeFileSync(values.output, `${JSON.stringify(renewed, null, 2)}\n`);
  const lines = file.others.map(
    ({ source, asOf, ...price }) => `  ${JSON.stringify(price)}, ${asOf}: ${source}`,
  );
  process.stdout.write(`Machines: ${tag}. To be read by hand:\n${lines.join("\n")}\n`);
}

async function sourceText(tag: string, name: string, folder: string | undefined): Promise<string> {
  if (folder !== undefined) return readFileSync(join(folder, FOLDER, name), "utf8");
  const url = `https://raw.githubusercontent.com/${REPOSITORY}/${tag}/${FOLDER}/${name}`;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS) });
    if (response.ok) return await response.text();
    throw new Error(`${response.status} ${response.statusText}`);
  } catch (error) {
    throw new UserError(`${url} can't be read (${errorWords(error)}).`);
  }
}

/**
 * Prices by region of one generated file.
 *
 * @param name - Shown in messages.
 * @throws UserError if the file has no date, a price outside a region, a price twice, or a region without prices.
 */
export function parseGoPrices(source: string, name: string): Regions {
  const asOf = /^\/\/ generated at (\d{4}-\d{2}-\d{2})T/m.exec(source)?.[1];
  if (asOf === undefined) throw new UserError(`${name} has no line "// generated at DATE".`);
  const regions: Record<string, { asOf: string; hourlyUsd: Record<string, number> }> = {};
  let prices: Record<string, number> | undefined;
  for (const line of source.split("\n")) {
    const region = /^\t"([a-z0-9-]+)": \{$/.exec(line)?.[1];
    if (region !== undefined) {
      prices = {};
      regions[region] = { asOf, hourlyUsd: prices };
      continue;
    }
    for (const [, instanceType = "", price] of line.matchAll(/"([a-z0-9.-]+)": (\d+\.\d+),/g)) {
      if (prices === undefined) throw new UserError(`${name} prices ${instanceType} outside a region.`);
      if (instanceType in prices) throw new UserError(`${name} prices ${instanceType} twice in one region.`);
      prices[instanceType] = Number(price);
    }
  }
  if (prices === undefined) throw new UserError(`${name} has no region.`);
  for (const [region, { hourlyUsd }] of Object.entries(regions))
    if (Object.keys(hourlyUsd).length === 0) throw new UserError(`${name} has no price for ${region}.`);
  return regions;
}

/** Regions by name, with the catalogue's instance types in its order. */
function catalogued(regions: Regions): Regions {
  return Object.fromEntries(
    Object.entries(regions)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([region, { asOf, hourlyUsd }]) => {
        const kept = Object.keys(machineTypes).flatMap((type) => {
          const price = hourlyUsd[type];
          return price === undefined ? [] : [[type, price] as const];
        });
        return [region, { asOf, hourlyUsd: Object.fromEntries(kept) }];
      }),
  );
}

if (process.argv[1] === import.meta.filename) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
