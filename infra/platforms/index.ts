/** Which code deploys a plan. Each platform loads on demand, so that a local stack never loads a cloud's SDK. */
import type { DeployedStack } from "../outputs.ts";
import type { StackPlan } from "../plan/stack-plan.ts";
import { ConfigError } from "../problems.ts";

type Deploy<P extends StackPlan["platform"]> = (plan: Extract<StackPlan, { platform: P }>) => DeployedStack;

/** Platforms without a row can be planned, not deployed, by this version. */
const platforms: { readonly [P in StackPlan["platform"]]?: () => Promise<Deploy<P>> } = {
  local: async () => (await import("./local.ts")).deployLocal,
  docker: async () => (await import("./docker.ts")).deployDocker,
  kubernetes: async () => (await import("./kubernetes.ts")).deployKubernetes,
};

/** @throws ConfigError where this version has no components for the platform. */
export function refuseUndeployable(platform: StackPlan["platform"]): void {
  if (platforms[platform] === undefined) throw notDeployable(platform);
}

/**
 * Registers all resources of a plan and says what the stack will be.
 *
 * @throws ConfigError where this version has no components for the platform.
 */
export async function deploy(plan: StackPlan): Promise<DeployedStack> {
  refuseUndeployable(plan.platform);
  const load = platforms[plan.platform] as () => Promise<(plan: StackPlan) => DeployedStack>;
  return (await load())(plan);
}

function notDeployable(platform: string): ConfigError {
  return new ConfigError([
    {
      path: "platform",
      value: JSON.stringify(platform),
      reason: `This version plans the platform ${platform}, and deploys only ${Object.keys(platforms).join(", ")}.`,
      fix: "Look at it with `npm run plan`, or set `engine-room:platform: local`.",
    },
  ]);
}
