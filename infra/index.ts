/**
 * The program: configuration, plan, platform, outputs.
 *
 *     Pulumi.<stack>.yaml ─▶ loadPlan ─▶ deploy ─▶ outputs
 *
 * A mistake in the stack file ends it before the first resource is registered.
 */
import * as pulumi from "@pulumi/pulumi";
import { fromRuntimeConfig } from "./config/config.ts";
import { loadPlan } from "./load-plan.ts";
import { deploy } from "./platforms/index.ts";

const plan = await loadPlan(fromRuntimeConfig(pulumi.runtime.allConfig()));

/** The contract of scripts and users: infra/outputs.ts says what each value means. */
export const { endpoints, models, release, engineStore, cost, notes } = await deploy(plan);
