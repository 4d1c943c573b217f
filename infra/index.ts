/**
 * The program: configuration, plan, platform, outputs.
 *
 *     Pulumi.<stack>.yaml ─▶ parseConfig ─▶ planStack ─▶ deploy ─▶ outputs
 *
 * A mistake in the stack file ends it before the first resource is registered.
 */
import * as pulumi from "@pulumi/pulumi";
import { checkedPlan } from "./checked-plan.ts";
import { fromRuntimeConfig } from "./config/config.ts";
import { deploy } from "./platforms/index.ts";

const { plan } = checkedPlan(fromRuntimeConfig(pulumi.runtime.allConfig(), pulumi.getProject()));

/** The contract of scripts and users: infra/outputs.ts says what each value means. */
export const { endpoints, models, release, engineStore, cost, notes } = await deploy(plan);
