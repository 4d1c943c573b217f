/** What a resource of this provider does: the same for the Pulumi engine and for anything that calls it in-process. */

/** Plain JSON, secrets unwrapped; a value that a preview does not know yet is UNKNOWN_VALUE. */
export type PropertyMap = Readonly<Record<string, unknown>>;

/** The SDK's sentinel for a value that is known only after `up` (`unknownValue` in @pulumi/pulumi/runtime/rpc). */
export const UNKNOWN_VALUE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

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
  /** Those of them that no update in place can follow. */
  readonly replaces: readonly string[];
  readonly deleteBeforeReplace: boolean;
}

export interface HandlerContext {
  /** One line for a person about a step that takes a while. */
  readonly report: (line: string) => void;
  /** Ends long waits; what was begun can be repeated. */
  readonly signal?: AbortSignal;
}

interface CreateResult {
  readonly id: string;
  /** Inputs and outputs together, as state keeps them. */
  readonly outs: PropertyMap;
}

interface ReadResult {
  readonly id: string;
  readonly inputs: PropertyMap;
  readonly outs: PropertyMap;
}

export interface ResourceHandler {
  /** Says what is wrong with inputs, all at once; touches nothing. */
  check(inputs: PropertyMap, olds?: PropertyMap): Promise<CheckResult>;
  /** Compares recorded outputs with checked inputs. */
  diff(id: string, olds: PropertyMap, news: PropertyMap): Promise<DiffResult>;
  /** Repeatable: adopts or clears what an interrupted create left. */
  create(name: string, inputs: PropertyMap, context: HandlerContext): Promise<CreateResult>;
  /** Undefined where the resource is gone. Outputs that differ from the state are a drift. */
  read(id: string, state: PropertyMap, context: HandlerContext): Promise<ReadResult | undefined>;
  update(
    id: string,
    olds: PropertyMap,
    news: PropertyMap,
    context: HandlerContext,
  ): Promise<{ outs: PropertyMap }>;
  /** Repeatable; succeeds where nothing is left to delete. */
  delete(id: string, state: PropertyMap, context: HandlerContext): Promise<void>;
}

/**
 * The resource exists but does not work. Whoever keeps the state records it with `id` and `properties`, so that it can
 * be deleted, and updates it at the next run even where its inputs are the same. The field names are the SDK's.
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
