/** `refresh` and `down` of the try-out runner: both work from the state alone, without running the program. */
import { isDeepStrictEqual } from "node:util";
import { propertyChanges } from "../program/changes.ts";
import type { Operation } from "../stack/preview-text.ts";
import type { PendingOperation, ResourceState } from "./state.ts";
import {
  deleteAll,
  interruptedCreates,
  isProvider,
  nameOf,
  type ResourceProvider,
  type RunnerState,
  type StepObserver,
  stepOnState,
} from "./steps.ts";

export interface StateOperation extends StepObserver {
  readonly provider: ResourceProvider;
  readonly state: RunnerState;
  readonly save: (resources: ResourceState[], pending: PendingOperation[]) => void;
}

/** Reads every resource as it is now. What is gone leaves the state, so that the next `up` creates it. */
export async function refresh({ provider, state, save, onStart, onEnd }: StateOperation): Promise<void> {
  const read = await Promise.all(
    state.resources.map(async (resource): Promise<ResourceState | undefined> => {
      if (isProvider(resource)) return resource;
      if (!resource.custom) {
        onEnd(stepOnState(resource, "same"), 0);
        return resource;
      }
      const started = performance.now();
      const { type, urn, id = "", outputs = {} } = resource;
      const current = await provider.read({ type, name: nameOf(urn), id, outputs });
      const operation: Operation =
        current === undefined ? "delete" : isDeepStrictEqual(current.outputs, outputs) ? "same" : "update";
      const step = stepOnState(resource, operation, propertyChanges(outputs, current?.outputs ?? outputs));
      onStart(step);
      onEnd(step, (performance.now() - started) / 1000);
      return current === undefined ? undefined : { ...resource, ...current };
    }),
  );
  const present = read.filter((resource) => resource !== undefined);
  const urns = new Set(present.map((resource) => resource.urn));
  save(
    present.map((resource) => withoutDangling(resource, urns)),
    [...state.pending],
  );
}

/** Deletes everything in the state, dependents first, and what interrupted creates may have left. */
export async function destroy({ provider, state, save, onStart, onEnd }: StateOperation): Promise<void> {
  const halfMade = interruptedCreates(state);
  let remaining = [...state.resources, ...halfMade];
  await deleteAll(remaining, async (resource) => {
    const step = stepOnState(resource, "delete");
    const started = performance.now();
    if (!isProvider(resource)) onStart(step);
    if (resource.custom && !isProvider(resource)) {
      const { id = "", outputs = {} } = resource;
      await provider.delete({ type: step.type, name: step.name, id, outputs });
    }
    remaining = remaining.filter((left) => left !== resource);
    const pending = state.pending.filter((operation) =>
      remaining.some(({ urn }) => urn === operation.resource.urn),
    );
    save(
      remaining.filter((left) => !halfMade.includes(left)),
      pending,
    );
    if (!isProvider(resource)) onEnd(step, (performance.now() - started) / 1000);
  });
}

function withoutDangling(resource: ResourceState, urns: ReadonlySet<string>): ResourceState {
  const keep = (list: readonly string[]) => list.filter((urn) => urns.has(urn));
  const { dependencies, propertyDependencies } = resource;
  return {
    ...resource,
    ...(dependencies === undefined ? {} : { dependencies: keep(dependencies) }),
    ...(propertyDependencies === undefined
      ? {}
      : {
          propertyDependencies: Object.fromEntries(
            Object.entries(propertyDependencies).map(([key, list]) => [key, keep(list)]),
          ),
        }),
  };
}
