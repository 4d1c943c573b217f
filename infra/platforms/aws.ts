/** `platform: aws`: the account's part of a stack, and on it everything of `kubernetes` or of `docker`. */
import type { DeployedStack } from "../outputs.ts";
import type { AwsPlan } from "../plan/gpu-stack.ts";
import { deployEc2 } from "./aws-ec2.ts";
import { deployEks } from "./aws-eks.ts";

/** Registers the resources of a stack in an account. */
export function deployAws(plan: AwsPlan): DeployedStack {
  return plan.compute === "eks" ? deployEks(plan) : deployEc2(plan);
}
