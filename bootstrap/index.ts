/**
 * Resources of an account before its first stack, as a separate Pulumi project: `down` of a stack deletes none of them.
 *
 *     pulumi -C bootstrap up
 */
import * as pulumi from "@pulumi/pulumi";
import { parseBootstrap } from "../infra/config/bootstrap.ts";
import { bootstrapPlan } from "../infra/plan/aws/bootstrap.ts";
import { deployBootstrap } from "../infra/platforms/bootstrap.ts";

const plan = bootstrapPlan(parseBootstrap(pulumi.runtime.allConfig()));

export const { registry, stateUrl, secretsProvider, roles, policies } = deployBootstrap(plan);
