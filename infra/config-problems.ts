/** Turns what a schema says into Problems for people, and adds the checks that look at several fields at once. */
import { z } from "zod";
import { cpuModels, type ModelName } from "./plan/catalogue/cpu-models.ts";
import { formatPath, type Problem, showValue } from "./problems.ts";

type Path = readonly PropertyKey[];

/** What a local model gets for one request, prompt and answer together, when its stack file does not say. */
export const DEFAULT_CONTEXT_TOKENS = 2048;

/**
 * Every issue of a failed parse as a Problem.
 *
 * @param values - What was parsed, for the values to show.
 * @param schema - The schema that refused it, for the names of the keys that exist.
 */
export function schemaProblems(error: z.ZodError, values: unknown, schema: z.ZodType): Problem[] {
  return error.issues.flatMap((issue) => issueProblems(issue, values, schema));
}

function issueProblems(issue: z.core.$ZodIssue, values: unknown, schema: z.ZodType): Problem[] {
  if (issue.code === "unrecognized_keys") {
    const known = knownKeys(schema, issue.path, values);
    return issue.keys.map((key) => {
      const path = [...issue.path, key];
      return {
        path: formatPath(path),
        value: showValue(at(values, path)),
        reason: "There is no such key.",
        fix: unknownKeyFix(key, known),
      };
    });
  }
  const value = at(values, issue.path);
  return [{ path: formatPath(issue.path), value: showValue(value), ...explain(issue, value) }];
}

function explain(issue: z.core.$ZodIssue, value: unknown): { reason: string; fix: string } {
  switch (issue.code) {
    case "invalid_type":
      return value === undefined
        ? { reason: "It is required.", fix: `Add it, as ${article(issue.expected)}.` }
        : {
            reason: `Expected ${article(issue.expected)}, found ${article(kindOf(value))}.`,
            fix: `Write ${article(issue.expected)}${typeof value === "string" && issue.expected === "number" ? ", without quotes" : ""}.`,
          };
    case "too_small":
      if (issue.origin === "array")
        return { reason: `Fewer than ${issue.minimum} entries.`, fix: "Add one." };
      return {
        reason: `Smaller than the least allowed, ${issue.minimum}${unit(issue.origin)}.`,
        fix: `Use ${issue.minimum} or more.`,
      };
    case "too_big":
      return {
        reason: `Larger than the most allowed, ${issue.maximum}${unit(issue.origin)}.`,
        fix: `Use ${issue.maximum} or less.`,
      };
    case "invalid_value": {
      const choices = issue.values.map((choice) => JSON.stringify(choice)).join(", ");
      return { reason: "Not one of the values that exist here.", fix: `Choose one of ${choices}.` };
    }
    case "invalid_format":
      return { reason: `It ${issue.message}.`, fix: `Write it so: it ${issue.message}.` };
    default:
      return { reason: `${issue.message}.`, fix: "Correct it." };
  }
}

function unit(origin: string): string {
  return origin === "string" ? " characters" : origin === "array" ? " entries" : "";
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

function at(values: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      typeof inner === "object" && inner !== null ? (inner as Record<PropertyKey, unknown>)[key] : undefined,
    values,
  );
}

/** The keys that the schema has at a path, found by walking the schema's own JSON form. */
function knownKeys(schema: z.ZodType, path: Path, values: unknown): string[] {
  interface Node {
    properties?: Record<string, Node>;
    items?: Node;
    oneOf?: Node[];
    anyOf?: Node[];
    const?: unknown;
  }
  let node = z.toJSONSchema(schema, { io: "input" }) as Node;
  const choose = (candidate: Node): Node => {
    const alternatives = candidate.oneOf ?? candidate.anyOf;
    const platform = at(values, ["platform"]);
    return (
      alternatives?.find((one) => one.properties?.platform?.const === platform) ??
      alternatives?.[0] ??
      candidate
    );
  };
  node = choose(node);
  for (const key of path) {
    const next = typeof key === "number" ? node.items : node.properties?.[String(key)];
    if (next === undefined) return [];
    node = choose(next);
  }
  return Object.keys(node.properties ?? {}).sort();
}

function unknownKeyFix(key: string, known: readonly string[]): string {
  const nearest = known
    .map((candidate) => ({ candidate, distance: editDistance(key.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)[0];
  if (nearest !== undefined && nearest.distance <= Math.max(1, Math.floor(key.length / 3))) {
    return `Did you mean \`${nearest.candidate}\`?`;
  }
  return known.length > 0 ? `Remove it; the keys here are ${known.join(", ")}.` : "Remove it.";
}

/** Levenshtein distance; keys are short, so the plain table is enough. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/**
 * Checks over several fields. They look at the raw values, so that they are reported beside wrong types elsewhere
 * and not only after those are mended.
 */
export function crossFieldProblems(values: Readonly<Record<string, unknown>>): Problem[] {
  const models = Array.isArray(values.models) ? (values.models as unknown[]) : [];
  return [
    ...reservedNames(models),
    ...repeatedNames(models),
    ...repeatedKeyNames(values),
    ...repeatedPorts(values, models),
    ...contextProblems(models),
    ...trainedContextProblems(models),
  ];
}

/** Services that every stack has; a model of the same name would share their files and endpoints. */
const RESERVED_NAMES = ["encoders", "gateway", "mongo", "python", "vector"];

function reservedNames(models: readonly unknown[]): Problem[] {
  return models.flatMap((model, index) => {
    const name = at(model, ["name"]);
    if (!RESERVED_NAMES.includes(name as string)) return [];
    return [
      {
        path: `models[${index}].name`,
        value: showValue(name),
        reason: `The name is kept for a service; so are ${RESERVED_NAMES.join(", ")}.`,
        fix: "Give the model another name.",
      },
    ];
  });
}

function repeatedNames(models: readonly unknown[]): Problem[] {
  return duplicates(
    models.map((_, index) => ["models", index, "name"] as Path),
    { models },
    (first) => ({
      reason: `The name is taken by ${first}; endpoints and files are named by it.`,
      fix: "Give each model a name of its own.",
    }),
  );
}

function repeatedKeyNames(values: unknown): Problem[] {
  const keys = at(values, ["gateway", "apiKeys"]);
  const paths = Array.isArray(keys)
    ? keys.map((_, index) => ["gateway", "apiKeys", index, "name"] as Path)
    : [];
  return duplicates(paths, values, (first) => ({
    reason: `The name is taken by ${first}; limits and metrics are kept per name.`,
    fix: "Give each key a name of its own.",
  }));
}

function repeatedPorts(values: unknown, models: readonly unknown[]): Problem[] {
  const ports = ["http", "grpc", "metrics"];
  const paths: Path[] = [
    ["gateway", "port"],
    ...ports.map((name) => ["encoders", "ports", name]),
    ...models.flatMap((_, index) => ports.map((name) => ["models", index, "ports", name])),
  ];
  return duplicates(paths, values, (first) => ({
    reason: `The port is asked for by ${first} too.`,
    fix: "Use another one, or 0 for any free port.",
  }));
}

function duplicates(
  paths: readonly Path[],
  values: unknown,
  explainIt: (first: string) => { reason: string; fix: string },
): Problem[] {
  const seen = new Map<unknown, Path>();
  const problems: Problem[] = [];
  for (const path of paths) {
    const value = at(values, path);
    if (value === undefined || value === 0) continue;
    const first = seen.get(value);
    if (first === undefined) seen.set(value, path);
    else problems.push({ path: formatPath(path), value: showValue(value), ...explainIt(formatPath(first)) });
  }
  return problems;
}

/** A context longer than the model was trained for gives nonsense, not an error. */
function trainedContextProblems(models: readonly unknown[]): Problem[] {
  return models.flatMap((model, index) => {
    const name = at(model, ["model"]) as ModelName;
    const contextTokens = at(model, ["contextTokens"]);
    const trained = cpuModels[name]?.trainedContextTokens;
    if (trained === undefined || typeof contextTokens !== "number" || contextTokens <= trained) return [];
    return [
      {
        path: `models[${index}].contextTokens`,
        value: showValue(contextTokens),
        reason: `${name} was trained for a context of ${trained} tokens.`,
        fix: `Use ${trained} or less.`,
      },
    ];
  });
}

function contextProblems(models: readonly unknown[]): Problem[] {
  return models.flatMap((model, index) => {
    const contextTokens = at(model, ["contextTokens"]) ?? DEFAULT_CONTEXT_TOKENS;
    const maxTokens = at(model, ["maxTokens"]);
    if (typeof contextTokens !== "number" || typeof maxTokens !== "number" || maxTokens < contextTokens)
      return [];
    return [
      {
        path: `models[${index}].maxTokens`,
        value: showValue(maxTokens),
        reason: `${maxTokens} tokens of answer leave no room for a prompt in a context of ${contextTokens}.`,
        fix: `Use ${contextTokens - 1} or less, or raise contextTokens.`,
      },
    ];
  });
}
