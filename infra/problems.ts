/**
 * A mistake in a stack file. Every check of the program, from a wrong type to a model that does
 * not fit its GPU, ends as a Problem, so that all of them can be shown together before anything is created.
 */
export interface Problem {
  /** Where in the stack file: `models[0].maxTokens`. */
  readonly path: string;
  /** The value found there, as JSON; `[secret]` for a secret, `(absent)` if nothing is set. */
  readonly value: string;
  /** Why it can't be used, with the numbers that decide. */
  readonly reason: string;
  readonly fix: string;
  /** Line of the stack file, from 1; absent if it is not known. */
  readonly line?: number;
  /** `plan --full` lists all that the reason counts. */
  readonly isListedByFull?: true;
}

/** Thrown once, with all problems of a stack. Its message is meant to be shown without a stack trace. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];
  /** Marks a `pulumi.RunError` for the SDK, so that the engine shows only the message; this file imports nothing. */
  readonly __pulumiRunError = true;

  /** @param file - Stack file of the lines, as the user would type it; absent when no problem has a line. */
  constructor(problems: readonly Problem[], file?: string) {
    super(formatProblems(problems, file));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** Text for people: a numbered list, three lines a problem; a reason may have more. */
function formatProblems(problems: readonly Problem[], file = "the stack's configuration"): string {
  const lines = problems.map(({ path, value, reason, fix, line }, index) => {
    const what = path === file ? "" : `${path} = ${value}`;
    const head = line === undefined ? what : `${file}:${line}  ${what}`.trimEnd();
    return `  ${index + 1}. ${head}\n     ${reason.replaceAll("\n", "\n     ")}\n     Fix: ${fix}`;
  });
  return `${counted(problems.length, "problem")} in ${file}:\n${lines.join("\n")}`;
}

/** `1 problem`, `2 problems`. */
export function counted(count: number, singular: string, plural = `${singular}s`): string {
  return `${count} ${count === 1 ? singular : plural}`;
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

type Path = readonly PropertyKey[];

/** Every key that is a credential on some platform. */
export const SECRET_PATHS: readonly string[] = [
  "hub.token",
  "externalDatabases.mongo.uri",
  "externalDatabases.vector.apiKey",
];

const SECRET = "[secret]";

/**
 * Access tokens of the model hub, and users with passwords in addresses, with a scheme or without, wherever they were put by mistake. An image
 * with a tag and a digest looks like the latter.
 */
const CREDENTIALS = [
  /\bhf_\w{6,}/g,
  /(?<=:\/\/)[^/\s@"]+(?=@)/g,
  /(?<![^\s"'`])[^/\s@"'`:]+:[^/\s@"'`]+(?=@(?!sha256:)\w)/g,
];

/** Names that an unknown key with a credential may have. */
const CREDENTIAL_NAME =
  /token|secret|password|passphrase|credential|kubeconfig|webhook|(api|access|private)[ _-]?key/i;

/** Text without the credentials that can be told by their form. */
export function withoutCredentials(text: string): string {
  return CREDENTIALS.reduce((rest, credential) => rest.replace(credential, SECRET), text);
}

/**
 * The value at a path as JSON, cut; the Pulumi runtime passes credentials in plain text.
 *
 * @param isKnown - Whether the schema has the key; by an unknown one a credential may have been meant. @default true
 */
export function shownValue(path: Path, values: unknown, isKnown = true): string {
  const value = masked(valueAt(values, path), path, isKnown);
  return value === SECRET ? SECRET : withoutCredentials(showValue(value));
}

/** An unknown key as it may be shown: YAML takes `{ hf_… }` for a mapping with the secret as its key. */
export function shownKey(name: string, path: Path): string {
  const isWord = /^[A-Za-z][A-Za-z0-9]{0,30}$/.test(name);
  return isSecret(formatPath(path)) || (hasSecrets(path.slice(0, 1)) && !isWord)
    ? SECRET
    : withoutCredentials(name);
}

function masked(value: unknown, path: Path, isKnown: boolean): unknown {
  if (value === undefined || isSecure(value)) return value;
  const isCredential = isKnown
    ? isSecret(formatPath(path)) || isContentOfFile(path, value)
    : isLikelySecret(path, value);
  if (isCredential) return SECRET;
  if (typeof value !== "object" || value === null) return hasSecrets(path) ? SECRET : value;
  if (Array.isArray(value))
    return hasSecrets(path) ? SECRET : value.map((inner, index) => masked(inner, [...path, index], isKnown));
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([key, inner]) => [key, masked(inner, [...path, key], isKnown)]));
}

function isSecret(path: string): boolean {
  return SECRET_PATHS.some((secret) => path === secret || path.startsWith(`${secret}.`));
}

/** Whether a mapping with credentials belongs there: a text in its place may be one. */
function hasSecrets(path: Path): boolean {
  return path.length > 0 && SECRET_PATHS.some((secret) => secret.startsWith(`${formatPath(path)}.`));
}

/** In place of the path of a file with a credential, such as `hub.tokenFile`, the credential itself may have been written. */
function isContentOfFile(path: Path, value: unknown): boolean {
  const isPath = typeof value === "string" && value.startsWith("/");
  return hasSecrets(path.slice(0, 1)) && /File$/.test(String(path.at(-1))) && !isPath;
}

/** For keys that no schema has; numbers and switches are not credentials there, and `pulumi config set` makes texts of them. */
function isLikelySecret(path: Path, value: unknown): boolean {
  if (hasSecrets(path.slice(0, 1))) return true;
  const name = String(path.at(-1));
  const isCount = /tokens$/i.test(name) && /^\d+$/.test(String(value));
  return !isCount && !["number", "boolean"].includes(typeof value) && CREDENTIAL_NAME.test(name);
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

/** The value at a path; undefined if the path leads nowhere. */
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
 * The nearest name, ignoring case, for a suggestion; undefined if more than a third of the letters would have to change.
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

/** The names that a typed one may mean: all that begin with it if there are several, else the nearest. */
export function meantNames(typed: string, names: readonly string[]): readonly string[] {
  const start = typed.toLowerCase();
  const longer = names.filter((name) => start !== "" && name.toLowerCase().startsWith(start));
  return longer.length > 1 ? longer : [nearestName(typed, names) ?? []].flat();
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

/**
 * Namespace of every key in a stack file, whatever the name of the project is: `pulumi new` gives it another one, and what documents
 * and errors say holds there too.
 */
export const CONFIG_NAMESPACE = "engine-room";
