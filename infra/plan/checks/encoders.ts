/** The encoders on their pool. What they can't be built as stands with their plan, in encoders/. */
import { encoderProblems } from "../encoders/encoder-plan.ts";
import type { EncodersSpec, GpuStackSpec, PoolSpec } from "../spec.ts";
import { type Check, type Key, type Remark, stackCheck } from "./finding.ts";

const KEYS: readonly Key[] = ["compute", "encoders", "pools.name", "pools.instanceType", "pools.machine"];

export const encoderChecks = {
  encodersCanBeBuilt: stackCheck(KEYS, ({ spec }) => {
    const placed = encodersOf(spec);
    return placed === null ? [] : encoderProblems(placed.encoders, placed.pool.gpu).map(withoutValue);
  }),

  encoderGpuIsOfHost: stackCheck(KEYS, ({ spec }) => {
    const placed = encodersOf(spec);
    if (placed?.encoders.gpuIndices === undefined) return [];
    const { encoders, pool } = placed;
    if (spec.runsOn !== "host" || encoders.device === "cpu") {
      return [
        {
          path: "encoders.gpuIndices",
          reason:
            encoders.device === "cpu"
              ? "Encoders with `device: cpu` take no GPU."
              : "GPU numbers are for containers of one machine; in a cluster the scheduler chooses.",
          fix: "Remove it.",
        },
      ];
    }
    return (encoders.gpuIndices ?? []).flatMap((index, position): readonly Remark[] => {
      if (index < pool.machine.gpus) return [];
      return [
        {
          path: `encoders.gpuIndices[${position}]`,
          reason: `The host's GPUs have the numbers 0 to ${pool.machine.gpus - 1}.`,
          fix: "Use one of them.",
        },
      ];
    });
  }),
} satisfies Record<string, Check>;

function encodersOf({
  encoders,
  pools,
}: GpuStackSpec): { readonly encoders: EncodersSpec; readonly pool: PoolSpec } | null {
  const pool = pools.find(({ name }) => name === encoders?.pool);
  return encoders === null || pool === undefined ? null : { encoders, pool };
}

/** The stack file's own value is shown, which is absent where a default was taken. */
function withoutValue({ path, reason, fix }: Remark): Remark {
  return { path, reason, fix };
}
