/** Which code deploys a plan. Each platform loads on demand, so that a local stack never loads a cloud's SDK. */
import type { DeployedStack } from "../outputs.ts";
import type { StackPlan } from "../plan/stack-plan.ts";

type Deploy<Plan extends StackPlan> = (plan: Plan) => DeployedStack;

const platforms: {
  readonly [P in StackPlan["platform"]]: () => Promise<Deploy<Extract<StackPlan, { platform: P }>>>;
} = {
  local: async () => (await import("./local.ts")).deployLocal,
};

/** Registers all resources of a plan and says what the stack will be. */
export async function deploy(plan: StackPlan): Promise<DeployedStack> {
  return (await platforms[plan.platform]())(plan);
}
