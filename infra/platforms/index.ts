/** Which code deploys a plan: that of `./<platform>.ts`, loaded on demand, so that a local stack never loads a cloud's SDK. */
import type { DeployedStack } from "../outputs.ts";
import type { StackPlan } from "../plan/stack-plan.ts";
import { ownStack, type Place } from "./program.ts";

/** Exports of a platform's module; `deploy` accepts plans of its own platform. */
interface PlatformModule {
  deploy(plan: StackPlan, place: Place): DeployedStack;
}

/** Registers all resources of a plan and says what the stack will be. */
export async function deploy(plan: StackPlan): Promise<DeployedStack> {
  const name = "compute" in plan ? plan.compute : plan.platform;
  const platform = (await import(/* @vite-ignore */ `./${name}.ts`)) as PlatformModule;
  return platform.deploy(plan, ownStack());
}
