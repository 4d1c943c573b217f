/** Images that machines get before a pod wants them: a server that is moved starts without the minutes of its download. */
import type { ImageName } from "../docker/types.ts";
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import { PRE_PULL_REQUEST, prePulledImages } from "../pod-requests.ts";
import type { PoolSpec } from "../spec.ts";
import { poolPlacement } from "./placement.ts";
import { pod } from "./pod.ts";
import type { PrePullPlan } from "./types.ts";

/** It has nothing to end. */
const GRACE_SECONDS = 1;

/** One for each image of each pool that asks for it: as long as a pod of it runs, the kubelet does not delete the image. */
export function prePulls(stack: string, plan: ClusterGpuPlan): readonly PrePullPlan[] {
  return plan.spec.pools.flatMap((pool) =>
    prePulledImages(plan.spec, pool).map((image) => prePull(stack, plan, pool, image)),
  );
}

function prePull(stack: string, plan: ClusterGpuPlan, pool: PoolSpec, image: ImageName): PrePullPlan {
  const name = `pre-pull-${pool.name}-${image}`;
  const made = pod(stack, name, {
    role: "prePull",
    image,
    command: ["sleep", "infinity"],
    volumes: [],
    resources: { ...PRE_PULL_REQUEST, limitsMemory: true, ephemeralGiB: null, gpus: null },
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
