/**
 * The program: configuration, plan, platform, outputs.
 *
 *     Pulumi.<stack>.yaml ─▶ loadPlan ─▶ deploy ─▶ outputs
 *
 * A mistake in the stack file ends it before the first resource is registered.
 */
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { fromRuntimeConfig } from "./config/config.ts";
import { loadPlan } from "./load-plan.ts";
import type { StackPlan } from "./plan/stack-plan.ts";
import { deploy } from "./platforms/index.ts";

/** The configuration arrives without a file; the stack's usual file is read if there are problems, for their lines. */
async function plannedStack(): Promise<StackPlan> {
  const all = pulumi.runtime.allConfig();
  try {
    return await loadPlan(fromRuntimeConfig(all));
  } catch (error) {
    const { withLines } = await import("./config/stack-text.ts");
    const file = `Pulumi.${pulumi.getStack()}.yaml`;
    throw withLines(error, join(pulumi.getRootDirectory(), file), file, all);
  }
}

const plan = await plannedStack();

/** The contract of scripts and users: infra/outputs.ts says what each value means. */
export const { endpoints, models, release, engineStore, cost, notes } = await deploy(plan);
