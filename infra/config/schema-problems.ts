/** Turns what a schema says into Problems for people. */
import { z } from "zod";
import { nearestName } from "../nearest-name.ts";
import { distinct, formatPath, type Problem, showValue, valueAt } from "../problems.ts";
import { readFormMessage } from "./common.ts";

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

/**
 * Every issue of a failed parse as a Problem.
 *
 * @param values - What was parsed, for the values to show.
 * @param schema - The schema that refused it, for the names of the keys that exist.
 */
export function schemaProblems(error: z.ZodError, values: unknown, schema: z.ZodType): readonly Problem[] {
  return distinct(flatIssues(error.issues).flatMap((issue) => issueProblems(issue, values, schema)));
}

/**
 * Issues with those of unions opened: of the forms that a value may have, the one whose outline it has is meant. A value
 * that has the outline of none keeps the union's own issue.
 */
function flatIssues(issues: readonly Issue[]): readonly Issue[] {
  return issues.flatMap((issue): readonly Issue[] => {
    if (issue.code !== "invalid_union") return [issue];
    const meant = issue.errors.find(
      (errors) => errors.length > 0 && errors.every(({ path }) => path.length > 0 || isKeyIssue(errors)),
    );
    if (meant === undefined) return [issue];
    return flatIssues(meant.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })));
  });
}

/** A mapping with keys that don't exist is still meant to be that mapping. */
function isKeyIssue(errors: readonly Issue[]): boolean {
  return errors.every(({ code, path }) => path.length > 0 || code === "unrecognized_keys");
}

function issueProblems(issue: Issue, values: unknown, schema: z.ZodType): Problem[] {
  if (issue.code === "unrecognized_keys") {
    const known = knownKeys(schema, issue.path, values);
    return issue.keys.map((key) => {
      const path = [...issue.path, shownKey(key, issue.path, known)];
      return {
        path: formatPath(path),
        value: shownValue([...issue.path, key], values),
        reason: "There is no such key.",
        fix: MISPLACED[formatPath(path)] ?? unknownKeyFix(key, known),
      };
    });
  }
  const value = valueAt(values, issue.path);
  const explained =
    releaseProblem(issue.path, value) ??
    accountProblem(issue.path, value) ??
    zoneProblem(issue, value) ??
    explain(issue, value);
  return [{ path: formatPath(issue.path), value: shownValue(issue.path, values), ...explained }];
}

/** YAML reads `25.10` as the number 25.1, and the text that the Pulumi runtime makes of it is `25.1`. */
function releaseProblem(path: Path, value: unknown): { reason: string; fix: string } | null {
  if (formatPath(path) !== "release" || (typeof value !== "number" && typeof value !== "string")) return null;
  const digits = /^\d\d(\.\d{1,2})?$/.exec(String(value))?.[0];
  if (digits === undefined) return null;
  return {
    reason: "A release is a text of two and two digits; YAML reads it as a number, and 25.10 as 25.1.",
    fix: `Write \`release: "${Number(digits).toFixed(2)}"\`, in quotes.`,
  };
}

/** YAML reads `011122223333` as a number, and numbers have no zeros at their begin. */
function accountProblem(path: Path, value: unknown): { reason: string; fix: string } | null {
  if (formatPath(path) !== "account" || (typeof value !== "number" && typeof value !== "string")) return null;
  const digits = /^\d{1,11}$/.exec(String(value))?.[0];
  if (digits === undefined) return null;
  return {
    reason: `An account has twelve digits, and this has ${digits.length}: without quotes YAML takes it for a number, whose zeros at the begin are lost.`,
    fix: `Write all twelve in quotes: "${digits.padStart(12, "0")}", where zeros are what is missing.`,
  };
}

/** AWS's consoles show zones by their full names; a stack file has the region once. */
function zoneProblem(issue: Issue, value: unknown): { reason: string; fix: string } | null {
  if (issue.code !== "invalid_value" || typeof value !== "string") return null;
  const letter = /^[a-z]{2}(?:-[a-z]+)+-\d([a-z])$/.exec(value)?.[1];
  if (letter === undefined || !issue.values.includes(letter)) return null;
  return {
    reason: "A zone is named by its letter: `region` says the rest.",
    fix: `Write the letter alone: ${letter}.`,
  };
}

/** Access tokens of the model hub, and users with passwords in addresses, wherever they were put by mistake. */
const CREDENTIALS = [/\bhf_\w{6,}/g, /(?<=:\/\/)[^/\s@"]+(?=@)/g];

/** Parts of a stack file below which credentials stand; the Pulumi runtime hands them over in clear. */
const SECRET_PARTS: readonly PropertyKey[] = ["hub", "externalDatabases"];

/**
 * A key as it may be shown: YAML takes `{ hf_… }` for a mapping with the secret as its key, and a mapping that knows
 * `secure` alone stands for a secret.
 */
function shownKey(key: string, path: Path, known: readonly string[]): string {
  const isInSecret = known.length === 1 && known[0] === "secure";
  const isWord = /^[A-Za-z][A-Za-z0-9]{0,30}$/.test(key);
  const isCredential = SECRET_PARTS.includes(path[0] ?? "") && !isWord;
  return isInSecret || isCredential ? "[secret]" : withoutCredentials(key);
}

function withoutCredentials(text: string): string {
  return CREDENTIALS.reduce((rest, credential) => rest.replace(credential, "[secret]"), text);
}

/** A value as it may be shown. */
function shownValue(path: Path, values: unknown): string {
  const value = valueAt(values, path);
  const isCredential =
    SECRET_PARTS.includes(path[0] ?? "") || path.some((key) => /token|secret|password/i.test(String(key)));
  if (isCredential && value !== undefined) return "[secret]";
  return withoutCredentials(showValue(value));
}

function explain(issue: z.core.$ZodIssue, value: unknown): { reason: string; fix: string } {
  switch (issue.code) {
    case "invalid_type":
      return value === undefined
        ? {
            reason: "It is required.",
            fix: EXAMPLES[formatPath(issue.path)] ?? `Add it, as ${article(issue.expected)}.`,
          }
        : {
            reason: `Expected ${article(issue.expected)}, found ${article(kindOf(value))}.`,
            fix: `Write ${article(issue.expected)}${typeof value === "string" && issue.expected === "number" ? ", without quotes" : ""}.`,
          };
    case "too_small":
      return tooSmall(issue);
    case "too_big":
      return tooBig(issue);
    case "invalid_value": {
      const choices = issue.values.map((choice) => JSON.stringify(choice)).join(", ");
      if (typeof value === "number" && issue.values.includes(String(value)))
        return {
          reason: "It is a text, and YAML reads it as a number.",
          fix: `Write "${value}", in quotes.`,
        };
      return { reason: "Not one of the values that exist here.", fix: `Choose one of ${choices}.` };
    }
    case "invalid_format": {
      const form = readFormMessage(issue.message);
      return form === null
        ? { reason: `${issue.message}.`, fix: "Correct it." }
        : { reason: `It ${form.rule}.`, fix: `Write it like ${form.example}.` };
    }
    case "invalid_key": {
      const [first] = flatIssues(issue.issues);
      return first === undefined
        ? { reason: `${issue.message}.`, fix: "Use another name." }
        : explain(first, value);
    }
    case "invalid_union": {
      if (issue.discriminator !== undefined && issue.errors.length === 0)
        return { reason: "Not one of the values that exist here.", fix: "Choose another one." };
      const forms = issue.errors.flatMap(([first]) =>
        first === undefined ? [] : [explain(first, value).fix],
      );
      return { reason: "It has none of the forms that it may have.", fix: [...new Set(forms)].join(" Or: ") };
    }
    default:
      return { reason: `${issue.message}.`, fix: "Correct it." };
  }
}

function tooSmall({ origin, minimum, inclusive = true }: z.core.$ZodIssueTooSmall) {
  if (origin === "array") return { reason: `Fewer than ${counted(minimum, origin)}.`, fix: "Add one." };
  const least = counted(minimum, origin);
  return inclusive
    ? { reason: `Smaller than the least allowed, ${least}.`, fix: `Use ${least} or more.` }
    : { reason: `It must be more than ${least}.`, fix: `Use more than ${least}.` };
}

function tooBig({ origin, maximum, inclusive = true }: z.core.$ZodIssueTooBig) {
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

function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

/** JSON Schema, as far as it is walked. */
interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly items?: SchemaNode;
  readonly oneOf?: readonly SchemaNode[];
  readonly anyOf?: readonly SchemaNode[];
  readonly const?: unknown;
}

/** The keys that the schema has at a path, found by walking the schema's own JSON form. */
function knownKeys(schema: z.ZodType, path: Path, values: unknown): string[] {
  let node = meantForm(z.toJSONSchema(schema, { io: "input" }) as SchemaNode, values);
  for (const [index, key] of path.entries()) {
    const rest = typeof node.additionalProperties === "object" ? node.additionalProperties : undefined;
    const next = typeof key === "number" ? node.items : (node.properties?.[String(key)] ?? rest);
    if (next === undefined) return [];
    node = meantForm(next, valueAt(values, path.slice(0, index + 1)));
  }
  return Object.keys(node.properties ?? {}).sort();
}

/** Of several forms, the one whose constants the value has, such as its `platform`; else the first with keys. */
function meantForm(node: SchemaNode, value: unknown): SchemaNode {
  const forms = node.oneOf ?? node.anyOf;
  if (forms === undefined) return node;
  const withKeys = forms.filter(({ properties }) => properties !== undefined);
  const meant = withKeys.find(({ properties = {} }) => {
    const constants = Object.entries(properties).filter(([, property]) => property.const !== undefined);
    return (
      constants.length > 0 && constants.every(([key, property]) => valueAt(value, [key]) === property.const)
    );
  });
  return meant ?? withKeys[0] ?? node;
}

function unknownKeyFix(key: string, known: readonly string[]): string {
  const nearest = nearestName(key, known);
  if (nearest !== undefined) return `Did you mean \`${nearest}\`?`;
  return known.length > 0 ? `Remove it; the keys here are ${known.join(", ")}.` : "Remove it.";
}
