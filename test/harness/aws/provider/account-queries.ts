/** Queries over all resources of an account. */
import type { LiveResource, Properties } from "./account.ts";

export type Live = readonly LiveResource[];

export function ofType(live: Live, type: string): Live {
  return live.filter((one) => one.type === type);
}

export function isLive(live: Live, type: string, id: string): boolean {
  return ofType(live, type).some((one) => one.id === id);
}

function subnet(live: Live, id: unknown): Properties {
  return ofType(live, "aws:ec2/subnet:Subnet").find((one) => one.id === id)?.inputs ?? {};
}

export const zoneOf = (live: Live, subnetId: unknown) => subnet(live, subnetId).availabilityZone;
export const vpcOf = (live: Live, subnetId: unknown) => subnet(live, subnetId).vpcId;

export function mountTargets(live: Live, fileSystemId: unknown): readonly Properties[] {
  return ofType(live, "aws:efs/mountTarget:MountTarget")
    .map(({ inputs }) => inputs)
    .filter((one) => one.fileSystemId === fileSystemId);
}

/** Node groups count, not their machines: an empty group grows when a pod waits. */
export function machinesOf(live: Live, clusterName: unknown): number {
  return ofType(live, "aws:eks/nodeGroup:NodeGroup").filter(
    ({ inputs }) => inputs.clusterName === clusterName,
  ).length;
}
