/** The state of a stack as `pulumi stack export` prints it. Pure. */
import type { KnownObjects } from "../docker-host/leftovers.ts";

/** A resource as `pulumi stack export` has it. */
export interface StateResource {
  readonly urn: string;
  readonly type: string;
  /** As the provider has it; absent for a component. */
  readonly id?: string;
  readonly inputs?: Readonly<Record<string, unknown>>;
  readonly outputs?: Readonly<Record<string, unknown>>;
  readonly initErrors?: readonly string[];
  /** No operation deletes it. */
  readonly protect?: boolean;
  /** Its successor is there, and it is about to go. */
  readonly delete?: boolean;
}

/** The parts of `pulumi stack export` that are read. */
export interface Deployment {
  readonly resources: readonly StateResource[];
  /** Begun when the state was written, and not known to be done. */
  readonly pending_operations: readonly { readonly resource: StateResource; readonly type: string }[];
}

/** `empty`: an operation was ended before it made anything, or after it had deleted everything. */
export type StackRecord = "none" | "empty" | "resources";

/** What a state knows of a Docker host. */
export function knownObjects({ resources, pending_operations }: Deployment): KnownObjects {
  const begun = pending_operations
    .filter(({ type }) => type === "creating")
    .map(({ resource }) => resource.inputs?.name);
  return {
    ids: new Set(resources.flatMap(({ id }) => id ?? [])),
    begunNames: new Set(begun.filter((name) => typeof name === "string")),
  };
}

/** @param text - As the CLI prints it; the state of a new stack has none of the parts. */
export function parsedDeployment(text: string): Deployment {
  const { deployment = {} } = JSON.parse(text) as { deployment?: Partial<Deployment> };
  return { resources: deployment.resources ?? [], pending_operations: deployment.pending_operations ?? [] };
}
