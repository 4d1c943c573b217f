/** How long the first `up` of a stack takes until its models answer, as an estimate. */
import type { GpuStackSpec, ModelSpec } from "../spec.ts";
import { NODE_SECONDS } from "./cold-start.ts";
import type { ColdStart, FirstUp, GpuCost } from "./types.ts";

/**
 * Of EKS: "9 minutes or less, on average" (https://aws.amazon.com/about-aws/whats-new/2021/03/amazon-eks-reduces-cluster-creation-time-40-percent/);
 * logs of Terraform have 8 to 11 minutes since.
 */
const CONTROL_PLANE_SECONDS = 600;

/**
 * Of a VPC with its subnets (25 s) and a NAT gateway: logs of Terraform in public repositories have 85 to 125 s for the gateway. The
 * load balancer (140 to 190 s in such logs) is made at the same time, and waited for by nobody until the models answer.
 */
const NETWORK_SECONDS = 130;

interface StartedModel {
  readonly spec: Pick<ModelSpec, "buildPool">;
  readonly engine: { readonly model: string; readonly shortKey: string } | null;
  readonly coldStart: Pick<ColdStart, "seconds">;
}

/**
 * Steps one after the other: the network that is made for one machine, or the control plane and the first machines of a cluster
 * that is made, whose network is ready before them; builds (those of one pool one after the other, pools at the same time), and the
 * slowest cold start. Images have to be in their registry before.
 *
 * @param models - In the order of the stack; an engine that two need is built once, where the first builds it.
 */
export function firstUp(
  { platform, runsOn, rented }: Pick<GpuStackSpec, "platform" | "runsOn" | "rented">,
  models: readonly StartedModel[],
  builds: GpuCost["builds"],
): FirstUp {
  const makesCluster = platform === "aws" && runsOn === "cluster";
  const waitsForNetwork =
    runsOn === "host" && rented.services.some(({ service }) => service === "NAT gateway");
  const steps: readonly FirstUp["steps"][number][] = [
    ...(waitsForNetwork ? [{ what: "network", seconds: NETWORK_SECONDS } as const] : []),
    ...(makesCluster
      ? ([
          { what: "controlPlane", seconds: CONTROL_PLANE_SECONDS },
          { what: "machines", seconds: NODE_SECONDS },
        ] as const)
      : []),
    ...(builds.length === 0 ? [] : [{ what: "builds", seconds: longestQueue(models, builds) } as const]),
    { what: "coldStart", seconds: Math.max(0, ...models.map(({ coldStart }) => coldStart.seconds)) },
  ];
  return { steps, seconds: steps.reduce((sum, { seconds }) => sum + seconds, 0) };
}

function longestQueue(models: readonly StartedModel[], builds: GpuCost["builds"]): number {
  const queues = new Map<string, number>();
  for (const { engine, seconds } of builds) {
    const first = models.find((model) => nameOf(model) === engine);
    const pool = first?.spec.buildPool ?? "";
    queues.set(pool, (queues.get(pool) ?? 0) + seconds);
  }
  return Math.max(0, ...queues.values());
}

/** As {@link GpuCost.builds} names it. */
function nameOf({ engine }: StartedModel): string | null {
  return engine === null ? null : `${engine.model}/${engine.shortKey}`;
}
