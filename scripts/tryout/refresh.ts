/** `refresh` and `down` of the try-out runner: both work from the state alone, without running the program. */
import { isDeepStrictEqual } from "node:util";
import { propertyChanges } from "./changes.ts";
import { nameOf, type Operation, type ResourceProvider, type Step } from "./engine.ts";
import type { PendingOperation, ResourceState } from "./state.ts";

export interface StateOperation {
  readonly provider: ResourceProvider;
  readonly state: {
    readonly resources: readonly ResourceState[];
    readonly pending: readonly PendingOperation[];
  };
  readonly save: (resources: ResourceState[], pending: PendingOperation[]) => void;
  readonly onStart: (step: Step) => void;
  readonly onEnd: (step: Step, seconds: number) => void;
}

/** Reads every resource as it is now. What is gone leaves the state, so that the next `up` creates it. */
export async function refresh(operation: StateOperation): Promise<ResourceState[]> {
  const { provider, state } = operation;
  const read = await Promise.all(
    state.resources.map(async (resource): Promise<ResourceState | undefined> => {
      if (!isOurs(resource)) return resource;
      const started = performance.now();
      const current = await provider.read({
        type: resource.type,
        id: resource.id ?? "",
        outputs: resource.outputs ?? {},
      });
      const kind: Operation =
        current === undefined
          ? "delete"
          : isDeepStrictEqual(current.outputs, resource.outputs)
            ? "same"
            : "update";
      const changes = current === undefined ? [] : propertyChanges(resource.outputs ?? {}, current.outputs);
      const step = stepOf(resource, kind, changes);
      operation.onStart(step);
      operation.onEnd(step, (performance.now() - started) / 1000);
      return current === undefined
        ? undefined
        : { ...resource, inputs: current.inputs, outputs: current.outputs };
    }),
  );
  const present = read.filter((resource) => resource !== undefined);
  const urns = new Set(present.map((resource) => resource.urn));
  const resources = present.map((resource) => withoutDangling(resource, urns));
  operation.save(resources, [...state.pending]);
  return resources;
}

/** Deletes everything in the state, dependents first. */
export async function destroy(operation: StateOperation): Promise<void> {
  const remaining = [...withInterruptedCreates(operation.state)];
  for (const resource of remaining.toReversed()) {
    const visible = !resource.type.startsWith("pulumi:providers:");
    const step = stepOf(resource, "delete", []);
    const started = performance.now();
    if (visible) operation.onStart(step);
    if (isOurs(resource)) {
      await operation.provider.delete({
        type: resource.type,
        id: resource.id ?? "",
        outputs: resource.outputs ?? {},
      });
    }
    remaining.pop();
    operation.save(remaining, []);
    if (visible) operation.onEnd(step, (performance.now() - started) / 1000);
  }
}

/** A create that was interrupted is not in the state, yet it may have left something: it is deleted from its inputs. */
function withInterruptedCreates(state: StateOperation["state"]): ResourceState[] {
  const known = new Set(state.resources.map((resource) => resource.urn));
  const halfMade = state.pending
    .filter((pending) => pending.type === "creating" && !known.has(pending.resource.urn))
    .map(({ resource }) => ({ ...resource, outputs: resource.inputs ?? {} }));
  return [...state.resources, ...halfMade];
}

function isOurs(resource: ResourceState): boolean {
  return resource.custom && !resource.type.startsWith("pulumi:providers:");
}

function stepOf(resource: ResourceState, operation: Operation, changes: Step["changes"]): Step {
  return {
    operation,
    urn: resource.urn,
    type: resource.type,
    name: nameOf(resource.urn),
    changes,
    replaceReasons: [],
  };
}

function withoutDangling(resource: ResourceState, urns: ReadonlySet<string>): ResourceState {
  const keep = (list: readonly string[]) => list.filter((urn) => urns.has(urn));
  return {
    ...resource,
    ...(resource.dependencies === undefined ? {} : { dependencies: keep(resource.dependencies) }),
    ...(resource.propertyDependencies === undefined
      ? {}
      : {
          propertyDependencies: Object.fromEntries(
            Object.entries(resource.propertyDependencies).map(([key, list]) => [key, keep(list)]),
          ),
        }),
  };
}
