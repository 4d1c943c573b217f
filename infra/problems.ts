/**
 * One way to say what is wrong with a stack file. Every check of the program, from a wrong type to a model that does
 * not fit its GPU, ends as a Problem, so that all of them can be shown together before anything is created.
 */
export interface Problem {
  /** Where in the stack file: `models[0].maxTokens`. */
  readonly path: string;
  /** The value found there, as JSON; `[secret]` for a secret, `(absent)` where nothing is set. */
  readonly value: string;
  /** Why it can't be used, with the numbers that decide. */
  readonly reason: string;
  /** What to write instead. */
  readonly fix: string;
}

/** Thrown once, with all problems of a stack. Its message is meant to be shown without a stack trace. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];
  /** By which the SDK knows a `pulumi.RunError`, whose message the engine shows alone; this file imports nothing. */
  readonly __pulumiRunError = true;

  constructor(problems: readonly Problem[]) {
    super(formatProblems(problems));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** Text for people: a numbered list, three lines a problem. */
function formatProblems(problems: readonly Problem[]): string {
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  const lines = problems.map(
    (problem, index) =>
      `  ${index + 1}. ${problem.path} = ${problem.value}\n     ${problem.reason}\n     Fix: ${problem.fix}`,
  );
  return `${count} in the stack's configuration; nothing was changed:\n${lines.join("\n")}`;
}

/** Each mistake once: two checks may find the same. */
export function distinct<T extends Pick<Problem, "path" | "reason">>(problems: readonly T[]): readonly T[] {
  const seen = new Set<string>();
  return problems.filter(({ path, reason }) => {
    const text = `${path}\n${reason}`;
    return !seen.has(text) && seen.add(text);
  });
}

const LONGEST_SHOWN_VALUE = 120;

/** A value as it may be shown: JSON, cut, and without anything that the stack file marks as `secure`. */
export function showValue(value: unknown): string {
  if (value === undefined) return "(absent)";
  const text =
    JSON.stringify(value, (_key, inner: unknown) => (isSecure(inner) ? "[secret]" : inner)) ?? "(absent)";
  return text.length > LONGEST_SHOWN_VALUE ? `${text.slice(0, LONGEST_SHOWN_VALUE)}…` : text;
}

/** Whether a value is an encrypted one of a stack file: `{ secure: "v1:…" }`. */
export function isSecure(value: unknown): value is { readonly secure: string } {
  return typeof value === "object" && value !== null && Object.keys(value).length === 1 && "secure" in value;
}

/** `["models", 0, "name"]` as `models[0].name`. */
export function formatPath(path: readonly PropertyKey[]): string {
  const text = path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
    .join("")
    .replace(/^\./, "");
  return text === "" ? "(stack file)" : text;
}

/** `models[0].limits` as `["models", "0", "limits"]`. */
export function pathParts(path: string): readonly string[] {
  return path.match(/[^.[\]]+/g) ?? [];
}

/** The value at a path; undefined where the path leads nowhere. */
export function valueAt(values: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      typeof inner === "object" && inner !== null ? (inner as Record<PropertyKey, unknown>)[key] : undefined,
    values,
  );
}

/** The command that puts a secret into a stack file, encrypted, for a fix. @param path - `hub.token`. */
export function secretCommand(path: string): string {
  return `\`pulumi config set --stack STACK --secret --path engine-room:${path}\``;
}
