/**
 * State of the try-out runner, in the form of `pulumi stack export` (deployment version 3), so that a Pulumi CLI that
 * appears later imports it.
 */
import { createHash, randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import type { PropertyMap } from "../../components/local/provider/contract.ts";
import { makeUrn } from "../program/serialized.ts";

/** One resource of a deployment; the keys are Pulumi's own (apitype.ResourceV3). */
export interface ResourceState {
  readonly urn: string;
  readonly custom: boolean;
  readonly id?: string;
  readonly type: string;
  readonly inputs?: PropertyMap | undefined;
  outputs?: PropertyMap;
  readonly parent?: string;
  readonly dependencies?: readonly string[];
  /** `urn::id`. */
  readonly provider?: string;
  readonly propertyDependencies?: Readonly<Record<string, readonly string[]>>;
  /** Replaced, and still to be deleted. */
  readonly delete?: boolean;
}

/** An operation that was running when the state was written; the next run repeats it. */
export interface PendingOperation {
  readonly resource: ResourceState;
  readonly type: "creating" | "updating";
}

export interface RunnerState {
  readonly resources: readonly ResourceState[];
  readonly pending: readonly PendingOperation[];
  /** Values of the stack file at the last `up`, as `pulumi stack history` has them; an importing CLI leaves them out. */
  readonly config?: PropertyMap;
}

/** Version of the engine whose format this is; an importing CLI checks `magic` against it. */
const FORMAT_VERSION = "3.248.0";

/** A state as it is written. */
export function newDeployment({ resources, pending, config }: RunnerState) {
  return {
    version: 3,
    deployment: {
      manifest: {
        time: new Date().toISOString(),
        magic: createHash("sha256").update(FORMAT_VERSION).digest("hex"),
        version: FORMAT_VERSION,
      },
      resources,
      ...(pending.length > 0 ? { pending_operations: pending } : {}),
      metadata: {},
    },
    config,
  };
}

/**
 * Reads a state file; a missing file is an empty state. @throws One sentence that names the file if it can't be
 * read.
 */
export function loadState(path: string): RunnerState {
  if (!existsSync(path)) return { resources: [], pending: [] };
  let state: ReturnType<typeof newDeployment>;
  try {
    state = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Error(`${path}, the state of the stack, can't be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (state.version !== 3)
    throw new Error(`${path} has deployment version ${state.version}; this program reads version 3.`);
  const { resources, pending_operations: pending = [] } = state.deployment;
  return { resources, pending, ...(state.config && { config: state.config }) };
}

/**
 * Writes a state so that a reader finds the old or the new state, whatever happens in between.
 *
 * @throws Error when the file system refuses, such as a full disk; the old state is then unchanged.
 */
export function saveState(path: string, state: RunnerState): void {
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.new`;
  try {
    const file = openSync(temporary, "w", 0o600);
    try {
      writeFileSync(file, `${JSON.stringify(newDeployment(state), null, 2)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new Error(`${path}, the state of the stack, can't be written: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * The default provider of a package, which every custom resource of a deployment refers to as `urn::id`.
 *
 * @param version - Version that the resources request; undefined without a request.
 */
export function defaultProvider(
  stack: string,
  project: string,
  packageName: string,
  version: string | undefined,
): ResourceState {
  const name = version === undefined ? "default" : `default_${version.replace(/[.+-]/g, "_")}`;
  const type = `pulumi:providers:${packageName}`;
  const properties = version === undefined ? {} : { version };
  return {
    urn: makeUrn({ stack, project, parent: "", type, name }),
    custom: true,
    id: randomUUID(),
    type,
    inputs: { __internal: {}, ...properties },
    outputs: properties,
  };
}
