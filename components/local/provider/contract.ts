/** Operations on the resources of this provider, for the Pulumi engine and for callers in the same process. */
import { isDeepStrictEqual } from "node:util";
import type { z } from "zod";

export interface CheckFailure {
  /** As in `files["config.json"]`. */
  readonly property: string;
  /** One sentence: the value, the reason, the fix. */
  readonly reason: string;
}

export interface HandlerContext {
  /** One line for users about a step that takes a while. */
  readonly report: (line: string) => void;
  /** Ends long waits; an interrupted operation can be repeated. */
  readonly signal?: AbortSignal;
}

/** One type of resource, in terms of its own inputs and outputs. */
interface ResourceKind<Inputs extends object, Outputs extends Inputs> {
  readonly schema: z.ZodObject;
  /** Inputs whose change needs a new resource. */
  readonly replaceOn: readonly string[];
  readonly deleteBeforeReplace: boolean;
  /** Inputs whose change alone changes nothing. */
  readonly ignored?: readonly string[];
  /** Outputs that `examine` gives, which become inputs as well, so that a preview knows them. */
  readonly planned?: readonly (keyof Outputs)[];
  idOf(inputs: Inputs): string;
  /** Checks inputs whose form is right but which may hold unknown values; changes nothing. */
  examine(
    inputs: PropertyMap,
    olds: PropertyMap,
  ): Promise<{ readonly planned?: Partial<Outputs>; readonly failures: readonly CheckFailure[] }>;
  /**
   * Makes the resource as `inputs` say; adopts or clears the remains of an interrupted run.
   *
   * @param olds - Empty where the state has none.
   */
  bring(inputs: Inputs, olds: Partial<Outputs>, context: HandlerContext): Promise<Outputs>;
  /** Undefined where the resource is gone. Outputs that differ from the state are a drift. */
  find(state: Outputs): Promise<Outputs | undefined>;
  /** Repeatable; succeeds where nothing is left to remove. */
  remove(inputs: Inputs): Promise<void>;
}

export type ResourceHandler = ReturnType<typeof resourceHandler>;

/** The operations of Pulumi's engine; `outs` are inputs and outputs together, as the state keeps them. */
export function resourceHandler<Inputs extends object, Outputs extends Inputs>(
  kind: ResourceKind<Inputs, Outputs>,
) {
  const { shape } = kind.schema;
  const compared = Object.keys(shape)
    .filter((name) => !kind.ignored?.includes(name))
    .toSorted();
  const asMap = (values: object) => values as PropertyMap;
  const pick = (state: PropertyMap, names: readonly PropertyKey[]) =>
    Object.fromEntries(Object.entries(state).filter(([name]) => names.includes(name)));
  const inputsOf = (state: PropertyMap) => pick(state, Object.keys(shape)) as unknown as Inputs;
  return {
    /** All mistakes in inputs at once. The answer's inputs have their defaults. */
    async check(given: PropertyMap, olds: PropertyMap = {}) {
      const { inputs, failures } = checkProperties(shape, given);
      if (failures.length > 0) return { inputs, failures };
      const { planned, failures: found } = await kind.examine(inputs, olds);
      return { inputs: asMap({ ...inputs, ...planned }), failures: found };
    },

    /** Compares recorded outputs with checked inputs; an unknown input counts as changed. */
    async diff(_id: string, olds: PropertyMap, news: PropertyMap) {
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

    async create(_name: string, inputs: PropertyMap, context: HandlerContext) {
      const wanted = inputsOf(inputs);
      return { id: kind.idOf(wanted), outs: asMap(await kind.bring(wanted, {}, context)) };
    },

    async read(id: string, state: PropertyMap, _context: HandlerContext) {
      const found = await kind.find(state as unknown as Outputs);
      if (found === undefined) return undefined;
      const outs = asMap(found);
      return { id, inputs: pick(outs, [...Object.keys(shape), ...(kind.planned ?? [])]), outs };
    },

    async update(_id: string, olds: PropertyMap, news: PropertyMap, context: HandlerContext) {
      return { outs: asMap(await kind.bring(inputsOf(news), olds as Partial<Outputs>, context)) };
    },

    async delete(_id: string, state: PropertyMap, _context: HandlerContext) {
      await kind.remove(inputsOf(state));
    },
  };
}

/** Checks each property by itself, so that a preview's unknown values do not hide mistakes beside them. */
function checkProperties(shape: Readonly<Record<string, z.core.$ZodType>>, inputs: PropertyMap) {
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

/** Plain JSON, secrets unwrapped; a value that a preview does not know yet is UNKNOWN_VALUE. */
export type PropertyMap = Readonly<Record<string, unknown>>;

// From @pulumi/pulumi/runtime/rpc.ts.
export const UNKNOWN_VALUE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
const SIGNATURE_KEY = "4dabf18193072939515e22adb298388d";
const SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270";
const OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4";

type Path = readonly (string | number)[];

/** True where the value, or anything in it, is known only after `up`. */
export function hasUnknown(value: unknown): boolean {
  if (value === UNKNOWN_VALUE) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** Unwraps secrets and outputs at any depth. `secretPaths`: where secrets were, inner before outer. */
export function unwrap(properties: PropertyMap | undefined): {
  readonly properties: PropertyMap;
  readonly secretPaths: readonly Path[];
} {
  const secretPaths: Path[] = [];
  const plain = (value: unknown, path: Path): unknown => {
    if (Array.isArray(value)) return value.map((item, index) => plain(item, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    const { [SIGNATURE_KEY]: signature, ...rest } = value as Record<string, unknown>;
    if (signature !== SECRET_SIGNATURE && signature !== OUTPUT_SIGNATURE)
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, plain(item, [...path, key])]),
      );
    const inner = "value" in rest ? plain(rest.value, path) : UNKNOWN_VALUE;
    if (signature === SECRET_SIGNATURE || rest.secret === true) secretPaths.push(path);
    return inner;
  };
  return { properties: plain(properties ?? {}, []) as PropertyMap, secretPaths };
}

/** Wraps the values at the paths of secrets, as far as there are values. */
export function wrap(properties: PropertyMap, secretPaths: readonly Path[]): Record<string, unknown> {
  const wrapped = structuredClone(properties) as Record<string, unknown>;
  // An inner secret is wrapped first: the path to it ends at the wrapping of an outer one.
  for (const path of secretPaths) {
    let parent: unknown = wrapped;
    for (const key of path.slice(0, -1)) parent = (parent as Record<string, unknown> | undefined)?.[key];
    const key = path.at(-1) ?? "";
    if (typeof parent === "object" && parent !== null && key in parent) {
      const record = parent as Record<string, unknown>;
      record[key] = { [SIGNATURE_KEY]: SECRET_SIGNATURE, value: record[key] };
    }
  }
  return wrapped;
}
