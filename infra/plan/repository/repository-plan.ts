/** Plans the model repository of a model: folders, values of every placeholder, and the launch command. */
import { ConfigError, showValue } from "../../problems.ts";
import { compareVersions } from "../catalogue/releases.ts";
import { type TemplateSet, templateSet } from "../catalogue/templates.ts";
import type { Flavour, Release } from "../catalogue/types.ts";
import type { EnginePlan, ModelServerSpec } from "../container-spec-schemas.ts";
import { imageFiles, type RepositoryClone } from "../engine/release.ts";
import { weightsDirectory } from "../engine/weights.ts";
import type { ModelSpec } from "../spec.ts";
import { blsTakesPictures, imageProcessing, llmapiPictures, severalPictures } from "./image-processing.ts";
import { type LaunchPlan, MODEL_REPOSITORY, modelLaunch } from "./launch.ts";
import {
  executionRules,
  fillTemplate,
  isDecoupled,
  type ParameterFacts,
  type Rules,
  tokenizerFolder,
} from "./parameters.ts";

export type RepositoryModel = ModelServerSpec["repository"]["models"][number];

/** The model repository of a server; the entry point in the image writes its files. */
export type RepositoryPlan = ModelServerSpec["repository"] & {
  /** Empty if NVIDIA's image has everything. */
  readonly clones: readonly RepositoryClone[];
  readonly launch: LaunchPlan;
};

/** The part of a plan that depends on the flavour. */
interface FlavourPlan {
  readonly models: readonly RepositoryModel[];
  readonly clientModel: string;
  /** @default clientModel */
  readonly streamingModel?: string;
  /** Variables of the server. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly clones?: readonly RepositoryClone[];
}

/**
 * Plans the model repository of one model for which `repositoryProblems` finds nothing. Same input, same plan, to the byte.
 *
 * @param engine null for a model without an engine, which is `runtime: llmapi`.
 * @param kvCacheFreeGpuMemoryFraction Part of the GPU memory that is free after loading, above 0 and at most 1.
 * @throws ConfigError for values that no template can hold.
 */
export function repositoryPlan(
  model: ModelSpec,
  engine: EnginePlan | null,
  kvCacheFreeGpuMemoryFraction: number,
): RepositoryPlan {
  const { release, layout } = model.engine;
  const { flavour, name } = model.serving;
  const { allModels, fillTemplate, clones } = imageFiles(release, layout);
  const templates = templateSet(release.templates);
  let plan: FlavourPlan;
  if (flavour === "llmapi") {
    plan = llmApiPlan(model, kvCacheFreeGpuMemoryFraction);
  } else {
    if (engine === null || templates === undefined) throw new Error(`${name} has no engine plan.`);
    plan = flavours[flavour]({ model, engine, templates, kvCacheFreeGpuMemoryFraction });
    refuseObstacles(model, plan, templates);
  }
  return {
    flavour,
    templates: release.templates ?? `r${release.tag}`,
    allModels,
    fillTemplate,
    clones: [...clones, ...(plan.clones ?? [])],
    path: MODEL_REPOSITORY,
    models: plan.models
      .map((one) => withOwnFiles(one, model.serving))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
    launch: modelLaunch(model, engine, plan.environment),
    clientModel: plan.clientModel,
    streamingModel: plan.streamingModel ?? plan.clientModel,
    decoupled: isDecoupled(model.serving),
  };
}

/** A folder with the files that the stack file has for it, in place of the template's. */
function withOwnFiles(one: RepositoryModel, { templateFiles = {} }: ModelSpec["serving"]): RepositoryModel {
  const prefix = `${one.name}/`;
  const own = Object.entries(templateFiles).filter(([path]) => path.startsWith(prefix));
  if (own.length === 0) return one;
  const files = Object.fromEntries(own.map(([path, text]) => [path.slice(prefix.length), text]));
  return { ...one, files: { ...one.files, ...files } };
}

/** Paths of a stack file may have characters that fill_template.py or config.pbtxt reads otherwise. */
function refuseObstacles({ path }: ModelSpec, { models }: FlavourPlan, templates: TemplateSet): void {
  const obstacles = models.flatMap(({ name, substitutions }) =>
    Object.entries(substitutions).flatMap(([key, value]) => {
      const obstacle = valueObstacle(value, templates);
      if (obstacle === null) return [];
      return [
        {
          path,
          value: showValue(value),
          reason: `It would be ${key} of ${name}, and ${obstacle}`,
          fix: "Choose a path and a name without these characters, or a later release.",
        },
      ];
    }),
  );
  if (obstacles.length > 0) throw new ConfigError(obstacles);
}

/** Why a value can't be filled in; null if it can. */
export function valueObstacle(
  value: string,
  { escapesCommas }: Pick<TemplateSet, "escapesCommas">,
): string | null {
  if (!escapesCommas && /[,:]/.test(value)) {
    return "fill_template.py before TensorRT-LLM 0.16 splits at every comma and colon and has no way to escape them.";
  }
  // The value lands between quotes of config.pbtxt, where it is protobuf text; "${" would read as not filled in.
  if (/["\\$\p{Cc}]/u.test(value)) {
    return "it is between quotes in config.pbtxt, where quotes, backslashes, dollar signs and control characters have a meaning.";
  }
  return null;
}

/** A folder from a template below all_models; one that the set doesn't list has no placeholder. */
function fromTemplate(
  facts: ParameterFacts,
  template: string,
  own: Partial<Omit<RepositoryModel, "template" | "substitutions" | "defaults">> & {
    readonly overrides?: Rules;
  } = {},
): RepositoryModel {
  const { name = template.slice(template.indexOf("/") + 1), overrides, ...others } = own;
  const keys = facts.templates.models[template] ?? { mandatory: [], optional: [] };
  return {
    name,
    template,
    ...fillTemplate(template, keys, facts, overrides),
    ...others,
  };
}

/** A Python model, the BLS, ties the other three with any number of responses. */
function batcherModels(facts: ParameterFacts): readonly RepositoryModel[] {
  return ["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"].map((name) =>
    fromTemplate(facts, `inflight_batcher_llm/${name}`),
  );
}

/** all_models/inflight_batcher_llm: the models above, and an ensemble of them. */
function inflightBatcher(facts: ParameterFacts): FlavourPlan {
  return {
    models: [fromTemplate(facts, "inflight_batcher_llm/ensemble"), ...batcherModels(facts)],
    clientModel: "ensemble",
    // Only the BLS can hand all tokens so far to postprocessing.
    streamingModel: facts.model.serving.accumulateTokens ? "tensorrt_llm_bls" : "ensemble",
  };
}

/**
 * all_models/multimodal over all_models/inflight_batcher_llm, from 0.13 on: an ensemble that takes images, and
 * multimodal_encoders, which runs the visual engine on GPU 0. Up to 0.15 the BLS only takes images as tensors of the client, and
 * streams stay with the ensemble.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/r25.07/docs/multimodal.md
 */
function multimodal(facts: ParameterFacts): FlavourPlan {
  const { serving, engine } = facts.model;
  return {
    models: [
      fromTemplate(facts, "multimodal/ensemble"),
      fromTemplate(facts, "multimodal/multimodal_encoders", severalPictures(facts.model)),
      ...batcherModels(facts).map((one) =>
        one.name === "preprocessing" ? { ...one, ...imageProcessing(facts.model) } : one,
      ),
    ],
    clientModel: "ensemble",
    streamingModel:
      serving.accumulateTokens && blsTakesPictures(engine.release) ? "tensorrt_llm_bls" : "ensemble",
  };
}

/** Folder of triton-inference-server/tutorials; its guides mount it there too. */
const TUTORIALS_FOLDER = "/tutorials";

/** Commit of branch r25.07, the same from r24.11 to r26.01. The image has it with the patches of containers/trtllm/patches. */
const TUTORIALS_COMMIT = "17331012af74eab68ad7c86d8a4ae494272ca4f7";

/**
 * File that the visual engine builder writes for LLaVA, by the tutorial (0.9) or all_models/multimodal/multimodal_encoders/1/model.py
 * (from 0.13 on); null if neither names it.
 */
export function llavaEngineFile({ tensorRtLlm }: Release): string | null {
  if (compareVersions(tensorRtLlm, "0.13") >= 0) return "model.engine";
  return /^0\.9(\.|$)/.test(tensorRtLlm) ? "visual_encoder.engine" : null;
}

/**
 * The model repository of Triton's LLaVA-1.5 tutorial: `llava-1.5` tokenizes and asks `vision_encoder` and
 * `tensorrt_llm`. Its batch size (1), vocabulary (32064) and prompt limit (2048 tokens) are written into it.
 * https://github.com/triton-inference-server/tutorials/tree/r25.07/Popular_Models_Guide/Llava1.5/model_repository
 */
function llava(facts: ParameterFacts): FlavourPlan {
  const { places } = facts.engine;
  const folder = (name: string, filled = { substitutions: {}, defaults: {} }): RepositoryModel => ({
    name,
    template: name,
    templateRoot: `${TUTORIALS_FOLDER}/Popular_Models_Guide/Llava1.5/model_repository`,
    ...filled,
  });
  const placeholders = { mandatory: [], optional: Object.keys(executionRules) };
  const filled = fillTemplate("llava/tensorrt_llm", placeholders, facts, {
    // llava-1.5 decodes the whole output, which must be only the answer: streamed responses hold only that.
    exclude_input_in_output: { keep: "streamed answers never hold the prompt" },
    enable_kv_cache_reuse: () => false,
  });
  return {
    models: [folder("llava-1.5"), folder("tensorrt_llm", filled), folder("vision_encoder")],
    environment: {
      HF_LOCATION: places.weights,
      TRT_ENGINE_LOCATION: `${places.vision}/${llavaEngineFile(facts.model.engine.release)}`,
    },
    clones: [
      {
        url: "https://github.com/triton-inference-server/tutorials.git",
        commit: TUTORIALS_COMMIT,
        directory: TUTORIALS_FOLDER,
      },
    ],
    clientModel: "llava-1.5",
  };
}

/**
 * all_models/gpt: TensorRT-LLM's Python runtime, without in-flight batching or streaming. Its templates have 1024 as
 * largest batch; an engine refuses batches above its own.
 * https://github.com/triton-inference-server/tensorrtllm_backend/tree/v0.19.0/all_models/gpt
 */
function gpt(facts: ParameterFacts): FlavourPlan {
  const configFields = { max_batch_size: String(facts.model.serving.maxBatchSize) };
  return {
    models: ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"].map((name) =>
      fromTemplate(facts, `gpt/${name}`, { configFields }),
    ),
    clientModel: "ensemble",
  };
}

/** Folders of `triton import` beside the model's. */
export const TRITON_CLI_FOLDERS: readonly string[] = ["preprocessing", "tensorrt_llm", "postprocessing"];

const TRITON_CLI_RULES: Rules = {
  max_queue_delay_microseconds: () => 0,
  max_queue_size: () => 0,
  preprocessing_instance_count: () => 1,
  postprocessing_instance_count: () => 1,
  bls_instance_count: () => 1,
  exclude_input_in_output: () => true,
  batching_strategy: () => "inflight_fused_batching",
  tensorrt_llm_draft_model_name: () => "",
  guided_decoding_backend: () => "",
  xgrammar_tokenizer_info_path: () => "",
  // The CLI hands all values to all templates, so the engine's template gets the tokenizer too.
  tokenizer_dir: tokenizerFolder,
};

/**
 * The repository of `triton import`: the BLS under the model's own name, always decoupled, without ensemble; from the release's
 * templates, since the CLI's own templates each fit one version of TensorRT-LLM. Values as in parse_and_substitute of
 * https://github.com/triton-inference-server/triton_cli/blob/main/src/triton_cli/trt_llm/engine_config_parser.py, except the
 * tokenizer, which the CLI's builder puts beside the engine. Serving options that these values fix have no effect.
 */
function tritonCli(facts: ParameterFacts): FlavourPlan {
  const { name } = facts.model.serving;
  const overrides = TRITON_CLI_RULES;
  return {
    models: [
      // Triton refuses a model whose name is not its folder's.
      fromTemplate(facts, "inflight_batcher_llm/tensorrt_llm_bls", {
        name,
        overrides,
        configFields: { name: JSON.stringify(name) },
      }),
      ...TRITON_CLI_FOLDERS.map((folder) =>
        fromTemplate(facts, `inflight_batcher_llm/${folder}`, { overrides }),
      ),
    ],
    clientModel: name,
  };
}

/** Every kind of repository that serves an engine. */
const flavours: Readonly<Record<Exclude<Flavour, "llmapi">, (facts: ParameterFacts) => FlavourPlan>> = {
  inflight_batcher_llm: inflightBatcher,
  multimodal,
  llava,
  gpt,
  tritonCli,
};

/**
 * all_models/llmapi: one model that hands its model.yaml to TensorRT-LLM's LLM class, which loads the hub's weights
 * into its PyTorch backend. No engine, no placeholder.
 * https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm/1
 *
 * The keys of model.yaml are fields of LlmArgs (tensorrt_llm/llmapi/llm_args.py), which refuses others from 1.0 on. The
 * keys used here were read at 0.20 and 1.1.
 */
function llmApiPlan(spec: ModelSpec, kvCacheFreeGpuMemoryFraction: number): FlavourPlan {
  const { engine, serving } = spec;
  const { limits } = engine;
  const window = serving.maxAttentionWindowTokens;
  const settings: Settings = {
    model: weightsDirectory(engine.model, engine.weights),
    backend: "pytorch",
    dtype: engine.dtype,
    tensor_parallel_size: engine.tensorParallel,
    pipeline_parallel_size: engine.pipelineParallel,
    max_batch_size: limits.maxBatchSize,
    max_input_len: limits.maxInputTokens,
    max_seq_len: limits.maxInputTokens + limits.maxOutputTokens,
    max_num_tokens: limits.maxNumTokens,
    max_beam_width: limits.maxBeamWidth,
    enable_chunked_prefill: serving.chunkedContext,
    kv_cache_config: {
      free_gpu_memory_fraction: kvCacheFreeGpuMemoryFraction,
      enable_block_reuse: serving.kvCacheReuse,
      max_tokens: serving.maxTokensInPagedKvCache,
      max_attention_window: window === undefined ? undefined : [window],
    },
    triton_config: {
      // The model takes one prompt a request; TensorRT-LLM batches requests by itself.
      max_batch_size: 0,
      decoupled: serving.streaming,
    },
  };
  // The template's config.pbtxt has it written in.
  const name = "tensorrt_llm";
  const pictures = llmapiPictures(spec);
  return {
    models: [
      {
        name,
        template: `llmapi/${name}`,
        substitutions: {},
        defaults: {},
        ...(pictures === null
          ? // Triton is started without auto-completion, which would copy this from model.yaml.
            { configFields: { model_transaction_policy: `{ decoupled: ${serving.streaming} }` } }
          : { sources: pictures.sources }),
        files: { "1/model.yaml": yaml(settings, ""), ...pictures?.files },
      },
    ],
    clientModel: name,
  };
}

interface Settings {
  readonly [key: string]: string | number | boolean | readonly number[] | Settings | undefined;
}

/** YAML of settings; JSON is YAML, so scalars and lists are written as JSON. */
function yaml(settings: Settings, indent: string): string {
  return Object.entries(settings)
    .map(([key, value]) => {
      if (value === undefined) return "";
      return typeof value === "object" && !Array.isArray(value)
        ? `${indent}${key}:\n${yaml(value as Settings, `${indent}  `)}`
        : `${indent}${key}: ${JSON.stringify(value)}\n`;
    })
    .join("");
}
