/** Whether AWS has newer images, with their drivers and kernels, for the machines of a cluster: `up` does not renew them by itself. */
import { POOL_LABEL } from "../../infra/plan/aws/context.ts";
import { nodePoolPlans } from "../../infra/plan/aws/eks-cluster.ts";
import { nodeGroups } from "../aws/pools.ts";
import { ask } from "../aws/session.ts";
import type { AwsTarget } from "../program/targets.ts";
import type { Found } from "./aws-services.ts";
import { warning } from "./finding.ts";

/** null while there is no cluster, whose machines begin with the newest image or with that of the stack file. */
export async function machineImageFindings({ plan, context }: AwsTarget): Promise<Found> {
  if (plan.compute !== "eks") return null;
  const groups = await nodeGroups(context);
  if (groups === undefined) return null;
  const { version, machineImageRelease: pinned } = plan.config.cluster;
  const pools = nodePoolPlans(plan).flatMap(({ name, nodeGroup: { amiType } }) => {
    const own = groups.find(({ labels }) => labels[POOL_LABEL] === name);
    // https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
    const variant = amiType === "AL2023_x86_64_NVIDIA" ? "nvidia" : "standard";
    return own === undefined ? [] : [{ name, variant, release: own.release }];
  });
  const variants = [...new Set(pools.map(({ variant }) => variant))];
  const newest = new Map(
    await Promise.all(
      variants.map(async (variant) => {
        const Name = `/aws/service/eks/optimized-ami/${version}/amazon-linux-2023/x86_64/${variant}/recommended/release_version`;
        const answer = await ask("ssm:GetParameter", context.region, { Name });
        return [variant, answer?.Parameter?.Value] as const;
      }),
    ),
  );
  return pools.flatMap(({ name, variant, release }) => {
    const latest = newest.get(variant);
    if (latest === undefined || latest === release) return [];
    const key = `\`cluster: { machineImageRelease: ${latest} }\``;
    return [
      warning(
        "machineImages",
        `Machines of the pool ${name} have the image release ${release}, and AWS has ${latest}.`,
        "Drivers and kernels come with the image, and no `up` renews it by itself.",
        pinned === latest
          ? `\`npx engine-room up --stack ${context.stack}\` renews them, a machine at a time.`
          : `Write ${key}, and run \`npx engine-room up --stack ${context.stack}\`: it replaces machines of all pools, one at a time.`,
      ),
    ];
  });
}
