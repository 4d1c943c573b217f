/** Served models: rows, limits, repository and pools in place of names and blanks. */

import type { GpuModelConfig } from "../../config/models.ts";
import { languageModels } from "../catalogue/language-models.ts";
import { compareVersions } from "../catalogue/releases.ts";
import type {
  EngineLimits,
  Flavour,
  GoldenQuestion,
  HubSource,
  ImageLayout,
  LanguageModel,
  Release,
} from "../catalogue/types.ts";
import { DEFAULT_MAX_NUM_TOKENS } from "../engine/build-steps.ts";
import { repositoryProblems } from "../repository/problems.ts";
import type { EngineSpec, ModelSpec, ServingSpec, TemplateFiles, WeightsSource } from "../spec.ts";
import { type Report, rowOf, unknownName } from "./names.ts";
import { gpuPool, namedPool, type PoolChoice } from "./pools.ts";

/**
 * First TensorRT-LLM whose Triton backend reuses the KV cache by default: inflight_batcher_llm/src/model_instance_state.cc of
 * https://github.com/triton-inference-server/tensorrtllm_backend, at v0.18.2 and v0.19.0.
 */
const KV_CACHE_REUSE_BY_DEFAULT_FROM = "0.19";

const MODEL_NEED: Parameters<typeof gpuPool>[3] = {
  reason: "TensorRT-LLM runs on nothing else",
  misplaced: (pool) => `The machines of ${pool} have no GPU, and TensorRT-LLM runs on nothing else.`,
  otherwise: "",
};

interface ModelContext extends PoolChoice {
  readonly release: Release;
  readonly layout: ImageLayout;
  readonly templates: ReadonlyMap<string, TemplateFiles>;
}

/** Models whose row and pool are known; the others are reported and left out. */
export function resolveModels(context: ModelContext): readonly ModelSpec[] {
  return context.config.models.flatMap((model, index) => {
    const resolved = resolveModel(model, `models[${index}]`, context);
    return resolved === null ? [] : [resolved];
  });
}

function resolveModel(model: GpuModelConfig, path: string, context: ModelContext): ModelSpec | null {
  const { platform, release, layout, report } = context;
  const row = modelRow(model, path, context);
  const pool = gpuPool(context, `${path}.pool`, model.pool, MODEL_NEED);
  if (row === null) return null;
  const weights = resolveWeights(model.weights, row.source, path, report);
  if (pool?.gpu == null) return null;
  const { gpu, sharing } = pool;
  const engine: EngineSpec = {
    model: model.model,
    row,
    release,
    layout,
    target: sharing.mode === "mig" ? { gpu, migProfile: sharing.profile } : { gpu },
    weights,
    dtype: model.dtype ?? row.dtype,
    quantization: model.quantization,
    tensorParallel: model.tensorParallel,
    pipelineParallel: model.pipelineParallel,
    limits: engineLimits(model.limits, row.limits, release),
    pagedContext: reusesKvCache(model, { row, release }) || model.triton.chunkedContext,
    ...(model.engine?.extraFlags === undefined ? {} : { extraFlags: model.engine.extraFlags }),
    ...(model.engine?.calibration === undefined ? {} : { calibration: model.engine.calibration }),
  };
  const buildPool =
    model.buildPool === undefined ? pool : namedPool(context, model.buildPool, `${path}.buildPool`);
  const withFlavour = (flavour: Flavour): ModelSpec => ({
    engine,
    serving: servingSpec(model, engine, flavour, context),
    pool: pool.name,
    buildPool: (buildPool ?? pool).name,
    gpuIndices: platform.runsOn === "host" ? model.gpuIndices : undefined,
    path,
  });
  return withFlavour(model.flavour ?? defaultFlavour(model, row, withFlavour));
}

/** A model of the stack file comes before one of the catalogue; a check reports that two have one name. */
function modelRow(
  { model: name, golden }: GpuModelConfig,
  path: string,
  { config, report }: ModelContext,
): LanguageModel | null {
  const own: Readonly<Record<string, LanguageModel>> = config.catalogue.models;
  const row = rowOf(own, name) ?? rowOf<LanguageModel>(languageModels, name);
  if (row !== undefined) return golden === undefined ? row : withGolden(row, golden);
  report(
    unknownName(
      `${path}.model`,
      name,
      "a model of the catalogue",
      [...Object.keys(languageModels), ...Object.keys(own)],
      "Others can be added under `catalogue.models`.",
    ),
  );
  return null;
}

/** A question of the stack file about no picture of its own is about that of the row. */
function withGolden(row: LanguageModel, golden: GoldenQuestion): LanguageModel {
  const { image } = row.golden;
  return { ...row, golden: { ...(image === undefined ? {} : { image }), ...golden } };
}

/** In place of a missing name, so that checks which don't look at it still run. */
const MISSING = "(missing)";

/**
 * The source of the catalogue's row, or the stack file's own. A commit belongs to its repository: another repository needs
 * another commit.
 */
function resolveWeights(
  weights: GpuModelConfig["weights"],
  source: HubSource,
  path: string,
  report: Report,
): WeightsSource {
  const own = weights ?? { from: "hub" as const };
  switch (own.from) {
    case "hub": {
      const repository = own.repository ?? source.repository;
      const revision = own.revision ?? (repository === source.repository ? source.revision : null);
      if (revision === null) {
        report({
          path: `${path}.weights.revision`,
          reason: `No commit of ${repository} is known, and the files of its branch may change between two builds.`,
          fix: `Write \`weights: { from: hub, revision: COMMIT }\` with the 40 digits that https://huggingface.co/${repository}/commits/main shows.`,
        });
      }
      return { kind: "hub", repository, revision: revision ?? MISSING };
    }
    case "modelscope": {
      const repository = own.repository ?? source.modelScope;
      if (repository === undefined) {
        report({
          path: `${path}.weights.repository`,
          reason: `The catalogue has no copy of ${source.repository} on ModelScope.`,
          fix: "Name one in weights.repository, or leave `weights` out to download from Hugging Face.",
        });
      }
      return { kind: "modelscope", repository: repository ?? MISSING, revision: own.revision };
    }
    case "s3":
      return { kind: "s3", uri: own.uri, revision: own.revision };
    case "folder":
      return { kind: "folder", path: own.path, revision: own.revision };
  }
}

/**
 * If nothing says how many tokens a step has, TensorRT-LLM's default holds. Before 0.11 that is a batch of the longest
 * prompts, whose activations are larger than most GPUs; such an engine gets the later default, or one prompt if that is more.
 */
function engineLimits(own: GpuModelConfig["limits"], row: EngineLimits, release: Release): EngineLimits {
  // The schema leaves absent keys out.
  const limits = { ...row, ...own } as EngineLimits;
  if (limits.maxNumTokens !== undefined || compareVersions(release.tensorRtLlm, "0.11") >= 0) return limits;
  const { maxBatchSize, maxBeamWidth, maxInputTokens } = limits;
  const most = Math.max(DEFAULT_MAX_NUM_TOKENS, maxInputTokens);
  const longestPrompts = maxBatchSize * maxBeamWidth * maxInputTokens;
  return longestPrompts > most ? { ...limits, maxNumTokens: most } : limits;
}

/** The first repository of the row that serves the model on this release; if none does, the first, which is reported. */
function defaultFlavour(
  { runtime }: GpuModelConfig,
  row: LanguageModel,
  withFlavour: (flavour: Flavour) => ModelSpec,
): Flavour {
  if (runtime === "llmapi") return "llmapi";
  const withEngine = row.flavours.filter((flavour) => flavour !== "llmapi");
  const [first = "inflight_batcher_llm"] = withEngine;
  return withEngine.find((flavour) => repositoryProblems(withFlavour(flavour)).length === 0) ?? first;
}

/** Every field by name: copying the rest of an object would be a twentieth of a plan's time. */
function servingSpec(
  model: GpuModelConfig,
  engine: EngineSpec,
  flavour: Flavour,
  { templates }: Pick<ModelContext, "templates">,
): ServingSpec {
  const { triton } = model;
  // The repository of the LLaVA tutorial has a batch of 1 written in.
  const maxBatchSize = triton.maxBatchSize ?? (flavour === "llava" ? 1 : engine.limits.maxBatchSize);
  return {
    name: model.name,
    runtime: model.runtime,
    flavour,
    tritonBackend: triton.backend,
    maxBatchSize,
    instanceCount: triton.instanceCount,
    blsInstanceCount: triton.blsInstanceCount ?? maxBatchSize,
    // The Python runtime of all_models/gpt answers once, when all is generated.
    streaming: triton.streaming ?? flavour !== "gpt",
    accumulateTokens: triton.accumulateTokens,
    excludeInputInOutput: triton.excludeInputInOutput,
    kvCacheReuse: reusesKvCache(model, engine),
    chunkedContext: triton.chunkedContext,
    maxQueueDelayMicroseconds: triton.maxQueueDelayMicroseconds,
    maxQueueSize: triton.maxQueueSize,
    batchingStrategy: triton.batchingStrategy,
    kvCacheFreeGpuMemoryFraction: triton.kvCacheFreeGpuMemoryFraction,
    maxTokensInPagedKvCache: triton.maxTokensInPagedKvCache,
    maxAttentionWindowTokens: triton.maxAttentionWindowTokens,
    ...(triton.parameters === undefined ? {} : { parameters: triton.parameters }),
    ...(triton.templates === undefined ? {} : { templateFiles: templates.get(triton.templates) ?? {} }),
    concurrentRequests: model.concurrentRequests ?? maxBatchSize,
    replicas: model.replicas,
  };
}

/** With images, reuse needs a prompt_table_extra_id in every request: it is off by default. */
function reusesKvCache(
  { triton }: GpuModelConfig,
  { row, release }: Pick<EngineSpec, "row" | "release">,
): boolean {
  return (
    triton.kvCacheReuse ??
    (row.vision === undefined && compareVersions(release.tensorRtLlm, KV_CACHE_REUSE_BY_DEFAULT_FROM) >= 0)
  );
}
