/** Operations on a stack, its state as `pulumi stack export` prints it, and unfinished parts of the last `up` in it. Pure. */
import type { StackOutputs } from "../../infra/outputs.ts";
import type { KnownObjects } from "../docker-host/containers.ts";
import type { ApprovedPreview } from "./approved-preview.ts";
import type { StackValues } from "./preview-text.ts";
import type { StackChanges } from "./reporter.ts";

/** A resource as `pulumi stack export` has it. */
interface StateResource {
  readonly urn: string;
  readonly type: string;
  /** As the provider has it; absent for a component. */
  readonly id?: string;
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
  readonly outputs?: Readonly<Record<string, unknown>>;
  readonly initErrors?: readonly string[];
  /** No operation deletes it. */
  readonly protect?: boolean;
  /** Its successor exists, and it is about to be deleted. */
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

export interface UpOptions {
  /**
   * Whether mandatory policies end it: those about single resources before each is made, those about the stack in a preview
   * that goes before. @default false
   */
  readonly enforcesPolicies?: boolean;
  /** The only changes that may be made. Changes outside of Pulumi are excluded: nothing is refreshed. @default any, after a refresh */
  readonly approved?: ApprovedPreview | undefined;
}

export interface PreviewOptions {
  /** @default "up" */
  readonly operation?: "up" | "down";
  /** Whether each property is shown, hashes too. @default false */
  readonly isFull?: boolean;
  /** Where it is shown. @default process.stdout */
  readonly out?: NodeJS.WriteStream;
}

/** Operations on the resources of a stack, under either owner. */
export interface StackBackend {
  /** Shown to the user. */
  readonly title: string;
  /** Shows what `up` or `down` would do. */
  preview(options?: PreviewOptions): Promise<StackChanges>;
  /** Makes the stack what its file says, after reading what there really is. */
  up(options?: UpOptions): Promise<StackChanges>;
  /** Reads what there really is into the state. */
  refresh(): Promise<StackChanges>;
  /** The state's parts of the stack; begun operations count as resources. */
  record(): Promise<StackRecord>;
  /** Deletes everything, and the state with it. */
  down(): Promise<StackChanges>;
  /** Values of the stack file at the last `up`; undefined before the first one, and where they are not known. */
  lastApplied(): Promise<StackValues | undefined>;
  /** Outputs of the last `up`; undefined before the first one. */
  outputs(): Promise<StackOutputs | undefined>;
}

/** @param text - Output of the CLI; the state of a new stack lacks the parts. */
export function parsedDeployment(text: string): Deployment {
  const { deployment } = JSON.parse(text) as { deployment?: Partial<Deployment> | null };
  return { resources: deployment?.resources ?? [], pending_operations: deployment?.pending_operations ?? [] };
}

/** Outputs of the stack; undefined before the first `up`. */
export function outputsOf(
  resources: readonly Pick<StateResource, "type" | "outputs">[],
): StackOutputs | undefined {
  const outputs = resources.find(({ type }) => type === "pulumi:pulumi:Stack")?.outputs;
  return outputs?.endpoints === undefined ? undefined : (outputs as unknown as StackOutputs);
}

/** Objects of a Docker host in a state. */
export function knownObjects({ resources, pending_operations }: Deployment): KnownObjects {
  const begun = pending_operations
    .filter(({ type }) => type === "creating")
    .map(({ resource }) => resource.inputs?.name);
  return {
    ids: new Set(resources.flatMap(({ id }) => id ?? [])),
    begunNames: new Set(begun.filter((name) => typeof name === "string")),
  };
}

const hasFailed = ({ initErrors = [] }: StateResource) => initErrors.length > 0;

/** By type. All else whose creation failed comes right by itself, or by the update that its next `up` sends. */
const UNFINISHED: Readonly<Record<string, (resource: StateResource) => boolean>> = {
  // Tasks that did not end with exit code 0, and services that were made and never became healthy.
  "docker:index/container:Container": (resource) =>
    hasFailed(resource) || (resource.inputs?.attach === true && resource.outputs?.exitCode !== 0),
  // Its command failed on the machine, or did not end in the time it has; nothing of an association is updated but its tags.
  "aws:ssm/association:Association": hasFailed,
  // EKS does not update a group that it failed to create. A group whose update failed has a status, and old machines that serve.
  "aws:eks/nodeGroup:NodeGroup": (resource) =>
    resource.outputs?.status === "CREATE_FAILED" || (hasFailed(resource) && !resource.outputs?.status),
};

/**
 * URNs that the next `up` has to replace, though nothing about them changed. A resource that was made, and whose wait then
 * failed, is in the state with `initErrors`; `pulumi up --refresh` drops these and finds that nothing changed (issue 17949 of
 * pulumi/pulumi). The graph can't tell either, because it does not depend on how an `up` went.
 */
export function unfinishedResources(resources: readonly StateResource[]): string[] {
  return resources
    .filter((one) => one.delete !== true && UNFINISHED[one.type]?.(one) === true)
    .map(({ urn }) => urn);
}
