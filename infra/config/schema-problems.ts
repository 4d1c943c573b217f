/** Describes what a schema refuses. Messages have a line with the reason and one with each fix. */
import type { z } from "zod";
import {
  distinct,
  formatPath,
  isSecure,
  nearestName,
  type Problem,
  pathParts,
  showValue,
  valueAt,
} from "../problems.ts";
import { SECRET_PATHS } from "./common.ts";

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;
type RawIssue = z.core.$ZodRawIssue;

/** Keys that are looked for where they can't be, with what to do instead. */
const MISPLACED: Readonly<Record<string, string>> = {
  "host.sharing":
    "Remove it: containers of one host share a GPU by themselves where their gpuIndices say so, and their memory is added up.",
  "gateway.tls": "Remove it, and let a proxy of your own end TLS before the gateway.",
  "gateway.hostname": "Remove it, and let a proxy of your own end TLS before the gateway.",
  "gateway.replicas": "Remove it: one gateway runs on a machine.",
};

/** @param issues - With messages of {@link schemaMessage}. */
export function schemaProblems(issues: readonly Issue[], values: unknown): readonly Problem[] {
  const problems = flatIssues(issues).flatMap((issue) => {
    const [reason = "", ...given] = issue.message.split("\n");
    const fixes = given.length === 0 ? ["Correct it."] : given;
    return fixes.map((fix, index): Problem => {
      const key = issue.code === "unrecognized_keys" ? issue.keys.slice(index, index + 1) : [];
      const shown = key.map((name) => shownKey(name, issue.path));
      return {
        path: formatPath([...issue.path, ...shown]),
        value: shownValue([...issue.path, ...key], values),
        reason,
        fix,
      };
    });
  });
  return distinct(problems);
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

const INVALID = "It is not valid.\nCorrect it.";

/** For issues whose schema has no message of its own. */
export function schemaMessage(issue: RawIssue): string {
  const { input, path = [] } = issue;
  switch (issue.code) {
    case "unrecognized_keys": {
      const known = Object.keys((issue.inst as Partial<z.ZodObject> | undefined)?.shape ?? {}).sort();
      return ["There is no such key.", ...issue.keys.map((key) => keyFix(key, path, known))].join("\n");
    }
    case "invalid_type":
      return typeMessage(issue.expected, input);
    case "too_small":
    case "too_big":
      return boundMessage(issue);
    case "invalid_value":
      return typeof input === "number" && issue.values.includes(String(input))
        ? `It is a text, and YAML reads it as a number.\nWrite "${input}", in quotes.`
        : `Unknown value.\nChoose one of ${issue.values.map((choice) => JSON.stringify(choice)).join(", ")}.`;
    case "invalid_key":
      return flatIssues(issue.issues)[0]?.message ?? INVALID;
    case "invalid_union": {
      if (issue.errors.length === 0) return "Unknown value.\nChoose another one.";
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
    return `The CLI takes a dot for a part of the name, unless it is told \`--path\`: run \`pulumi config rm engine-room:${key}\`, then \`pulumi config set --path engine-room:${key} VALUE\`.`;
  const nearest = nearestName(key, known);
  if (nearest !== undefined) return `Did you mean \`${nearest}\`?`;
  return `Remove it${known.length === 0 ? "" : `; the keys here are ${known.join(", ")}`}.`;
}

const TYPES: Readonly<Record<string, string>> = {
  int: "a whole number",
  number: "a number",
  array: "a list",
  object: "a mapping",
  null: "nothing",
};

function typeMessage(expected: string, input: unknown): string {
  const wanted = TYPES[expected] ?? `a ${expected}`;
  if (input === undefined) return `It is required.\nAdd it, as ${wanted}.`;
  if (isSecure(input) && expected !== "object")
    return "It is encrypted, and only the Pulumi CLI decrypts it.\nWrite it in plain text: `npx engine-room` needs it for the plan.";
  const type = input === null ? "null" : Array.isArray(input) ? "array" : typeof input;
  const isQuoted = typeof input === "string" && expected === "number";
  return `Expected ${wanted}, found ${TYPES[type] ?? `a ${type}`}.
Write ${wanted}${isQuoted ? ", without quotes" : ""}.`;
}

/** For a number beyond a bound, and for a text or a list of another length. */
function boundMessage(issue: z.core.$ZodRawIssue<z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig>): string {
  const { origin, inclusive = true } = issue;
  const isTooSmall = issue.code === "too_small";
  const number = Number(isTooSmall ? issue.minimum : issue.maximum);
  if (origin === "array") {
    const entries = `${number} ${number === 1 ? "entry" : "entries"}`;
    return isTooSmall ? `Fewer than ${entries}.\nAdd one.` : `More than ${entries}.\nKeep ${entries}.`;
  }
  const bound = origin === "string" ? `${number} character${number === 1 ? "" : "s"}` : String(number);
  const more = isTooSmall ? "more" : "less";
  if (!inclusive) return `It must be ${more} than ${bound}.\nUse ${more} than ${bound}.`;
  return `${isTooSmall ? "Smaller than the least" : "Larger than the most"} allowed, ${bound}.\nUse ${bound} or ${more}.`;
}

/** Access tokens of the model hub, and users with passwords in addresses, wherever they were put by mistake. */
const CREDENTIALS = [/\bhf_\w{6,}/g, /(?<=:\/\/)[^/\s@"]+(?=@)/g];

/** Parts of a stack file that hold credentials; the Pulumi runtime passes them in plain text. */
const SECRET_PARTS: readonly PropertyKey[] = SECRET_PATHS.flatMap((path) => pathParts(path).slice(0, 1));

/** An unknown key as it may be shown: YAML takes `{ hf_… }` for a mapping with the secret as its key. */
function shownKey(name: string, path: Path): string {
  const isWord = /^[A-Za-z][A-Za-z0-9]{0,30}$/.test(name);
  const isCredential =
    SECRET_PATHS.includes(formatPath(path)) || (SECRET_PARTS.includes(path[0] ?? "") && !isWord);
  return isCredential ? "[secret]" : withoutCredentials(name);
}

/** A value as it may be shown. */
function shownValue(path: Path, values: unknown): string {
  const value = valueAt(values, path);
  const isCount = typeof value === "number" && /Tokens$/.test(String(path.at(-1)));
  const isCredential =
    SECRET_PARTS.includes(path[0] ?? "") ||
    (!isCount && path.some((key) => /token|secret|password/i.test(String(key))));
  if (isCredential && value !== undefined) return "[secret]";
  return withoutCredentials(showValue(value));
}

function withoutCredentials(text: string): string {
  return CREDENTIALS.reduce((rest, credential) => rest.replace(credential, "[secret]"), text);
}
