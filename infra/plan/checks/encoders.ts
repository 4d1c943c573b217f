/** The encoders on their pool. What they can't be built as stands with their plan, in encoders/. */
import { encoderProblems } from "../encoders/encoder-problems.ts";
import type { EncodersSpec, PoolSpec } from "../spec.ts";
import type { Check, CheckedStack, Findings } from "./check.ts";

export const encoderChecks = {
  encodersCanBeBuilt: onPool((encoders, { gpu }) =>
    // The stack file's own value is shown, which is absent where a default was taken.
    encoderProblems(encoders, gpu).map(({ path, reason, fix }) => ({ path, reason, fix })),
  ),

  encoderGpuIsOfHost: onPool(({ gpuIndices, device }, { machine: { gpus } }, { spec }) => {
    if (gpuIndices === undefined) return [];
    const path = "encoders.gpuIndices";
    if (device === "cpu")
      return { path, reason: "Encoders with `device: cpu` take no GPU.", fix: "Remove it." };
    if (spec.runsOn !== "host") {
      const reason = "GPU numbers are for containers of one machine; in a cluster the scheduler chooses.";
      return { path, reason, fix: "Remove it." };
    }
    return gpuIndices.map(
      (index, position) =>
        index >= gpus && {
          path: `${path}[${position}]`,
          reason: `The host's GPUs have the numbers 0 to ${gpus - 1}.`,
          fix: "Use one of them.",
        },
    );
  }),
} satisfies Record<string, Check>;

function onPool(check: (encoders: EncodersSpec, pool: PoolSpec, stack: CheckedStack) => Findings): Check {
  return (stack) => {
    const { encoders, pools } = stack.spec;
    const pool = pools.find(({ name }) => name === encoders?.pool);
    return encoders !== null && pool !== undefined && check(encoders, pool, stack);
  };
}
