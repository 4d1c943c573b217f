/** Stacks on AWS, parsed and planned. */
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import type { AwsConfig } from "../../../../infra/config/aws-stacks.ts";
import { type AwsContext, awsContext } from "../../../../infra/plan/aws/context.ts";
import type { AwsPlan } from "../../../../infra/plan/gpu-stack.ts";

type Values = Readonly<Record<string, unknown>>;

const common = {
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  access: { apiCidrs: ["203.0.113.7/32"] },
  models: [{ name: "gpt", model: "gpt2-medium" }],
} as const;

export const eksValues = {
  ...common,
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 0, max: 2 } },
    { name: "cpu", instanceType: "m7i.2xlarge" },
  ],
} as const;

export const ec2Values = {
  ...common,
  compute: "ec2",
  pools: [{ name: "gpu", instanceType: "g5.12xlarge" }],
} as const;

/** A gateway on the internet, with all that it requires. */
export const publicGateway = {
  exposure: "public",
  hostname: "models.example.org",
  apiKeys: [{ name: "alice", sha256: "0".repeat(64) }],
  tls: { certificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/12345678" },
} as const;

interface PlannedStack {
  readonly plan: AwsPlan;
  readonly config: AwsConfig;
  readonly context: AwsContext;
}

/** @throws ConfigError as `up` would. */
export function awsPlan(values: Values, stack = "demo"): PlannedStack {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "aws") throw new Error(`It is a stack of ${plan.platform}.`);
  return { plan, config: plan.config, context: awsContext(plan.config, stack) };
}
