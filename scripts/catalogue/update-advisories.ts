/**
 * Lists the differences between infra/plan/catalogue/data/advisories.json and NVIDIA's security bulletins, which NVIDIA publishes as CSAF
 * (https://docs.oasis-open.org/csaf/csaf/v2.0/csaf-v2.0.html). Ends with 1 if there are any. A person reads the bulletin, and
 * adds the row with a shorter summary, or its id to `leftOut` if no stack runs the part.
 *
 *     npx tsx scripts/catalogue/update-advisories.ts             clones NVIDIA's repository
 *     npx tsx scripts/catalogue/update-advisories.ts FOLDER      reads a checkout of it
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { AdvisoryFile } from "../../infra/plan/catalogue/advisories.ts";
import { UserError } from "../errors.ts";

const TARGET = new URL("../../infra/plan/catalogue/data/advisories.json", import.meta.url);

/** Year of the catalogue's first release. */
const FIRST_YEAR = 2024;

type Row = AdvisoryFile["advisories"][number];

interface Bulletin {
  /** ISO 8601. */
  readonly date: string;
  readonly rows: readonly Row[];
}

const severity = z.preprocess(
  (text) => String(text).toLowerCase(),
  z.enum(["critical", "high", "medium", "low"]),
);

interface Branch {
  readonly product?: { readonly name: string; readonly product_id: string } | undefined;
  readonly branches?: readonly Branch[] | undefined;
}
const branchSchema: z.ZodType<Branch> = z.object({
  product: z.object({ name: z.string(), product_id: z.string() }).optional(),
  get branches() {
    return z.array(branchSchema).optional();
  },
});

const bulletinSchema = z.object({
  document: z.object({ title: z.string(), tracking: z.object({ current_release_date: z.string() }) }),
});

const csafSchema = z.object({
  product_tree: branchSchema,
  vulnerabilities: z.array(
    z.object({
      cve: z.string(),
      notes: z.array(z.object({ category: z.string(), text: z.string() })),
      product_status: z.object({ fixed: z.tuple([z.string()], z.unknown()) }),
      scores: z.tuple([z.object({ cvss_v3: z.object({ baseSeverity: severity }) })], z.unknown()),
    }),
  ),
});

/**
 * @param path - Year and answer id.
 * @returns null for a bulletin of another product.
 */
export function readBulletin(path: string, text: string): Bulletin | null {
  const content: unknown = JSON.parse(text);
  const { title, tracking } = bulletinSchema.parse(content).document;
  const component = componentOf(title);
  if (component === null) return null;
  const { product_tree, vulnerabilities } = csafSchema.parse(content);
  const versions = new Map(productsOf(product_tree));
  return {
    date: tracking.current_release_date.slice(0, 10),
    rows: vulnerabilities.map(({ cve, notes, product_status: { fixed }, scores: [{ cvss_v3 }] }) => ({
      id: cve,
      severity: cvss_v3.baseSeverity,
      component,
      fixedIn: (versions.get(fixed[0]) ?? fixed[0]).replace(/^[rv]|\s/g, ""),
      bulletin: path,
      summary: notes.find(({ category }) => category === "summary")?.text ?? "",
    })),
  };
}

function componentOf(title: string): Row["component"] | null {
  if (title.includes("Triton Inference Server")) return "triton";
  return /TensorRT[- ]LLM/.test(title) ? "tensorRtLlm" : null;
}

/** Versions by id of product. */
function productsOf({ product, branches = [] }: Branch): readonly (readonly [string, string])[] {
  const own = product === undefined ? [] : [[product.product_id, product.name] as const];
  return [...own, ...branches.flatMap(productsOf)];
}

/** One line for each difference: rows that are missing, changed, or in no bulletin. */
export function differences(file: AdvisoryFile, bulletins: readonly Bulletin[]): readonly string[] {
  const found = bulletins.flatMap(({ rows }) => rows);
  const known = new Map(file.advisories.map((row) => [row.id, row]));
  const newest = bulletins.map(({ date }) => date).reduce((a, b) => (a > b ? a : b), "");
  return [
    ...(newest === file.asOf ? [] : [`asOf: ${file.asOf}, the newest bulletin is of ${newest}`]),
    ...found.flatMap((row) => {
      if (Object.hasOwn(file.leftOut, row.id)) return [];
      const own = known.get(row.id);
      if (own === undefined) return [`missing: ${JSON.stringify(row)}`];
      return (["severity", "component", "fixedIn", "bulletin"] as const).flatMap((field) =>
        own[field] === row[field]
          ? []
          : [`${row.id} ${field}: ${own[field]}, ${row.bulletin} has ${row[field]}`],
      );
    }),
    ...[...known.keys(), ...Object.keys(file.leftOut)]
      .filter((id) => !found.some((row) => row.id === id))
      .map((id) => `${id} is in no bulletin`),
  ];
}

/** Reads the bulletins of a checkout: YEAR/ID/ID.json. */
function readFolder(folder: string): readonly Bulletin[] {
  const numbered = (path: string) =>
    readdirSync(path)
      .filter((name) => /^\d+$/.test(name))
      .sort();
  return numbered(folder)
    .filter((year) => Number(year) >= FIRST_YEAR)
    .flatMap((year) => numbered(join(folder, year)).map((id) => [year, id] as const))
    .flatMap(
      ([year, id]) =>
        readBulletin(`${year}/${id}`, readFileSync(join(folder, year, id, `${id}.json`), "utf8")) ?? [],
    );
}

function cloneAndRead(repository: string): readonly Bulletin[] {
  const folder = mkdtempSync(join(tmpdir(), "security-bulletins-"));
  try {
    const { status } = spawnSync("git", ["clone", "--quiet", "--depth", "1", repository, folder], {
      stdio: "inherit",
    });
    if (status !== 0) throw new UserError(`${repository} can't be cloned.`);
    return readFolder(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (process.argv[1] === import.meta.filename) {
  const file = JSON.parse(readFileSync(TARGET, "utf8")) as AdvisoryFile;
  const [, , folder] = process.argv;
  try {
    const lines = differences(file, folder === undefined ? cloneAndRead(file.source) : readFolder(folder));
    process.stdout.write(lines.map((line) => `${line}\n`).join(""));
    if (lines.length > 0) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
