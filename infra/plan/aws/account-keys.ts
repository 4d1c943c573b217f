/** What a stack file says of the account around a cluster or machine, and not of what runs there. */
import type { AwsConfig } from "../../config/aws-stacks.ts";

const ACCOUNT_KEYS = ["account", "region", "compute", "network", "access", "guard", "retain"] as const;

export function withoutAccount<C extends AwsConfig>(config: C): Omit<C, (typeof ACCOUNT_KEYS)[number]> {
  const rest: Partial<C> = { ...config };
  for (const key of ACCOUNT_KEYS) delete rest[key];
  return rest as Omit<C, (typeof ACCOUNT_KEYS)[number]>;
}
