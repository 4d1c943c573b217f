/** What a resource of this provider does: the same for the Pulumi engine and for callers in the same process. */
import { isDeepStrictEqual } from "node:util";
import type { z } from "zod";
import { hasUnknown, type PropertyMap } from "./wire.ts";

export interface CheckFailure {
  /** As in `files["config.json"]`. */
  readonly property: string;
  /** One sentence: the value, the reason, the fix. */
  readonly reason: string;
}

export interface CheckResult {
  /** With defaults filled in. */
  readonly inputs: PropertyMap;
  readonly failures: readonly CheckFailure[];
}

export interface DiffResult {
  readonly changes: boolean;
  /** Top-level properties that differ, sorted. */
  readonly changedProperties: readonly string[];
  /** Those of them that need a new resource. */
  readonly replaces: readonly string[];
  readonly deleteBeforeReplace: boolean;
}

export interface HandlerContext {
  /** One line for users about a step that takes a while. */
  readonly report: (line: string) => void;
  /** Ends long waits; what was begun can be repeated. */
  readonly signal?: AbortSignal;
}

export interface ResourceHandler {
  /** All mistakes in inputs at once; changes nothing. */
  check(inputs: PropertyMap, olds?: PropertyMap): Promise<CheckResult>;
  /** Compares recorded outputs with checked inputs; an unknown input counts as changed. */
  diff(id: string, olds: PropertyMap, news: PropertyMap): Promise<DiffResult>;
  /** Repeatable: adopts or clears what an interrupted create left. `outs`: inputs and outputs, as the state keeps them. */
  create(
    name: string,
    inputs: PropertyMap,
    context: HandlerContext,
  ): Promise<{ id: string; outs: PropertyMap }>;
  /** Undefined where the resource is gone. Outputs that differ from the state are a drift. */
  read(
    id: string,
    state: PropertyMap,
    context: HandlerContext,
  ): Promise<{ id: string; inputs: PropertyMap; outs: PropertyMap } | undefined>;
  update(
    id: string,
    olds: PropertyMap,
    news: PropertyMap,
    context: HandlerContext,
  ): Promise<{ outs: PropertyMap }>;
  /** Repeatable; succeeds where nothing is left to delete. */
  delete(id: string, state: PropertyMap, context: HandlerContext): Promise<void>;
}

/** One type of resource, in terms of its own inputs and outputs. */
export interface ResourceKind<Inputs extends object, Outputs extends Inputs> {
  readonly schema: z.ZodObject;
  /** Inputs whose change needs a new resource. */
  readonly replaceOn: readonly string[];
  readonly deleteBeforeReplace: boolean;
  /** Inputs whose change alone changes nothing. */
  readonly ignored?: readonly string[];
  /** Outputs that the check fills in, so that a preview knows them. */
  readonly planned?: readonly string[];
  idOf(inputs: Inputs): string;
  /** Checks inputs whose form is right but which may hold unknown values. */
  examine(inputs: PropertyMap, olds: PropertyMap): Promise<CheckResult>;
  /** Makes the resource what `inputs` say, whatever of it exists. `olds` is empty where the state has none. */
  bring(inputs: Inputs, olds: Partial<Outputs>, context: HandlerContext): Promise<Outputs>;
  find(state: Outputs): Promise<Outputs | undefined>;
  remove(inputs: Inputs): Promise<void>;
}

export function resourceHandler<Inputs extends object, Outputs extends Inputs>(
  kind: ResourceKind<Inputs, Outputs>,
): ResourceHandler {
  const names = Object.keys(kind.schema.shape);
  const compared = names.filter((name) => !kind.ignored?.includes(name)).toSorted();
  const pick = (state: PropertyMap, keys: readonly string[]) =>
    Object.fromEntries(keys.flatMap((key) => (state[key] === undefined ? [] : [[key, state[key]]])));
  const inputsOf = (state: PropertyMap) => pick(state, names) as unknown as Inputs;
  const outputs = (values: Outputs) => values as unknown as PropertyMap;
  return {
    async check(inputs, olds = {}) {
      const checked = checkProperties(kind.schema.shape, inputs);
      return checked.failures.length > 0 ? checked : kind.examine(checked.inputs, olds);
    },
    async diff(_id, olds, news) {
      const changedProperties = compared.filter(
        (name) => hasUnknown(news[name]) || !isDeepStrictEqual(olds[name], news[name]),
      );
      return {
        changes: changedProperties.length > 0,
        changedProperties,
        replaces: changedProperties.filter((name) => kind.replaceOn.includes(name)),
        deleteBeforeReplace: kind.deleteBeforeReplace,
      };
    },
    async create(_name, inputs, context) {
      const wanted = inputsOf(inputs);
      return { id: kind.idOf(wanted), outs: outputs(await kind.bring(wanted, {}, context)) };
    },
    async read(id, state) {
      const found = await kind.find(state as unknown as Outputs);
      if (found === undefined) return undefined;
      const outs = outputs(found);
      return { id, inputs: pick(outs, [...names, ...(kind.planned ?? [])]), outs };
    },
    async update(_id, olds, news, context) {
      return { outs: outputs(await kind.bring(inputsOf(news), olds as Partial<Outputs>, context)) };
    },
    delete: (_id, state) => kind.remove(inputsOf(state)),
  };
}

/** Checks each property by itself, so that a preview's unknown values do not hide mistakes beside them. */
function checkProperties(shape: Readonly<Record<string, z.core.$ZodType>>, inputs: PropertyMap): CheckResult {
  const checked: Record<string, unknown> = {};
  const failures = Object.keys(inputs)
    .filter((key) => !(key in shape) && inputs[key] !== undefined)
    .map((key) => ({
      property: key,
      reason: `There is no such input; known are ${Object.keys(shape).join(", ")}.`,
    }));
  for (const [key, schema] of Object.entries(shape)) {
    const value = inputs[key];
    const result = hasUnknown(value)
      ? { success: true as const, data: value }
      : (schema as z.ZodType).safeParse(value);
    const data = result.success ? result.data : value;
    if (data !== undefined || !result.success) checked[key] = data;
    for (const { path, message } of result.error?.issues.flatMap(explain) ?? [])
      failures.push({
        property: propertyPath([key, ...path]),
        reason: message.endsWith(".") ? message : `${message}.`,
      });
  }
  return { inputs: checked, failures };
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The reason for a wrong key, and that of the alternative that comes nearest, in place of zod's general sentence. */
function explain(issue: z.core.$ZodIssue): Problem[] {
  if (issue.code === "invalid_key") return issue.issues.map(({ message }) => ({ path: issue.path, message }));
  const nearest =
    issue.code === "invalid_union" ? issue.errors.toSorted((a, b) => a.length - b.length)[0] : undefined;
  if (nearest === undefined) return [issue];
  return nearest.flatMap(explain).map(({ path, message }) => ({ path: [...issue.path, ...path], message }));
}

/** As in `ready.url` and `files["a b.json"]`. */
export function propertyPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    const part = String(key);
    if (text === "") return part;
    return /^[A-Za-z_]\w*$/.test(part)
      ? `${text}.${part}`
      : `${text}[${typeof key === "number" ? part : JSON.stringify(part)}]`;
  }, "");
}

/**
 * The resource exists but does not work. The state records it with `id` and `properties`, so that it can be deleted, and
 * the next run updates it even where its inputs are the same. The field names are the SDK's.
 */
export class InitializationError extends Error {
  readonly id: string;
  readonly properties: PropertyMap;
  readonly reasons: readonly string[];

  constructor(reason: string, id: string, properties: PropertyMap) {
    super(reason);
    this.name = "InitializationError";
    this.id = id;
    this.properties = properties;
    this.reasons = [reason];
  }
}
