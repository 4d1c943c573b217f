/** Which code deploys a plan. Each platform loads on demand, so that a local stack never loads a cloud's SDK. */
import type { DeployedStack } from "../outputs.ts";
import type { StackPlan } from "../plan/stack-plan.ts";

type PlanOf<Part> = Extract<StackPlan, Part>;

const platforms = {
  local: async (plan: PlanOf<{ platform: "local" }>) => (await import("./local.ts")).deployLocal(plan),
  docker: async (plan: PlanOf<{ platform: "docker" }>) => (await import("./docker.ts")).deployDocker(plan),
  kubernetes: async (plan: PlanOf<{ platform: "kubernetes" }>) =>
    (await import("./kubernetes.ts")).deployKubernetes(plan),
  eks: async (plan: PlanOf<{ compute: "eks" }>) => (await import("./aws-eks.ts")).deployEks(plan),
  ec2: async (plan: PlanOf<{ compute: "ec2" }>) => (await import("./aws-ec2.ts")).deployEc2(plan),
};

/** Registers all resources of a plan and says what the stack will be. */
export function deploy(plan: StackPlan): Promise<DeployedStack> {
  const name = "compute" in plan ? plan.compute : plan.platform;
  // Each row takes the plan of its own name.
  return (platforms[name] as (plan: StackPlan) => Promise<DeployedStack>)(plan);
}
