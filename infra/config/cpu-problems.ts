/** What the schemas of `tier: cpu` can't say: checks that look at several fields at once. */
import { cpuModels, type ModelName } from "../plan/catalogue/cpu-models.ts";
import { formatPath, type Problem, showValue } from "../problems.ts";
import { externalDatabaseProblems } from "./database-problems.ts";
import { at, type Path } from "./schema-problems.ts";

/** What a model gets for one request, prompt and answer together, when its stack file does not say. */
export const DEFAULT_CONTEXT_TOKENS = 2048;

type Values = Readonly<Record<string, unknown>>;

/**
 * Checks over several fields. They look at the raw values, so that they are reported beside wrong types elsewhere
 * and not only after those are mended.
 */
export function cpuProblems(values: Values): Problem[] {
  const models = modelsOf(values);
  return [
    ...reservedNames(models),
    ...repeatedNames(models),
    ...repeatedKeyNames(values),
    ...contextProblems(models),
    ...trainedContextProblems(models),
  ];
}

/** Those of `platform: local` alone. */
export function localProblems(values: Values): Problem[] {
  return [...repeatedPorts(values, modelsOf(values)), ...databaseProblems(values)];
}

function modelsOf({ models }: Values): readonly unknown[] {
  return Array.isArray(models) ? models : [];
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
    ...["mongo", "mongoMetrics", "vector"].map((name) => ["databasePorts", name]),
    ...ports.map((name) => ["encoders", "ports", name]),
    ...models.flatMap((_, index) => ports.map((name) => ["models", index, "ports", name])),
  ];
  return duplicates(paths, values, (first) => ({
    reason: `The port is asked for by ${first} too.`,
    fix: "Use another one, or 0 for any free port.",
  }));
}

function databaseProblems(values: Values): Problem[] {
  if (values.databases !== "container")
    return externalDatabaseProblems(values, "mongo.uriFile and vector.url");
  return [
    {
      path: "databases",
      value: showValue(values.databases),
      reason: "This platform starts no containers.",
      fix: "Write mock, or external for databases that run already.",
    },
  ];
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
