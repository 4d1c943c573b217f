/** Results of a stack as a record of its GPU. */
import type { GpuName } from "../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS } from "../../infra/plan/catalogue/language-models.ts";
import { isReleaseTag, type ReleaseTag } from "../../infra/plan/catalogue/releases.ts";
import { hostPool, serverGpus } from "../../infra/plan/docker/docker-stack.ts";
import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { catalogueName } from "../preflight/gpu-facts.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import { readMachine } from "../preflight/machine-reading.ts";
import type { CheckResult } from "./check.ts";
import type { EncodersProof, ModelProof, Proof } from "./proof-file.ts";
import type { Verified } from "./verify-stack.ts";

/** What a run can be a record of. */
export type Seen =
  | {
      readonly kind: "gpu";
      readonly plan: DockerGpuPlan;
      readonly gpu: GpuName;
      readonly release: ReleaseTag;
      /** `575.57.08`. */
      readonly driver: string;
    }
  /** Half a sentence. */
  | { readonly kind: "none"; readonly reason: string };

/** The GPU that the plan is for, where all that its servers use are of that kind. @param probe - Of the stack's host; null: it has none. */
export async function seenGpu(plan: StackPlan, probe: HostProbe | null): Promise<Seen> {
  const none = (reason: string): Seen => ({ kind: "none", reason });
  if (plan.tier === "cpu") return none("the stack runs on a CPU");
  if (plan.platform !== "docker" || probe === null)
    return none(`the GPUs of a stack on ${plan.platform} can't be asked from here`);
  const { tag } = plan.release;
  if (!isReleaseTag(tag)) return none(`the release ${tag} is not in the catalogue`);
  const machine = await readMachine(probe, []);
  if ("unreachable" in machine) return none(`the host can't be asked for its GPU (${machine.unreachable})`);
  if (machine.gpus === null) return none(`nvidia-smi shows no GPU of the host (${machine.gpuWords})`);
  const planned = hostPool(plan).gpu?.name;
  const indices = new Set(serverGpus(plan).flatMap((server) => server.indices));
  const used = machine.gpus.filter(({ index }) => indices.has(index));
  const other = used.find(({ name }) => planned === undefined || catalogueName(name) !== planned);
  const [first] = used;
  const gpu = first === undefined ? undefined : catalogueName(first.name);
  if (used.length < indices.size)
    return none(`the host has ${machine.gpus.length} GPUs, and the plan uses ${indices.size}`);
  if (first !== undefined && gpu !== undefined && other === undefined)
    return { kind: "gpu", plan, gpu, release: tag, driver: first.driver };
  return none(`the host has ${(other ?? machine.gpus[0])?.name ?? "no GPU"}, and the plan is for ${planned}`);
}

/** The record of one run. Models that the stack file adds to the catalogue are left out: nobody else knows them. */
export function proofOf(
  { plan, gpu, release }: Extract<Seen, { kind: "gpu" }>,
  verified: readonly Verified[],
  run: ModelProof["run"],
): Proof {
  const { sharing } = hostPool(plan);
  const migProfile = sharing.mode === "mig" ? sharing.profile : null;
  return {
    version: 1,
    gpu,
    release,
    tensorRtLlm: plan.release.tensorRtLlm,
    models: verified.flatMap((one): ModelProof[] => {
      const model = plan.models.find(({ name }) => name === one.name);
      if (one.kind !== "model" || model === undefined) return [];
      const { engine, serving } = model.spec;
      const catalogued = LANGUAGE_MODELS.find((name) => name === engine.model);
      if (catalogued === undefined) return [];
      const { dtype, quantization, tensorParallel, pipelineParallel } = engine;
      return [
        {
          model: catalogued,
          runtime: serving.runtime,
          flavour: serving.flavour,
          dtype,
          quantization,
          tensorParallel,
          pipelineParallel,
          migProfile,
          engineKey: model.engine?.key ?? null,
          run,
          checks: one.results.map(recordOf),
        },
      ];
    }),
    encoders: verified.flatMap((one): EncodersProof[] => {
      const { encoders } = plan.spec;
      if (one.kind !== "encoders" || encoders === null) return [];
      const { vision, text, device, precision } = encoders;
      return [{ vision, text, device, precision, migProfile, run, checks: one.results.map(recordOf) }];
    }),
  };
}

function recordOf<Record>({ record }: { readonly record: Record }): Record {
  return record;
}

type Outcome = CheckResult["record"]["outcome"];

/** How many results there are of each outcome. */
export function counts(verified: readonly Verified[]): Readonly<Record<Outcome, number>> {
  const outcomes = verified.flatMap(({ results }) => results.map(({ record }): Outcome => record.outcome));
  const of = (outcome: Outcome) => outcomes.filter((one) => one === outcome).length;
  return { passed: of("passed"), failed: of("failed"), skipped: of("skipped") };
}
