/**
 * Refreshes infra/plan/catalogue/prices-data.ts from the prices that Karpenter's AWS provider publishes with its Go module:
 *
 *     npx tsx scripts/catalogue/update-prices.ts                      the newest release, from the Go module proxy
 *     npx tsx scripts/catalogue/update-prices.ts --version v1.14.1    one release, branch or commit
 *     npx tsx scripts/catalogue/update-prices.ts --path FOLDER --version V
 *                                                                     an unpacked module or a checkout, called version V
 *
 * `--output FILE` writes elsewhere. `GOPROXY` names another proxy. The same version gives the same bytes.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { UserError } from "../errors.ts";
import { readZipEntry } from "../zip-entry.ts";
import { PRICE_FILES, PRICING_FOLDER, parseGoPrices, renderPriceData } from "./go-prices.ts";
import { downloadModule, proxyOf, resolveVersion } from "./module-zip.ts";

const MODULE = "github.com/aws/karpenter-provider-aws";
/** The catalogue's own file. */
const TARGET = fileURLToPath(new URL("../../infra/plan/catalogue/prices-data.ts", import.meta.url));

interface PriceSource {
  readonly version: string;
  /** Text of a file in the module's pricing folder. */
  readonly read: (file: string) => string;
}

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      version: { type: "string" },
      path: { type: "string" },
      output: { type: "string", default: TARGET },
    },
  });
  const source =
    values.path === undefined
      ? await fromProxy(values.version ?? "latest")
      : fromFolder(values.path, values.version);
  const files = PRICE_FILES.map((file) => parseGoPrices(source.read(file), file));
  writeFileSync(
    values.output,
    renderPriceData(`${MODULE}@${source.version}`, files, Object.keys(machineTypes)),
  );
  process.stdout.write(
    `${values.output}: prices of ${MODULE}@${source.version}, ${files.map(({ asOf }) => asOf).join(" and ")}\n`,
  );
}

async function fromProxy(query: string): Promise<PriceSource> {
  const proxy = proxyOf(process.env.GOPROXY);
  const version = await resolveVersion(proxy, MODULE, query);
  const zip = await downloadModule(proxy, MODULE, version);
  return {
    version,
    read: (file) => readZipEntry(zip, `${MODULE}@${version}/${PRICING_FOLDER}/${file}`).toString("utf8"),
  };
}

function fromFolder(folder: string, version: string | undefined): PriceSource {
  if (version === undefined)
    throw new UserError("A folder does not say which version it holds: add --version, such as v1.14.1.");
  return { version, read: (file) => readFileSync(join(folder, PRICING_FOLDER, file), "utf8") };
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
