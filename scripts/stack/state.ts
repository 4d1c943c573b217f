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
  /** Begun when the state was written, and not known to have ended. */
  readonly pending_operations: readonly { readonly resource: StateResource; readonly type: string }[];
}

/** `empty`: an operation ended before it created a resource, or after it had deleted all. */
export type StackRecord = "none" | "empty" | "resources";

export interface UpOptions {
  /**
   * Whether mandatory policies end it: policies about single resources before each is created, policies about the stack in an earlier
   * preview. @default false
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
  /** Shows the changes of `up` or `down`. */
  preview(options?: PreviewOptions): Promise<StackChanges>;
  /** Applies the stack file, after a refresh. */
  up(options?: UpOptions): Promise<StackChanges>;
  /** Updates the state from the existing resources. */
  refresh(): Promise<StackChanges>;
  /** The state's parts of the stack; begun operations count as resources. */
  record(): Promise<StackRecord>;
  /** Deletes everything, and the state with it. */
  down(): Promise<StackChanges>;
  /** Values of the stack file at the last `up`; undefined before the first `up`, or when unknown. */
  lastApplied(): Promise<StackValues | undefined>;
  /** Outputs of the last `up`; undefined before the first `up`. */
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

/** Checks by type. Other resources whose creation failed recover by themselves, or by the update of the next `up`. */
const UNFINISHED: Readonly<Record<string, (resource: StateResource) => boolean>> = {
  // Tasks that did not end with exit code 0, and services that never became healthy.
  "docker:index/container:Container": (resource) =>
    hasFailed(resource) || (resource.inputs?.attach === true && resource.outputs?.exitCode !== 0),
  // Its command failed on the machine, or did not end in time; only the tags of an association can be updated.
  "aws:ssm/association:Association": hasFailed,
  // EKS does not update a group that it failed to create. A group whose update failed has a status, and old machines that serve.
  "aws:eks/nodeGroup:NodeGroup": (resource) =>
    resource.outputs?.status === "CREATE_FAILED" || (hasFailed(resource) && !resource.outputs?.status),
};

/**
 * URNs that the next `up` has to replace, although nothing about them changed. A resource that was created, and whose wait then failed, is
 * in the state with `initErrors`; `pulumi up --refresh` drops these and finds no change (issue 17949 of pulumi/pulumi). The graph can't
 * show it, because it does not depend on earlier operations.
 */
export function unfinishedResources(resources: readonly StateResource[]): string[] {
  return resources
    .filter((one) => one.delete !== true && UNFINISHED[one.type]?.(one) === true)
    .map(({ urn }) => urn);
}
