/** Memory of GPUs: verdicts of the fit, and the stack file's keys of KV caches. */
import type { MemoryFit } from "../fit/memory-fit.ts";
import type { GpuStackSpec } from "../spec.ts";
import type { Check, CheckedStack } from "./check.ts";

export const fitChecks = {
  memoryFits: (stack) =>
    worstByPath(stack, (fit) => fit.verdict === "doesNotFit" && acceptedReason(fit, stack.spec) === null).map(
      ({ fit, path }) => {
        const changes = fit.alternatives.map(
          ({ change, hourlyUsd }) =>
            change + (hourlyUsd === null || hourlyUsd === 0 ? "" : ` (${hourlyUsd} USD an hour)`),
        );
        const wouldFit =
          changes.length === 0 ? "No single change would make it fit" : `Would fit: ${changes.join("; ")}`;
        return {
          path,
          reason: shortage(fit),
          fix: `${wouldFit}. To try it anyway, write a reason in memoryFit.accept.`,
        };
      },
    ),

  memoryShortageIsAccepted: (stack) =>
    worstByPath(stack, (fit) => fit.verdict === "doesNotFit" && acceptedReason(fit, stack.spec) !== null).map(
      ({ fit, path }) => ({
        severity: "warning",
        path,
        reason: `${shortage(fit)} The stack file accepts it: ${JSON.stringify(acceptedReason(fit, stack.spec))}.`,
        fix: "Watch the first start: if the estimate is right, it fails with `out of memory`.",
      }),
    ),

  memoryIsTight: (stack) =>
    worstByPath(stack, ({ verdict }) => verdict === "tight").map(({ fit, path }) => ({
      severity: "warning",
      path,
      reason: [
        `${tenantNames(fit)}: about ${gib(fit.needGiB)} of the ${gib(fit.capacityGiB)} of ${fit.gpu}, with an error of ${gib(fit.errorGiB)} either way.`,
        ...fit.notes,
      ].join(" "),
      fix: "Lower concurrentRequests or limits.maxBatchSize, or use a larger GPU.",
    })),

  cacheFractionsOfGpu: ({ spec, fit }) =>
    fit.map(({ kvCaches, gpu }) => {
      const fractions = kvCaches.flatMap(({ explicitFraction }) => explicitFraction ?? []);
      const total = fractions.reduce((sum, fraction) => sum + fraction, 0);
      if (fractions.length < 2 || total <= 1) return [];
      const model = spec.models.find(({ serving }) => serving.name === kvCaches[0]?.model);
      return {
        path: `${model?.path}.triton.kvCacheFreeGpuMemoryFraction`,
        reason: `${kvCaches.map((cache) => cache.model).join(" and ")} share ${gpu}, and their fractions are ${Number(total.toFixed(2))} together.`,
        fix: "Lower them to less than 1 together, or remove them: they are then derived from the models on the GPU.",
      };
    }),
} satisfies Record<string, Check>;

/** GPUs of a kind, the worst for each place of the stack file that can be changed. */
function worstByPath(
  { spec, fit: fits }: CheckedStack,
  isMeant: (fit: MemoryFit) => boolean,
): readonly { readonly fit: MemoryFit; readonly path: string }[] {
  const worst = new Map<string, MemoryFit>();
  for (const fit of fits) {
    if (!isMeant(fit)) continue;
    const path = pathOf(fit, spec);
    const before = worst.get(path);
    if (before === undefined || missing(fit) > missing(before)) worst.set(path, fit);
  }
  return [...worst].map(([path, fit]) => ({ fit, path }));
}

/** The first model on the GPU, or else the encoders. */
function pathOf({ tenants }: MemoryFit, { models }: GpuStackSpec): string {
  const model = models.find(({ serving }) => tenants.includes(serving.name));
  return model === undefined ? "encoders.pool" : `${model.path}.memoryFit`;
}

/** The reason of one model accepts the fit of all that share its GPU. */
function acceptedReason({ tenants }: MemoryFit, { memoryFitAccept }: GpuStackSpec): string | null {
  const reasons = tenants.flatMap((tenant) => memoryFitAccept[tenant] ?? []);
  return reasons[0] ?? null;
}

function shortage(fit: MemoryFit): string {
  return `${tenantNames(fit)} ${fit.tenants.length === 1 ? "needs" : "need"} about ${gib(fit.needGiB)} (error ${gib(fit.errorGiB)}), and ${fit.gpu} can give ${gib(fit.capacityGiB)}: ${gib(missing(fit))} too little.`;
}

/** Each tenant once: `2 × llama, gpt2`. */
function tenantNames({ tenants }: MemoryFit): string {
  return [...new Set(tenants)]
    .map((name) => {
      const times = tenants.filter((tenant) => tenant === name).length;
      return times === 1 ? name : `${times} × ${name}`;
    })
    .join(", ");
}

function missing({ needGiB, capacityGiB }: MemoryFit): number {
  return needGiB - capacityGiB;
}

function gib(size: number): string {
  return `${size.toFixed(2)} GiB`;
}
