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

/**
 * The nearest name, ignoring case, for a suggestion; undefined where more than a third of the letters would have to change.
 * Two names of one letter are one change apart, and have nothing in common.
 */
export function nearestName(typed: string, names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => ({ name, distance: editDistance(typed.toLowerCase(), name.toLowerCase()) }))
    .filter(
      ({ distance }) => distance < typed.length && distance <= Math.max(1, Math.floor(typed.length / 3)),
    )
    .sort((a, b) => a.distance - b.distance);
  return nearest?.name;
}

/** Optimal string alignment: letters to change, add or leave out, and neighbours to swap. */
export function editDistance(a: string, b: string): number {
  let before: readonly number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const transposition = isSwapped ? (before[j - 2] ?? 0) + 1 : Infinity;
      next.push(Math.min(substitution, transposition, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
