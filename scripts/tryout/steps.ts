/** What the try-out runner, its provider and its reports talk about. */
import { isSecret, type PropertyChange } from "../program/changes.ts";
import type { Registered, Registration } from "../program/monitor.ts";
import type { Properties } from "../program/serialized.ts";
import type { Operation, Step } from "../stack/preview-text.ts";
import type { PendingOperation, ResourceState } from "./state.ts";

export interface StepObserver {
  readonly onStart: (step: Step) => void;
  readonly onEnd: (step: Step, seconds: number) => void;
}

/** What a runner knows of a stack between two runs. */
export interface RunnerState {
  readonly resources: readonly ResourceState[];
  readonly pending: readonly PendingOperation[];
}

/** What the runner needs of a provider: the SDK's Provider interface, by type of resource. */
export interface ResourceProvider {
  supports(type: string): boolean;
  check(request: {
    type: string;
    name: string;
    olds: Properties | undefined;
    news: Properties;
  }): Promise<{ inputs: Properties; failures: readonly { property: string; reason: string }[] }>;
  diff(request: {
    type: string;
    id: string;
    olds: Properties;
    news: Properties;
  }): Promise<{ changes: boolean; replaces: readonly string[]; deleteBeforeReplace: boolean }>;
  create(request: {
    type: string;
    name: string;
    inputs: Properties;
  }): Promise<{ id: string; outputs: Properties }>;
  /** Undefined where the resource is gone. */
  read(request: {
    type: string;
    name: string;
    id: string;
    outputs: Properties;
  }): Promise<{ inputs: Properties; outputs: Properties } | undefined>;
  update(request: {
    type: string;
    name: string;
    id: string;
    olds: Properties;
    news: Properties;
  }): Promise<Properties>;
  delete(request: { type: string; name: string; id: string; outputs: Properties }): Promise<void>;
}

export function newStep(
  { urn, type, name }: Pick<Registration, "urn" | "type" | "name">,
  operation: Operation,
  changes: readonly PropertyChange[] = [],
  replaceReasons: readonly string[] = [],
): Step {
  return { operation, urn, type, name, changes, replaceReasons };
}

/** A step on what the state alone knows. */
export function stepOnState(
  resource: ResourceState,
  operation: Operation,
  changes: readonly PropertyChange[] = [],
): Step {
  return newStep({ urn: resource.urn, type: resource.type, name: nameOf(resource.urn) }, operation, changes);
}

/** Last part of a URN. */
export function nameOf(urn: string): string {
  return urn.split("::")[3] ?? urn;
}

/** The engine's own bookkeeping, which no provider knows and no report shows. */
export function isProvider(resource: ResourceState): boolean {
  return resource.type.startsWith("pulumi:providers:");
}

/** @param provider - Reference `urn::id`; empty for a component. */
export function toState(registration: Registration, provider = ""): ResourceState {
  const { urn, custom, type, inputs, parent, dependencies, propertyDependencies } = registration;
  return {
    urn,
    custom,
    type,
    ...(type === "pulumi:pulumi:Stack" ? {} : { inputs }),
    ...(parent === "" ? {} : { parent }),
    ...(dependencies.length > 0 ? { dependencies: [...dependencies] } : {}),
    ...(provider === "" ? {} : { provider }),
    ...(custom
      ? {
          propertyDependencies: Object.fromEntries(
            Object.entries(propertyDependencies).map(([key, urns]) => [key, [...urns]]),
          ),
        }
      : {}),
  };
}

/**
 * Deletes each resource as soon as its dependents are gone, as the engine does.
 *
 * @param resources - In the order in which they were made.
 * @throws What the first failed deletion threw. No other one begins after it, and those that had begun have ended.
 */
export async function deleteAll(
  resources: readonly ResourceState[],
  remove: (resource: ResourceState) => Promise<void>,
): Promise<void> {
  const deletions = new Map<ResourceState, Promise<void>>();
  const failures: unknown[] = [];
  for (const resource of resources.toReversed()) {
    const dependents = [...deletions].filter(([other]) => dependsOn(other, resource));
    const gone = Promise.all(dependents.map(([, deletion]) => deletion));
    const deletion = gone.then(() => (failures.length > 0 ? undefined : remove(resource)));
    deletions.set(
      resource,
      deletion.catch((error) => {
        failures.push(error);
      }),
    );
  }
  await Promise.all(deletions.values());
  if (failures.length > 0) throw failures[0];
}

function dependsOn({ parent, provider, dependencies }: ResourceState, { urn }: ResourceState): boolean {
  return parent === urn || provider?.startsWith(`${urn}::`) === true || dependencies?.includes(urn) === true;
}

/** What an existing resource keeps over an operation. */
export function identity(old: ResourceState): Pick<ResourceState, "id" | "outputs"> {
  return {
    ...(old.id === undefined ? {} : { id: old.id }),
    ...(old.outputs === undefined ? {} : { outputs: old.outputs }),
  };
}

/** The answer to a registration. */
export function registered(resource: ResourceState): Registered {
  return { ...(resource.id === undefined ? {} : { id: resource.id }), outputs: resource.outputs ?? {} };
}

/** What the SDK's InitializationError carries: the resource exists and does not work. */
export function partialResult(error: unknown): { id: string; outputs: Properties } | undefined {
  const { name, id, properties } = error as { name?: unknown; id?: unknown; properties?: unknown };
  if (name !== "InitializationError" || typeof id !== "string") return undefined;
  return { id, outputs: properties as Properties };
}

export function containsSecret(value: unknown): boolean {
  if (isSecret(value)) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(containsSecret);
}

/**
 * Creates that were interrupted: they are not among the resources, yet may have left something. They are known by their
 * inputs alone, which is what a provider that can repeat a create can also delete by.
 */
export function interruptedCreates({ resources, pending }: RunnerState): ResourceState[] {
  const known = new Set(resources.map((resource) => resource.urn));
  return pending
    .filter(({ type, resource }) => type === "creating" && !known.has(resource.urn))
    .map(({ resource }) => ({ ...resource, outputs: resource.inputs ?? {} }));
}
