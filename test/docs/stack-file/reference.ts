/** Every key of the stack file on every platform, as Markdown between the marks of the pages of docs/stack-file. */
import { KIND_KEYS, stackKinds } from "../../../infra/config/config.ts";
import { Sources } from "./comments.ts";
import { type Key, keysOf } from "./keys.ts";
import { unitOf } from "./value-descriptions.ts";

/** `says`: keys by which a stack file has this kind; the first kind of a platform needs only the platform. */
const KINDS = stackKinds.map(({ kind, schema }) => {
  const first: Readonly<Record<string, string>> = {
    ...stackKinds.find((other) => other.kind.platform === kind.platform)?.kind,
  };
  const said = Object.entries(kind).filter(([key, value]) => key === "platform" || value !== first[key]);
  const name = "compute" in kind ? kind.compute : said.map(([, value]) => value).join("-");
  return { name, kind, says: said.map(([key, value]) => `${key}: ${value}`).join(", "), schema };
});

/** A row of a model is the same as one of the catalogue, whose interface has the comments. */
const CATALOGUE_ROW = { path: "catalogue.models.NAME.", interface: "LanguageModel" } as const;

const SOURCES = ["infra/config/config.ts", "infra/plan/catalogue/types.ts"];

interface Row extends Key {
  /** Names of the kinds of stacks with this row. */
  readonly kinds: readonly string[];
}

type DescribedKind = (typeof KINDS)[number] & { readonly keys: readonly Key[] };

let described: readonly DescribedKind[] | undefined;

/** Kinds of stacks with their keys. Takes seconds the first time: the compiler reads the schemas' sources for their comments. */
export function describedKinds(): readonly DescribedKind[] {
  if (described !== undefined) return described;
  const sources = new Sources(SOURCES);
  described = KINDS.map((kind, index) => ({
    ...kind,
    keys: keysOf(kind.schema, sources.schema("stackKinds", index))
      .filter(({ path }) => !KIND_KEYS.some((key) => key === path))
      .map((key) => withSentence(key, sources)),
  }));
  return described;
}

/** Pages by the stacks whose keys they have; a key is on the first page that has all of its stacks. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  local: ["local"],
  docker: ["docker", "docker-cpu"],
  aws: ["eks", "ec2"],
  kubernetes: ["kubernetes", "kubernetes-cpu", "eks"],
  shared: KINDS.map(({ name }) => name),
};

/** Stacks of a row of the shared page that names no stacks. */
const WITH_GPUS = ["docker", "kubernetes", "eks", "ec2"];

/** @returns Lines of Markdown, by page. */
export function stackFilePages(): Readonly<Record<string, readonly string[]>> {
  const rows = sharedRows(describedKinds());
  return Object.fromEntries(
    Object.keys(PAGES).map((page) => [
      page,
      pageLines(
        page,
        rows.filter(({ kinds }) => pageOf(kinds) === page),
      ),
    ]),
  );
}

function pageOf(kinds: readonly string[]): string | undefined {
  return Object.keys(PAGES).find((page) => kinds.every((kind) => PAGES[page]?.includes(kind)));
}

function pageLines(page: string, rows: readonly Row[]): readonly string[] {
  const byTop = [...new Set(rows.map(topOf))].sort().map((top) => ({
    top,
    rows: rows.filter((row) => topOf(row) === top),
  }));
  const [single, several] = [true, false].map((isSingle) =>
    byTop.filter((one) => isSingle === one.rows.every(({ path }) => path === one.top)),
  ) as [typeof byTop, typeof byTop];
  const tables = [
    ...(single.length === 0 ? [] : [{ title: "Keys of one value", rows: single.flatMap((one) => one.rows) }]),
    ...several.map((one) => ({ title: `\`${one.top}\``, rows: one.rows })),
  ];
  return tables.flatMap((table, index) => [
    ...(index === 0 ? [] : [""]),
    `## ${table.title}`,
    "",
    ...rowTable(page, table.rows),
  ]);
}

function rowTable(page: string, rows: readonly Row[]): readonly string[] {
  const usual = page === "shared" ? WITH_GPUS : (PAGES[page] ?? []);
  const columns = ["Key", "Value", "Default", "What"];
  const tables = rows.some(({ kinds }) => kinds.join() !== usual.join()) ? [...columns, "Stacks"] : columns;
  return [
    `| ${tables.join(" | ")} |`,
    `|${"---|".repeat(tables.length)}`,
    ...rows.map((row) =>
      rowLine(
        row,
        tables.length > columns.length ? [row.kinds.join() === usual.join() ? "" : stacksOf(row)] : [],
      ),
    ),
  ];
}

function stacksOf({ kinds }: Row): string {
  return kinds.length === KINDS.length ? "all" : kinds.join(", ");
}

/** Kinds of stacks, and what each requires. */
export function kindTable(): readonly string[] {
  const rows = sharedRows(describedKinds());
  return [
    "| Stack | Its file says | Also required |",
    "|---|---|---|",
    ...KINDS.map(({ name, says }) => {
      const required = rows.filter(
        (row) => row.kinds.includes(name) && row.default === "required" && /^\w+$/.test(row.path),
      );
      return `| ${name} | \`${says}\` | ${required.map(({ path }) => `\`${path}\``).join(", ")} |`;
    }),
  ];
}

function withSentence(key: Key, sources: Sources): Key {
  if (!key.path.startsWith(CATALOGUE_ROW.path)) return key;
  const path = key.path.slice(CATALOGUE_ROW.path.length).replaceAll("[]", "").split(".");
  return { ...key, sentence: sources.memberSentence(CATALOGUE_ROW.interface, path) || key.sentence };
}

/** One row for a key that is equal in several kinds, in the order of the first kind that has it. */
function sharedRows(
  all: readonly { readonly name: string; readonly keys: readonly Key[] }[],
): readonly Row[] {
  const byContent = new Map<string, Row>();
  for (const { name, keys } of all)
    for (const key of keys) {
      const content = JSON.stringify(key);
      const kinds = [...(byContent.get(content)?.kinds ?? []), name];
      byContent.set(content, { ...key, kinds });
    }
  const rows = [...byContent.values()];
  const order = [...new Set(rows.flatMap(({ path }) => foldersOf(path)))];
  const placeOf = ({ path }: Row) => foldersOf(path).map((folder) => order.indexOf(folder));
  return rows.toSorted((a, b) => comparePlaces(placeOf(a), placeOf(b)));
}

/** `pools`, `pools.nodes` and `pools.nodes.min` of `pools[].nodes.min`. */
function foldersOf(path: string): readonly string[] {
  const names = path.replaceAll("[]", "").split(".");
  return names.map((_, index) => names.slice(0, index + 1).join("."));
}

/** Sorts a key before the keys below it. */
function comparePlaces(a: readonly number[], b: readonly number[]): number {
  const level = a.findIndex((place, index) => place !== b[index]);
  return level === -1 ? a.length - b.length : (a[level] ?? 0) - (b[level] ?? -1);
}

/** `pools` of `pools[].name`. */
function topOf({ path }: Key): string {
  return /^\w+/.exec(path)?.[0] ?? path;
}

function rowLine(row: Row, stacks: readonly string[]): string {
  const { path, forms, value, default: absent, sentence } = row;
  const unit = /\d/.test(value) ? unitOf(path) : "";
  const cells = [
    `\`${path}\``,
    [value, ...(unit === "" ? [] : [unit])].join(" ") +
      (forms.length === 0 ? "" : `; with ${forms.map((form) => `\`${form}\``).join(", ")}`),
    absent,
    sentence,
    ...stacks,
  ];
  return `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
}
