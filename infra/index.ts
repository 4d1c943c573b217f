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

const plan = await loadPlan(fromRuntimeConfig(pulumi.runtime.allConfig(), pulumi.getProject()));

// The SDK writes down a stack trace for each of the promises it makes, four for every property of a resource, and mapping
// them to TypeScript is a third of a preview; only that variable has it print them. Errors keep their messages. With
// `local`, the provider may run in this process, and its errors are worth more.
if (plan.platform !== "local" && process.env.PULUMI_DEBUG_PROMISE_LEAKS === undefined)
  Error.stackTraceLimit = 0;

/** The contract of scripts and users: infra/outputs.ts says what each value means. */
export const { endpoints, models, release, engineStore, cost, notes } = await deploy(plan);
