/**
 * The policy pack: `pulumi preview --policy-pack policy`. The CLI gives it the stack's name and configuration, from which
 * levels and facts come as they do in `npm run diff`.
 */
import { PolicyPack } from "@pulumi/policy";
import * as pulumi from "@pulumi/pulumi";
import { packPolicies } from "./pack.ts";
import { stackPolicy } from "./stack-policy.ts";

const policy = stackPolicy(pulumi.getStack(), pulumi.runtime.allConfig(), pulumi.getProject());

new PolicyPack("engine-room", { policies: policy === null ? [] : packPolicies(policy) });
