/** Everything that a stack makes in an account. */
import type { DockerStack, ImageName } from "../docker/types.ts";
import type { AwsPlan, Ec2Plan, EksPlan } from "../gpu-stack.ts";
import { awsContext } from "./context.ts";
import { edgePlan } from "./edge.ts";
import { eksClusterPlan } from "./eks-cluster.ts";
import { fileSystemPlan } from "./file-system.ts";
import { guardPlan } from "./guard.ts";
import { instancePlan } from "./machine/instance-plan.ts";
import { networkPlan } from "./network.ts";
import { repositoryPlans } from "./registries.ts";
import type { AwsContext, Ec2Stack, EksStack } from "./types.ts";

/**
 * Of all stacks with GPUs, whether this one needs them today: others of the account share the repositories, and one that goes
 * takes its images along, or, where a stack is retained, can't go before it is empty.
 */
const BUILT_IMAGES: readonly ImageName[] = ["services", "trtllm", "encoders"];

/** Pure: same plan, same bytes. @param stack - Name of the stack. */
export function eksStack(plan: EksPlan, stack: string): EksStack {
  const context = awsContext(plan.config, stack);
  return {
    ...parts(plan, context),
    compute: "eks",
    cluster: eksClusterPlan(plan, context),
  };
}

/** Pure: same plan, same bytes. @param host - What the instance runs. */
export function ec2Stack(plan: Ec2Plan, stack: string, host: DockerStack): Ec2Stack {
  const context = awsContext(plan.config, stack);
  return {
    ...parts(plan, context),
    compute: "ec2",
    instance: instancePlan(plan, host, context),
  };
}

function parts(plan: AwsPlan, context: AwsContext) {
  const { config } = plan;
  return {
    context,
    network: networkPlan(config, context),
    fileSystem: fileSystemPlan(config, context),
    repositories: repositoryPlans(config, BUILT_IMAGES),
    edge: edgePlan(plan, context),
    guard: guardPlan(config, plan.cost, context),
  };
}
