/**
 * What the last `up` left unfinished. A resource that was made, and whose wait then failed, is in the state with `initErrors`;
 * `pulumi up --refresh` drops these and finds that nothing changed (issue 17949 of pulumi/pulumi). The graph can't tell
 * either, because it does not depend on how an `up` went. Pure.
 */

import type { StateResource } from "./deployment.ts";

const NODE_GROUP = "aws:eks/nodeGroup:NodeGroup";

/** @param failedGroups - As {@link unfinishedResources} has them. */
type IsUnfinished = (resource: StateResource, failedGroups: ReadonlySet<string>) => boolean;

const hasFailed = ({ initErrors = [] }: StateResource) => initErrors.length > 0;

/** By type. All else whose creation failed comes right by itself, or by the update that its next `up` sends. */
const UNFINISHED: Readonly<Record<string, IsUnfinished>> = {
  // Tasks that did not end with exit code 0, and services that were made and never became healthy.
  "docker:index/container:Container": (resource) =>
    hasFailed(resource) || (resource.inputs?.attach === true && resource.outputs?.exitCode !== 0),
  // Its command failed on the machine, or did not end in the time it has; nothing of an association is updated but its tags.
  "aws:ssm/association:Association": hasFailed,
  // For good: EKS takes no update of it any more. One whose update failed has its old machines, which serve.
  [NODE_GROUP]: ({ id = "" }, failedGroups) => failedGroups.has(id),
};

/**
 * URNs of what the next `up` has to make anew, though nothing about it changed.
 *
 * @param failedGroups - Ids of node groups that EKS calls CREATE_FAILED; see {@link suspectGroups}.
 */
export function unfinishedResources(
  resources: readonly StateResource[],
  failedGroups: ReadonlySet<string>,
): string[] {
  return resources
    .filter((one) => one.delete !== true && UNFINISHED[one.type]?.(one, failedGroups) === true)
    .map(({ urn }) => urn);
}

/** Ids, `CLUSTER:GROUP`, of node groups about which only EKS can tell whether their creation failed. */
export function suspectGroups(resources: readonly StateResource[]): string[] {
  return resources.flatMap((one) =>
    one.type === NODE_GROUP && (hasFailed(one) || one.outputs?.status !== "ACTIVE") ? (one.id ?? []) : [],
  );
}
