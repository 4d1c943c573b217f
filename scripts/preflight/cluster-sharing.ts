/** Whether machines give out as many GPUs, or parts of them, as a pool was planned with. Pure. */
import { slotsPerMachine } from "../../infra/plan/pool-space.ts";
import type { GpuSharing, PoolSpec } from "../../infra/plan/spec.ts";
import type { NodeReading } from "./cluster-objects.ts";
import { type Finding, problem } from "./finding.ts";
import { quantity } from "./quantity.ts";

interface OfferedGpus {
  /** Name of the stack, for its commands. */
  readonly stack: string;
  readonly pool: PoolSpec;
  /** As pods ask for it. */
  readonly resource: string;
  /** Machines that have any of it. */
  readonly offering: readonly NodeReading[];
}

/** Shares have to be as many as planned on every machine: one more would be a pod for which no GPU has memory. */
export function sharingFindings({ stack, pool, resource, offering }: OfferedGpus): readonly Finding[] {
  const { sharing } = pool;
  const planned = slotsPerMachine(pool);
  const counted = offering.map((node) => ({ node, count: quantity(node.allocatable[resource] ?? "0") }));
  if (sharing.mode === "none") {
    const most = Math.max(...counted.map(({ count }) => count));
    if (most >= planned) return [];
    return [
      problem(
        "sharing",
        `A machine of the pool ${pool.name} gives out ${most} × ${resource}.`,
        `The pool is planned with ${planned} a machine (sharing: none).`,
        "Correct pools[].machine or pools[].instanceType of the stack file.",
      ),
    ];
  }
  const wrong = counted.flatMap(({ node, count }) => {
    const reason = otherThanPlanned(node, { count, planned, sharing });
    return reason === null ? [] : [{ name: node.name, count, reason }];
  });
  const [first] = wrong;
  if (first === undefined) return [];
  return [
    problem(
      "sharing",
      `The machine ${first.name} of the pool ${pool.name} gives out ${first.count} × ${resource}${wrong.length === 1 ? "" : `, and ${wrong.length - 1} others are not as planned`}.`,
      `${first.reason}; the pool is planned with ${planned} a machine (${described(sharing)}).`,
      `Give the device plugin what \`npx engine-room plan --stack ${stack} --device-plugin-config\` prints, or correct pools[].sharing.`,
    ),
  ];
}

function described(sharing: GpuSharing): string {
  return "replicas" in sharing
    ? `sharing: ${sharing.mode}, ${sharing.replicas} replicas`
    : `sharing: ${sharing.mode}`;
}

/** Of NVIDIA's GPU feature discovery (api/config/v1/sharing.go), by the mode of a pool. */
const STRATEGIES = { timeSlicing: "time-slicing", mps: "mps" } as const;

/** By the labels of GPU feature discovery, where it runs: with it a machine may have more GPUs than planned. */
function otherThanPlanned(
  { labels }: NodeReading,
  { count, planned, sharing }: { count: number; planned: number; sharing: GpuSharing },
): string | null {
  if (sharing.mode === "timeSlicing" || sharing.mode === "mps") {
    const strategy = labels["nvidia.com/gpu.sharing-strategy"];
    if (strategy !== undefined && strategy !== STRATEGIES[sharing.mode])
      return `Its label nvidia.com/gpu.sharing-strategy is ${strategy}`;
    const replicas = labels["nvidia.com/gpu.replicas"];
    if (replicas !== undefined && Number(replicas) !== sharing.replicas)
      return `Its label nvidia.com/gpu.replicas is ${replicas}`;
    if (replicas === undefined && count > planned) return "These are too many";
  }
  return count < planned ? "These are too few" : null;
}
