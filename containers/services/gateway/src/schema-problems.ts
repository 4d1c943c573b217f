/** Problems of a request or of the configuration, in words that follow the place of a value. */
import type { z } from "zod";

/** Checks values by a schema; the messages of its fields come before those of {@link refusal}. */
export function checked<Schema extends z.ZodType>(schema: Schema, values: unknown) {
  return schema.safeParse(values, { error: refusal });
}

const TYPES: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a number",
  object: "an object",
  record: "an object",
  string: "a text",
};

/** Never holds the value, which may be a secret. */
function refusal(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return must(issue.input, TYPES[issue.expected] ?? `of type ${issue.expected}`);
    case "invalid_value": {
      const values = issue.values.map((value) => JSON.stringify(value));
      return must(issue.input, values.length === 1 ? `${values[0]}` : `one of ${values.join(", ")}`);
    }
    case "too_small":
      return bound(issue.origin, issue.minimum, issue.inclusive !== false, ["more", "at least"]);
    case "too_big":
      return bound(issue.origin, issue.maximum, issue.inclusive !== false, ["less", "at most"]);
    default:
      return "is not valid";
  }
}

const must = (input: unknown, words: string) =>
  input === undefined ? `is required, as ${words}` : `must be ${words}`;

const UNITS: Readonly<Record<string, string>> = { array: "item", string: "character" };

function bound(
  origin: string,
  limit: number | bigint,
  isInclusive: boolean,
  [further, edge]: readonly [further: string, edge: string],
): string {
  const unit = UNITS[origin];
  if (unit === undefined)
    return isInclusive ? `must be ${limit} or ${further}` : `must be ${further} than ${limit}`;
  const isOne = Number(limit) === 1;
  if (isOne && edge === "at least") return "must not be empty";
  return `must have ${edge} ${limit} ${unit}${isOne ? "" : "s"}`;
}

interface Problem {
  /** `messages[0].content`; empty for the whole. */
  readonly at: string;
  readonly message: string;
}

/** Zod's problems with a request or the configuration, in words that never hold the value itself. */
export function problemsOf(issues: readonly z.core.$ZodIssue[]): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    const { code, path, message } = issue;
    if (code === "unrecognized_keys") {
      return issue.keys.map((key) => ({
        at: dotPath([...path, key]),
        message: "unknown parameter",
      }));
    }
    const at = dotPath(path);
    if (code === "invalid_key") return issue.issues.map((inner) => ({ at, message: inner.message }));
    if (code === "invalid_union") {
      // The alternative whose problems are all inside was meant: its messages are more exact.
      const meant = issue.errors.find(
        (inner) => inner.length > 0 && inner.every((one) => one.path.length > 0),
      );
      if (meant) return problemsOf(meant.map((one) => ({ ...one, path: [...path, ...one.path] })));
    }
    return [{ at, message }];
  });
}

/** `["messages", 0, "content"]` as `messages[0].content`; empty for the whole. */
function dotPath(path: readonly PropertyKey[]): string {
  const parts = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`));
  return parts.join("").replace(/^\./, "");
}
