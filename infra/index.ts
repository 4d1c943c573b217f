/**
 * The program: configuration, plan, platform, outputs.
 *
 *     Pulumi.<stack>.yaml ─▶ parseConfig ─▶ planStack ─▶ deploy ─▶ outputs
 *
 * A mistake in the stack file ends it before the first resource is registered.
 */
import * as pulumi from "@pulumi/pulumi";
import { fromRuntimeConfig, parseConfig } from "./config.ts";
import { planStack } from "./plan/stack-plan.ts";
import { deploy } from "./platforms/index.ts";

const config = parseConfig(fromRuntimeConfig(pulumi.runtime.allConfig(), pulumi.getProject()));
const plan = planStack(config);

/** The contract of scripts and users: infra/outputs.ts says what each value means. */
export const { endpoints, models, release, engineStore, cost, notes } = await deploy(plan);
