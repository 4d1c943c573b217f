/** Which code deploys a plan. Each platform loads on demand, so that a local stack never loads a cloud's SDK. */
import type { DeployedStack } from "../outputs.ts";
import type { StackPlan } from "../plan/stack-plan.ts";

type Deploy<P extends StackPlan["platform"]> = (plan: Extract<StackPlan, { platform: P }>) => DeployedStack;

const platforms: { readonly [P in StackPlan["platform"]]: () => Promise<Deploy<P>> } = {
  local: async () => (await import("./local.ts")).deployLocal,
  docker: async () => (await import("./docker.ts")).deployDocker,
  kubernetes: async () => (await import("./kubernetes.ts")).deployKubernetes,
  aws: async () => (await import("./aws.ts")).deployAws,
};

/** Registers all resources of a plan and says what the stack will be. */
export async function deploy(plan: StackPlan): Promise<DeployedStack> {
  const load = platforms[plan.platform] as () => Promise<(plan: StackPlan) => DeployedStack>;
  return (await load())(plan);
}
