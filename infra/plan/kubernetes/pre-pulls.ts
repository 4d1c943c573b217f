/** Images that machines get before a pod wants them: a server that is moved starts without the minutes of its download. */
import type { ImageName } from "../docker/types.ts";
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import type { PoolSpec } from "../spec.ts";
import { poolPlacement } from "./placement.ts";
import { pod } from "./pod.ts";
import type { PrePullPlan } from "./types.ts";

/** A process that sleeps. */
const REQUEST = { cpuMillis: 10, memoryMiB: 32 } as const;

/** It has nothing to end. */
const GRACE_SECONDS = 1;

/** One for each image of each pool that asks for it: as long as a pod of it runs, the kubelet does not delete the image. */
export function prePulls(stack: string, plan: ClusterGpuPlan): readonly PrePullPlan[] {
  return plan.spec.pools
    .filter(({ prePullsImages }) => prePullsImages === true)
    .flatMap((pool) => imagesOf(plan, pool).map((image) => prePull(stack, plan, pool, image)));
}

/** Large ones; those of the gateway and the databases come in seconds. */
function imagesOf({ spec }: ClusterGpuPlan, { name }: PoolSpec): readonly ImageName[] {
  const serves = spec.models.some(({ pool, buildPool }) => pool === name || buildPool === name);
  return [
    ...(serves ? (["trtllm"] as const) : []),
    ...(spec.encoders?.pool === name ? (["encoders"] as const) : []),
  ];
}

function prePull(stack: string, plan: ClusterGpuPlan, pool: PoolSpec, image: ImageName): PrePullPlan {
  const name = `pre-pull-${pool.name}-${image}`;
  const made = pod(stack, name, {
    role: "prePull",
    image,
    command: ["sleep", "infinity"],
    volumes: [],
    resources: { ...REQUEST, limitsMemory: true, ephemeralGiB: null, gpus: null },
    placement: poolPlacement(plan, pool),
    graceSeconds: GRACE_SECONDS,
  });
  const own = { "engine-room/image": image, "engine-room/pool": pool.name };
  return {
    name,
    machines: pool.nodes.max,
    pod: { ...made, labels: { ...made.labels, ...own }, selector: { ...made.selector, ...own } },
  };
}
