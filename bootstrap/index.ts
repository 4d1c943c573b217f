/**
 * What an account has before its first stack, as a Pulumi project of its own: a `down` of a stack reaches none of it.
 *
 *     pulumi -C bootstrap up
 */
import * as pulumi from "@pulumi/pulumi";
import { parseBootstrap } from "../infra/config/bootstrap.ts";
import { bootstrapPlan } from "../infra/plan/aws/bootstrap.ts";
import { deployBootstrap } from "../infra/platforms/bootstrap.ts";

const plan = bootstrapPlan(parseBootstrap(pulumi.runtime.allConfig()));

export const { registry, stateUrl, secretsProvider, roles, policies } = deployBootstrap(plan);
