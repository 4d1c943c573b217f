/**
 * State of the try-out runner, in the form of `pulumi stack export` (deployment version 3), so that a Pulumi CLI that
 * appears later imports it and goes on.
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
import type { StackOutputs } from "../../infra/outputs.ts";
import { makeUrn, type Properties } from "../program/serialized.ts";

/** One resource of a deployment; the keys are Pulumi's own (apitype.ResourceV3). */
export interface ResourceState {
  urn: string;
  custom: boolean;
  id?: string;
  type: string;
  inputs?: Properties;
  outputs?: Properties;
  parent?: string;
  dependencies?: string[];
  provider?: string;
  propertyDependencies?: Record<string, string[]>;
  /** Replaced, and still to be deleted. */
  delete?: boolean;
}

/** An operation that was under way when the state was written; the next run does it again. */
export interface PendingOperation {
  resource: ResourceState;
  type: "creating" | "updating" | "deleting";
}

interface Deployment {
  version: 3;
  deployment: {
    manifest: { time: string; magic: string; version: string };
    resources: ResourceState[];
    pending_operations?: PendingOperation[];
    metadata: Record<string, never>;
  };
  /** Values of the stack file at the last `up`, as `pulumi stack history` has them; an importing CLI leaves them out. */
  config?: Readonly<Record<string, unknown>>;
}

/** Version of the engine whose format this is; an importing CLI checks `magic` against it. */
const FORMAT_VERSION = "3.248.0";

export function newDeployment(resources: ResourceState[], pending: PendingOperation[]): Deployment {
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
  };
}

/** Reads a state file; none is an empty state. @throws One sentence that names the file where it can't be read. */
export function loadState(path: string): {
  resources: ResourceState[];
  pending: PendingOperation[];
  config?: Deployment["config"];
} {
  if (!existsSync(path)) return { resources: [], pending: [] };
  let state: Deployment;
  try {
    state = JSON.parse(readFileSync(path, "utf8")) as Deployment;
  } catch (error) {
    throw new Error(`${path}, the state of the stack, can't be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (state.version !== 3) {
    throw new Error(`${path} has deployment version ${String(state.version)}; this program reads version 3.`);
  }
  const { resources, pending_operations: pending = [] } = state.deployment;
  return { resources, pending, ...(state.config === undefined ? {} : { config: state.config }) };
}

/** Outputs of the stack as its state has them; undefined before the first `up`. */
export function stackOutputs(path: string): StackOutputs | undefined {
  const stack = loadState(path).resources.find((resource) => resource.type === "pulumi:pulumi:Stack");
  return stack?.outputs as StackOutputs | undefined;
}

/**
 * Writes a state so that a reader finds the old or the new one, whatever happens in between.
 *
 * @throws When it can't be written whole, as on a full disk; the old state is then untouched.
 */
export function saveState(
  path: string,
  resources: ResourceState[],
  pending: PendingOperation[],
  config?: Deployment["config"],
): void {
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.new`;
  try {
    const file = openSync(temporary, "w", 0o600);
    try {
      const state = { ...newDeployment(resources, pending), config };
      writeFileSync(file, `${JSON.stringify(state, null, 2)}\n`);
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
 * @param version - As the resources ask for it; undefined where they leave it open.
 */
export function defaultProvider(
  stack: string,
  project: string,
  packageName: string,
  version: string | undefined,
): ResourceState {
  const name = version === undefined ? "default" : `default_${version.replace(/[.+-]/g, "_")}`;
  const properties = version === undefined ? {} : { version };
  return {
    urn: makeUrn({ stack, project, parent: "", type: `pulumi:providers:${packageName}`, name }),
    custom: true,
    id: randomUUID(),
    type: `pulumi:providers:${packageName}`,
    inputs: { __internal: {}, ...properties },
    outputs: properties,
  };
}
