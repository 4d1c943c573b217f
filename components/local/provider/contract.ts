/** Operations on the resources of this provider, for the Pulumi engine and for callers in the same process. */
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";

/** Plain JSON without secret marks; a value that is unknown in a preview is UNKNOWN_VALUE. */
export type PropertyMap = Readonly<Record<string, unknown>>;

interface CheckFailure {
  /** As in `files["config.json"]`. */
  readonly property: string;
  /** A sentence. */
  readonly reason: string;
}

export interface HandlerContext {
  /** One line for users about a step that takes a while. */
  readonly report: (line: string) => void;
  /** Ends long waits; an interrupted operation can be repeated. */
  readonly signal?: AbortSignal;
}

/** One type of resource, in terms of its own inputs and outputs. */
interface ResourceKind<Inputs extends PropertyMap, Outputs extends Inputs> {
  readonly schema: z.ZodObject;
  /** Inputs whose change needs a new resource. */
  readonly replaceOn: readonly string[];
  /** Inputs that change nothing when only they change. */
  readonly ignored?: readonly string[];
  /** Outputs that are chosen before the resource is made and become inputs as well, so that a preview knows them. */
  readonly planned?: {
    readonly names: readonly string[];
    /** Inputs that must be known for it; others may hold unknown values. */
    readonly from: readonly string[];
    /** Changes nothing. */
    choose(
      inputs: Inputs,
      olds: Partial<Outputs>,
    ): Promise<{ readonly outputs: PropertyMap; readonly failures: CheckFailure[] }>;
  };
  idOf(inputs: Inputs): string;
  /**
   * Makes the resource as `inputs` say; adopts or clears the remains of an interrupted run.
   *
   * @param olds - Outputs in the state; may be empty.
   */
  bring(inputs: Inputs, olds: Partial<Outputs>, context: HandlerContext): Promise<Outputs>;
  /** Returns undefined if the resource is missing. Outputs other than the state's are a drift. */
  find(state: Outputs): Promise<Outputs | undefined>;
  /** Repeatable; succeeds if nothing is left to remove. */
  remove(inputs: Inputs): Promise<void>;
}

export type ResourceHandler = ReturnType<typeof resourceHandler>;

/** The operations of Pulumi's engine; `outs` are inputs and outputs together, as the state keeps them. */
export function resourceHandler<Inputs extends PropertyMap, Outputs extends Inputs>(
  kind: ResourceKind<Inputs, Outputs>,
) {
  const names = Object.keys(kind.schema.shape);
  const compared = names.filter((name) => !kind.ignored?.includes(name)).toSorted();
  const inputsOf = (state: PropertyMap) => pick(state, names) as Inputs;
  return {
    /** All mistakes in inputs at once. The answer's inputs have their defaults. */
    async check(given: PropertyMap, olds: PropertyMap = {}) {
      const { inputs, failures } = checkProperties(kind.schema, given);
      if (failures.length > 0 || !kind.planned || hasUnknown(pick(inputs, kind.planned.from)))
        return { inputs, failures };
      const chosen = await kind.planned.choose(inputs as Inputs, olds as Partial<Outputs>);
      return { inputs: { ...inputs, ...chosen.outputs } as PropertyMap, failures: chosen.failures };
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
      };
    },

    async create(_name: string, inputs: PropertyMap, context: HandlerContext) {
      const wanted = inputsOf(inputs);
      const outs: PropertyMap = await kind.bring(wanted, {}, context);
      return { id: kind.idOf(wanted), outs };
    },

    async read(id: string, state: PropertyMap, _context: HandlerContext) {
      const outs: PropertyMap | undefined = await kind.find(state as Outputs);
      return outs && { id, inputs: pick(outs, [...names, ...(kind.planned?.names ?? [])]), outs };
    },

    async update(_id: string, olds: PropertyMap, news: PropertyMap, context: HandlerContext) {
      const outs: PropertyMap = await kind.bring(inputsOf(news), olds as Partial<Outputs>, context);
      return { outs };
    },

    async delete(_id: string, state: PropertyMap, _context: HandlerContext) {
      await kind.remove(inputsOf(state));
    },
  };
}

function pick<Value>(properties: Readonly<Record<string, Value>>, names: readonly string[]) {
  return Object.fromEntries(Object.entries(properties).filter(([name]) => names.includes(name)));
}

/** First issue of the union's form that refuses the least of a value. */
function closestForm(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== "invalid_union") return issue;
  const [least] = issue.errors.toSorted((a, b) => a.length - b.length);
  return least?.[0] ?? issue;
}

/** Checks the known values: a preview's unknown values do not hide mistakes beside them. */
function checkProperties({ shape }: z.ZodObject, given: PropertyMap) {
  const isKnown = (name: string) => !hasUnknown(given[name]);
  const known = pick(given, Object.keys(given).filter(isKnown));
  const result = z.strictObject(pick(shape, Object.keys(shape).filter(isKnown))).safeParse(known);
  const failures = result.error?.issues.flatMap((issue): CheckFailure[] => {
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => ({
        property: z.core.toDotPath([...issue.path, key]),
        reason: "There is no such input.",
      }));
    // The reason for a wrong key, in place of zod's general sentence.
    const { message } = (issue.code === "invalid_key" && issue.issues[0]) || closestForm(issue);
    return [{ property: z.core.toDotPath(issue.path), reason: `${message.replace(/\.$/, "")}.` }];
  });
  return { inputs: { ...given, ...result.data }, failures: failures ?? [] };
}

/**
 * The resource exists but does not work. The state records it with `id` and `properties`, so that it can be deleted, and
 * the next run updates it even if its inputs are the same. The field names are the SDK's.
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

// From @pulumi/pulumi/runtime/rpc.ts.
export const UNKNOWN_VALUE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
const SIGNATURE_KEY = "4dabf18193072939515e22adb298388d";
const SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270";

/** True if the value, or anything in it, is known only after `up`. */
function hasUnknown(value: unknown): boolean {
  if (value === UNKNOWN_VALUE) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** Unwraps secrets at any depth. `secretNames`: properties that are secrets or hold some. */
export function unwrap(properties: PropertyMap = {}): {
  readonly properties: PropertyMap;
  readonly secretNames: readonly string[];
} {
  const plain = JSON.parse(JSON.stringify(properties), (_key, value) =>
    value?.[SIGNATURE_KEY] === SECRET_SIGNATURE ? value.value : value,
  ) as PropertyMap;
  const secretNames = Object.keys(properties).filter((name) =>
    JSON.stringify(properties[name])?.includes(SECRET_SIGNATURE),
  );
  return { properties: plain, secretNames };
}

/** Marks the named properties as secrets if they exist. */
export function wrap(properties: PropertyMap, secretNames: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [
      name,
      secretNames.includes(name) ? { [SIGNATURE_KEY]: SECRET_SIGNATURE, value } : value,
    ]),
  );
}
