/** Parses by a schema, and describes what it refuses. */
import type { z } from "zod";
import { nearestName } from "../nearest-name.ts";
import { distinct, formatPath, type Problem, showValue, valueAt } from "../problems.ts";
import { type Explanation, readMessage, schemaMessage } from "./common.ts";

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;

/** What to write for a mapping that a first stack file is likely to lack. */
const EXAMPLES: Readonly<Record<string, string>> = {
  host: "Add it, such as `engine-room:host: { instanceType: g5.4xlarge, diskGiB: 250 }`; without `uri` it is this machine.",
};

/** Keys that are looked for where they can't be, with what to do instead. */
const MISPLACED: Readonly<Record<string, string>> = {
  "host.sharing":
    "Remove it: containers of one host share a GPU by themselves where their gpuIndices say so, and their memory is added up.",
  "gateway.tls": "Remove it, and let a proxy of your own end TLS before the gateway.",
  "gateway.hostname": "Remove it, and let a proxy of your own end TLS before the gateway.",
  "gateway.replicas": "Remove it: one gateway runs on a machine.",
};

/** @returns What the schema makes of the values, or all that it refuses. */
export function parseBySchema<Schema extends z.ZodType>(
  schema: Schema,
  values: unknown,
): { readonly data: z.infer<Schema> } | { readonly data: null; readonly problems: readonly Problem[] } {
  const parsed = schema.safeParse(values, { error: (issue) => schemaMessage(explain(issue)) });
  if (parsed.success) return { data: parsed.data };
  const problems = flatIssues(parsed.error.issues).flatMap(({ path, message }) =>
    readMessage(message).map(({ reason, fix, key }) => ({
      path: formatPath(key === undefined ? path : [...path, shownKey(key, path)]),
      value: shownValue(key === undefined ? path : [...path, key.name], values),
      reason,
      fix,
    })),
  );
  return { data: null, problems: distinct(problems) };
}

/**
 * Issues with those of unions opened: of the forms that a value may have, the one whose outline it has is meant. A value
 * that has the outline of none keeps the union's own issue.
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

function explain(issue: z.core.$ZodRawIssue): readonly Explanation[] {
  const { input } = issue;
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => explainKey(key, issue.path ?? [], issue.inst));
    case "invalid_type":
      return [explainType(issue.expected, input, issue.path ?? [])];
    case "too_small":
      return [tooSmall(issue)];
    case "too_big":
      return [tooBig(issue)];
    case "invalid_value":
      if (typeof input === "number" && issue.values.includes(String(input))) {
        return [
          { reason: "It is a text, and YAML reads it as a number.", fix: `Write "${input}", in quotes.` },
        ];
      }
      return [
        {
          reason: "Unknown value.",
          fix: `Choose one of ${issue.values.map((choice) => JSON.stringify(choice)).join(", ")}.`,
        },
      ];
    case "invalid_key":
      return readMessage(flatIssues(issue.issues)[0]?.message ?? "");
    case "invalid_union": {
      if (issue.errors.length === 0) return [{ reason: "Unknown value.", fix: "Choose another one." }];
      const fixes = issue.errors.flatMap(([first]) =>
        readMessage(first?.message ?? "").map(({ fix }) => fix),
      );
      return [
        {
          reason: "Does not match any allowed form.",
          fix: [...new Set(fixes)].join(" Or: "),
        },
      ];
    }
    default:
      return [];
  }
}

function explainKey(key: string, path: Path, schema: object | undefined): Explanation {
  const known = Object.keys((schema as Partial<z.ZodObject> | undefined)?.shape ?? {}).sort();
  const nearest = nearestName(key, known);
  const others = known.length === 0 ? "" : `; the keys here are ${known.join(", ")}`;
  const fix = nearest === undefined ? `Remove it${others}.` : `Did you mean \`${nearest}\`?`;
  return {
    reason: "There is no such key.",
    fix: MISPLACED[formatPath([...path, key])] ?? fix,
    key: { name: key, isSecret: known.length === 1 && known[0] === "secure" },
  };
}

function explainType(expected: string, input: unknown, path: Path): Explanation {
  const wanted = article(expected);
  if (input === undefined)
    return { reason: "It is required.", fix: EXAMPLES[formatPath(path)] ?? `Add it, as ${wanted}.` };
  const found = input === null ? "null" : Array.isArray(input) ? "array" : typeof input;
  const isQuoted = typeof input === "string" && expected === "number";
  return {
    reason: `Expected ${wanted}, found ${article(found)}.`,
    fix: `Write ${wanted}${isQuoted ? ", without quotes" : ""}.`,
  };
}

function tooSmall({
  origin,
  minimum,
  inclusive = true,
}: Omit<z.core.$ZodIssueTooSmall, "path" | "message">): Explanation {
  const least = counted(minimum, origin);
  if (origin === "array") return { reason: `Fewer than ${least}.`, fix: "Add one." };
  return inclusive
    ? { reason: `Smaller than the least allowed, ${least}.`, fix: `Use ${least} or more.` }
    : { reason: `It must be more than ${least}.`, fix: `Use more than ${least}.` };
}

function tooBig({
  origin,
  maximum,
  inclusive = true,
}: Omit<z.core.$ZodIssueTooBig, "path" | "message">): Explanation {
  const most = counted(maximum, origin);
  if (origin === "array") return { reason: `More than ${most}.`, fix: `Keep ${most}.` };
  return inclusive
    ? { reason: `Larger than the most allowed, ${most}.`, fix: `Use ${most} or less.` }
    : { reason: `It must be less than ${most}.`, fix: `Use less than ${most}.` };
}

/** `1 entry`, `40 characters`, `65535` */
function counted(number: number | bigint, origin: string): string {
  const isOne = Number(number) === 1;
  if (origin === "string") return `${number} character${isOne ? "" : "s"}`;
  if (origin === "array") return `${number} ${isOne ? "entry" : "entries"}`;
  return String(number);
}

function article(kind: string): string {
  const names: Record<string, string> = {
    int: "a whole number",
    number: "a number",
    array: "a list",
    object: "a mapping",
    null: "nothing",
  };
  return names[kind] ?? `a ${kind}`;
}

/** Access tokens of the model hub, and users with passwords in addresses, wherever they were put by mistake. */
const CREDENTIALS = [/\bhf_\w{6,}/g, /(?<=:\/\/)[^/\s@"]+(?=@)/g];

/** Parts of a stack file that hold credentials; the Pulumi runtime passes them in plain text. */
const SECRET_PARTS: readonly PropertyKey[] = ["hub", "externalDatabases"];

/**
 * A key as it may be shown: YAML takes `{ hf_… }` for a mapping with the secret as its key, and a mapping that knows
 * `secure` alone stands for a secret.
 */
function shownKey({ name, isSecret }: NonNullable<Explanation["key"]>, path: Path): string {
  const isWord = /^[A-Za-z][A-Za-z0-9]{0,30}$/.test(name);
  const isCredential = isSecret || (SECRET_PARTS.includes(path[0] ?? "") && !isWord);
  return isCredential ? "[secret]" : withoutCredentials(name);
}

/** A value as it may be shown. */
function shownValue(path: Path, values: unknown): string {
  const value = valueAt(values, path);
  const isCredential =
    SECRET_PARTS.includes(path[0] ?? "") || path.some((key) => /token|secret|password/i.test(String(key)));
  if (isCredential && value !== undefined) return "[secret]";
  return withoutCredentials(showValue(value));
}

function withoutCredentials(text: string): string {
  return CREDENTIALS.reduce((rest, credential) => rest.replace(credential, "[secret]"), text);
}
