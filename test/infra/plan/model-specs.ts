/** Models of a stack file as resolved with the catalogue's defaults, on 25.07 and an A10G. */
import { gpus } from "../../../infra/plan/catalogue/gpus.ts";
import { type LanguageModelName, languageModels } from "../../../infra/plan/catalogue/language-models.ts";
import { type ReleaseTag, releases } from "../../../infra/plan/catalogue/releases.ts";
import type { LanguageModel, Release } from "../../../infra/plan/catalogue/types.ts";
import type { EngineSpec, ModelSpec, ServingSpec } from "../../../infra/plan/spec.ts";

export interface EngineChanges extends Partial<Omit<EngineSpec, "release" | "limits">> {
  readonly limits?: Partial<EngineSpec["limits"]>;
  readonly release?: ReleaseTag | Release;
}

export function engineSpec(model: LanguageModelName, changes: EngineChanges = {}): EngineSpec {
  const row: LanguageModel = changes.row ?? languageModels[model];
  const release = changes.release ?? "25.07";
  return {
    model,
    layout: "ngc",
    target: { gpu: gpus.A10G },
    weights: {
      kind: "hub",
      repository: row.source.repository,
      revision: row.source.revision ?? "main",
    },
    dtype: row.dtype,
    quantization: "none",
    tensorParallel: 1,
    pipelineParallel: 1,
    pagedContext: false,
    ...changes,
    row,
    release: typeof release === "string" ? releases[release] : release,
    limits: { ...row.limits, ...changes.limits },
  };
}

/** The only model of a stack, served from its only pool. */
export function servedModel(engine: EngineSpec, serving: Partial<ServingSpec> = {}): ModelSpec {
  const flavour = serving.flavour ?? engine.row.flavours[0];
  if (flavour === undefined) throw new Error(`The row of ${engine.model} has no flavour.`);
  return {
    engine,
    serving: {
      name: engine.model,
      runtime: flavour === "llmapi" ? "llmapi" : "engine",
      flavour,
      tritonBackend: "tensorrtllm",
      maxBatchSize: engine.limits.maxBatchSize,
      instanceCount: 1,
      blsInstanceCount: 1,
      streaming: false,
      accumulateTokens: false,
      excludeInputInOutput: true,
      kvCacheReuse: false,
      chunkedContext: false,
      maxQueueDelayMicroseconds: 0,
      maxQueueSize: 0,
      batchingStrategy: "inflight_fused_batching",
      concurrentRequests: 1,
      replicas: 1,
      ...serving,
    },
    pool: "gpu",
    buildPool: "gpu",
    path: "models[0]",
  };
}
