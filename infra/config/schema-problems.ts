/** Describes what a schema refuses. Messages have a line with the reason and one with each fix. */
import type { z } from "zod";
import {
  counted,
  distinct,
  formatPath,
  isSecure,
  nearestName,
  type Problem,
  pathParts,
  shownKey,
  shownValue,
} from "../problems.ts";

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;
type RawIssue = z.core.$ZodRawIssue;

/** Keys that are looked for where they can't be, with what to do instead. */
const MISPLACED: Readonly<Record<string, string>> = {
  "host.sharing":
    "Remove it: containers of one host share a GPU by themselves if their gpuIndices say so, and their memory is added up.",
  "gateway.tls": "Remove it, and let a proxy of your own end TLS before the gateway.",
  "gateway.hostname": "Remove it, and let a proxy of your own end TLS before the gateway.",
  "gateway.replicas": "Remove it: one gateway runs on a machine.",
};

/**
 * @param issues - With messages of {@link schemaMessage}.
 * @param elsewhere - Problem that names the kinds of stacks with an unrecognized key; undefined if no kind has it.
 */
export function schemaProblems(
  issues: readonly Issue[],
  values: unknown,
  elsewhere: (path: Path) => { reason: string; fix: string } | undefined,
): readonly Problem[] {
  const problems = flatIssues(issues).flatMap((issue): Problem[] => {
    const [reason = "", ...given] = issue.message.split("\n");
    if (issue.code !== "unrecognized_keys") {
      const value = shownValue(issue.path, values);
      const path = formatPath(issue.path);
      return (given.length === 0 ? ["Correct it."] : given).map((fix) => ({ path, value, reason, fix }));
    }
    return issue.keys.map((key, index) => {
      const [path, shown] = [
        [...issue.path, key],
        [...issue.path, shownKey(key, issue.path)],
      ];
      const words = { reason, fix: given[index] ?? "Remove it." };
      const moved = MISPLACED[formatPath(path)] === undefined ? elsewhere(path) : undefined;
      if (moved !== undefined && words.fix.startsWith("Did you mean"))
        moved.fix = `${words.fix} Or${moved.fix.replace("Remove it, or", "")}`;
      return { path: formatPath(shown), value: shownValue(path, values, false), ...(moved ?? words) };
    });
  });
  return distinct(problems);
}

/** Schemas of the key at a path, in each form that has it; empty if none has. */
export function schemasOfKey(schema: z.core.$ZodType, path: Path): readonly z.core.$ZodType[] {
  const [key, ...rest] = path;
  if (key === undefined) return [schema];
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
      return schemasOfKey(def.innerType, path);
    case "array":
      return typeof key === "number" ? schemasOfKey(def.element, rest) : [];
    case "record":
      return schemasOfKey(def.valueType, rest);
    case "union":
      return def.options.flatMap((option) => schemasOfKey(option, path));
    case "object": {
      const inner = def.shape[String(key)];
      return inner === undefined ? [] : schemasOfKey(inner, rest);
    }
    default:
      return [];
  }
}

/**
 * Replaces the issue of a union by the issues of the form whose outline the value has. A value without the outline of any
 * form keeps the union's own issue.
 */
function flatIssues(issues: readonly Issue[]): readonly Issue[] {
  return issues.flatMap((issue) => {
    const meant = issue.code === "invalid_union" ? issue.errors.find(hasOutline) : undefined;
    if (meant === undefined) return [issue];
    return flatIssues(meant.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })));
  });
}

/** A mapping with keys that don't exist is still meant to be that mapping. */
function hasOutline(errors: readonly Issue[]): boolean {
  return (
    errors.length > 0 && errors.every(({ code, path }) => path.length > 0 || code === "unrecognized_keys")
  );
}

const INVALID = "It is not valid.\nCorrect it.";

/** For issues whose schema has no message of its own. */
export function schemaMessage(issue: RawIssue): string {
  const { input, path = [] } = issue;
  switch (issue.code) {
    case "unrecognized_keys": {
      const known = Object.keys((issue.inst as Partial<z.ZodObject> | undefined)?.shape ?? {}).sort();
      return ["Unknown key.", ...issue.keys.map((key) => keyFix(key, path, known))].join("\n");
    }
    case "invalid_type":
      return typeMessage(issue.expected, input, path);
    case "too_small":
    case "too_big":
      return boundMessage(issue);
    case "invalid_value":
      return typeof input === "number" && issue.values.includes(String(input))
        ? `It is a text, and YAML reads it as a number.\nWrite "${input}", in quotes.`
        : `Unknown value.\n${choices(issue.values)}`;
    case "invalid_key":
      return flatIssues(issue.issues)[0]?.message ?? INVALID;
    case "invalid_union": {
      if (Array.isArray(issue.options)) return `Unknown value.\n${choices(issue.options)}`;
      const fixes = issue.errors.flatMap(([first]) => first?.message.split("\n").slice(1) ?? []);
      return `Does not match any allowed form.\n${[...new Set(fixes)].join(" Or: ")}`;
    }
    default:
      return INVALID;
  }
}

function keyFix(key: string, path: Path, known: readonly string[]): string {
  const misplaced = MISPLACED[formatPath([...path, key])];
  if (misplaced !== undefined) return misplaced;
  const [first = "", ...inner] = pathParts(key);
  if (path.length === 0 && inner.length > 0 && known.includes(first))
    return `Without \`--path\` the CLI reads a dot as part of the name: run \`pulumi config rm engine-room:${key}\`, then \`pulumi config set --path engine-room:${key} VALUE\`.`;
  const nearest = nearestName(key, known);
  if (nearest !== undefined) return `Did you mean \`${nearest}\`?`;
  return `Remove it${known.length === 0 ? "" : `; the keys here are ${known.join(", ")}`}.`;
}

function choices(values: readonly unknown[]): string {
  const [only, ...others] = values.map((value) => JSON.stringify(value));
  return others.length === 0 ? `Write ${only}.` : `Choose one of ${[only, ...others].join(", ")}.`;
}

const TYPES: Readonly<Record<string, string>> = {
  int: "a whole number",
  number: "a number",
  array: "a list",
  object: "a mapping",
  string: "a text",
  null: "nothing",
};

/** The unit that a key's name ends with, as in `diskGiB`, with a space before it; empty without a unit. */
function unitOf(path: Path | undefined): string {
  const unit = /(MiB|GiB|GB|Seconds|Microseconds|Hours|Days|Tokens)$/.exec(String(path?.at(-1)))?.[1] ?? "";
  return unit === "" ? "" : ` ${unit.endsWith("B") ? unit : unit.toLowerCase()}`;
}

function typeMessage(expected: string, input: unknown, path: Path | undefined): string {
  const wanted = TYPES[expected] ?? `a ${expected}`;
  if (input === undefined) return `It is required.\nAdd it, as ${wanted}.`;
  if (isSecure(input) && expected !== "object")
    return "It is encrypted, and only the Pulumi CLI decrypts it.\nWrite it in plain text: `npx engine-room` needs it for the plan.";
  const type = input === null ? "null" : Array.isArray(input) ? "array" : typeof input;
  const isQuoted = typeof input === "string" && expected === "number" && /^\d+(\.\d+)?$/.test(input);
  const unit = unitOf(path).trim();
  const form = isQuoted ? ", without quotes" : unit === "" ? "" : ` without a unit: it is in ${unit}`;
  return `Expected ${wanted}, found ${TYPES[type] ?? `a ${type}`}.\nWrite ${wanted}${form}.`;
}

/** For a number beyond a bound, and for a text or a list of another length. */
function boundMessage(issue: z.core.$ZodRawIssue<z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig>): string {
  const { origin, inclusive = true } = issue;
  const isTooSmall = issue.code === "too_small";
  const number = Number(isTooSmall ? issue.minimum : issue.maximum);
  if (origin === "array") {
    const entries = counted(number, "entry", "entries");
    if (isTooSmall && number === 1)
      return "The list is empty.\nAdd an entry, or leave out the key if it has a default.";
    return isTooSmall ? `Fewer than ${entries}.\nAdd more.` : `More than ${entries}.\nKeep ${entries}.`;
  }
  const bound = origin === "string" ? counted(number, "character") : `${number}${unitOf(issue.path)}`;
  const more = isTooSmall ? "more" : "less";
  if (!inclusive) return `It must be ${more} than ${bound}.\nUse ${more} than ${bound}.`;
  return `${isTooSmall ? "Smaller than the minimum" : "Larger than the maximum"} allowed, ${bound}.\nUse ${bound} or ${more}.`;
}
