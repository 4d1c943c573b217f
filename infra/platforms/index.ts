/** Which code deploys a plan. Each platform loads on demand, so that a local stack never loads a cloud's SDK. */
import type { DeployedStack } from "../outputs.ts";
import type { StackPlan } from "../plan/stack-plan.ts";

/** Registers all resources of a plan and says what the stack will be. */
export async function deploy(plan: StackPlan): Promise<DeployedStack> {
  switch (plan.platform) {
    case "local":
      return (await import("./local.ts")).deployLocal(plan);
    case "docker":
      return (await import("./docker.ts")).deployDocker(plan);
    case "kubernetes":
      return (await import("./kubernetes.ts")).deployKubernetes(plan);
    case "aws":
      return plan.compute === "eks"
        ? (await import("./aws-eks.ts")).deployEks(plan)
        : (await import("./aws-ec2.ts")).deployEc2(plan);
  }
}
