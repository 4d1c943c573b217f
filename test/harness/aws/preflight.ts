/** Preflight of a small stack, asked of whatever answers at AWS_ENDPOINT_URL. */
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { awsPreflight } from "../../../scripts/preflight/aws.ts";
import type { Finding } from "../../../scripts/preflight/finding.ts";
import { type AwsTarget, awsTarget } from "../../../scripts/program/targets.ts";
import { MOTO_ACCOUNT } from "./moto.ts";
import type { MadeNetwork } from "./resources.ts";
import { EKS_STACK } from "./stacks.ts";

/** Its zone d has machines without GPUs, and no g5. */
export const REGION = "us-west-2";
export const STACK = "preflight";

export type Values = Readonly<Record<string, unknown>>;

export const VALUES = { ...EKS_STACK, account: MOTO_ACCOUNT, region: REGION };

export const targetOf = (values: Values, stack = STACK): AwsTarget =>
  awsTarget(checkedPlan(values).plan as AwsPlan, stack);

/** All findings. @param images - @default those of the lock file */
export async function found(
  values: Values = VALUES,
  images?: AwsTarget["images"],
): Promise<readonly Finding[]> {
  const target = targetOf(values);
  const own = images === undefined ? target : { ...target, images, imageProblems: [] };
  const checks = await awsPreflight(own, {
    registry: async () => ({ kind: "present" }),
    localAddresses: () => [],
    ownAddress: async () => null,
  });
  return checks.flatMap(({ findings }) => findings);
}

export const ofCheck = (findings: readonly Finding[], check: string) =>
  findings.filter((finding) => finding.check === check);

/** In an existing VPC. @param zones - Zones of both subnets, as in the stack file. */
export function inNetwork({ vpcId, subnetIds }: MadeNetwork, zones = ["a", "b"]): Values {
  const privateSubnets = subnetIds.map((id, index) => ({ id, zone: zones[index] }));
  return { ...VALUES, network: { existing: { vpcId, cidr: "10.1.0.0/16", privateSubnets } } };
}
