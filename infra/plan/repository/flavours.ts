/** Models and launch arguments of each kind of model repository. */
import { compareVersions } from "../catalogue/releases.ts";
import type { TemplateSet } from "../catalogue/templates.ts";
import type { Flavour, Release } from "../catalogue/types.ts";
import type { ModelServerSpec } from "../container-spec-schemas.ts";
import type { RepositoryClone } from "../engine/release.ts";
import type { ModelSpec } from "../spec.ts";
import { quote } from "./model-config.ts";
import {
  executionRules,
  fillTemplate,
  type ParameterFacts,
  parameterRules,
  type Rules,
  tokenizerFolder,
  tritonMaxBatchSize,
} from "./parameters.ts";

export type RepositoryModel = ModelServerSpec["repository"]["models"][number];

/** The model repository of a server; the entry point in the image writes its files. */
export type RepositoryPlan = ModelServerSpec["repository"] & {
  /** Empty where NVIDIA's image has everything. */
  readonly clones: readonly RepositoryClone[];
};

interface FlavourContext {
  readonly facts: ParameterFacts;
  readonly templates: TemplateSet;
}

/** The part of a plan that depends on the flavour. */
export interface FlavourPlan {
  readonly models: readonly RepositoryModel[];
  readonly clientModel: string;
  /** @default clientModel */
  readonly streamingModel?: string;
  /** Arguments of launch_triton_server.py beside world size, repository and ports. */
  readonly launchArguments?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly clones?: readonly RepositoryClone[];
}

interface FlavourDefinition {
  readonly takesImages: boolean;
  /** Whether a request may have any number of responses. */
  readonly decoupled: (model: ModelSpec) => boolean;
  /** Only for models without problems. */
  readonly plan: (context: FlavourContext) => FlavourPlan;
}

/** A folder from a template below all_models; one that the set doesn't list has no placeholder. */
function fromTemplate(
  { facts, templates }: FlavourContext,
  template: string,
  own: Partial<Pick<RepositoryModel, "name" | "configFields">> & { readonly overrides?: Rules } = {},
): RepositoryModel {
  const keys = templates.models[template] ?? { mandatory: [], optional: [] };
  return {
    name: own.name ?? template.slice(template.indexOf("/") + 1),
    template,
    ...fillTemplate(template, keys, facts, { ...parameterRules[template], ...own.overrides }),
    ...(own.configFields && { configFields: own.configFields }),
  };
}

/** A Python model, the BLS, ties the other three with any number of responses. */
function batcherModels(context: FlavourContext): readonly RepositoryModel[] {
  return ["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"].map((name) =>
    fromTemplate(context, `inflight_batcher_llm/${name}`),
  );
}

/** all_models/inflight_batcher_llm: the models above, and an ensemble of them. */
const inflightBatcher: FlavourDefinition = {
  takesImages: false,
  decoupled: ({ serving }) => serving.streaming,
  plan: (context) => ({
    models: [fromTemplate(context, "inflight_batcher_llm/ensemble"), ...batcherModels(context)],
    clientModel: "ensemble",
    // Only the BLS can hand all tokens so far to postprocessing.
    streamingModel: context.facts.model.serving.accumulateTokens ? "tensorrt_llm_bls" : "ensemble",
  }),
};

/**
 * all_models/multimodal over all_models/inflight_batcher_llm, from 0.13 on: an ensemble that takes images, and
 * multimodal_encoders, which runs the visual engine on GPU 0. The BLS only takes images as tensors of the client, so streaming
 * stays with the ensemble.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/r25.07/docs/multimodal.md
 */
const multimodal: FlavourDefinition = {
  takesImages: true,
  decoupled: ({ serving }) => serving.streaming,
  plan(context) {
    const { engine, model } = context.facts;
    if (engine.visual === null) {
      throw new Error(`The engine plan of ${model.serving.name} has no visual numbers.`);
    }
    return {
      models: [
        fromTemplate(context, "multimodal/ensemble"),
        fromTemplate(context, "multimodal/multimodal_encoders"),
        ...batcherModels(context),
      ],
      launchArguments: [
        // Ranks above 0 load these two and no Python model.
        "--tensorrt_llm_model_name=tensorrt_llm,multimodal_encoders",
        // The visual features go from model to model in GPU memory, out of this pool.
        `--multimodal_gpu0_cuda_mem_pool_bytes=${engine.visual.cudaMemoryPoolBytes}`,
      ],
      clientModel: "ensemble",
    };
  },
};

/** Folder of triton-inference-server/tutorials; its guides mount it there too. */
const TUTORIALS_FOLDER = "/tutorials";

/** Of branch r25.07, the same from r24.11 to r26.01. The image has it with the patches of containers/trtllm/patches. */
const TUTORIALS_COMMIT = "17331012af74eab68ad7c86d8a4ae494272ca4f7";

/**
 * File that the visual engine builder writes for LLaVA, by the tutorial (0.9) or all_models/multimodal/multimodal_encoders/1/model.py
 * (from 0.13 on); null where neither names it.
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
const llava: FlavourDefinition = {
  takesImages: true,
  decoupled: () => true,
  plan({ facts }) {
    const { places } = facts.engine;
    const folder = (name: string, filled = { substitutions: {}, defaults: {} }): RepositoryModel => ({
      name,
      template: name,
      templateRoot: `${TUTORIALS_FOLDER}/Popular_Models_Guide/Llava1.5/model_repository`,
      ...filled,
    });
    const placeholders = { mandatory: [], optional: Object.keys(executionRules) };
    const filled = fillTemplate("llava/tensorrt_llm", placeholders, facts, {
      ...executionRules,
      // llava-1.5 decodes all that comes back, and wants the answer alone: streamed responses hold only that.
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
  },
};

/**
 * all_models/gpt: TensorRT-LLM's Python runtime, without in-flight batching or streaming. Its templates have 1024 as
 * largest batch; an engine refuses batches above its own.
 * https://github.com/triton-inference-server/tensorrtllm_backend/tree/v0.19.0/all_models/gpt
 */
const gpt: FlavourDefinition = {
  takesImages: false,
  decoupled: () => false,
  plan(context) {
    const configFields = { max_batch_size: String(tritonMaxBatchSize(context.facts.model)) };
    return {
      models: ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"].map((name) =>
        fromTemplate(context, `gpt/${name}`, { configFields }),
      ),
      clientModel: "ensemble",
    };
  },
};

/** Folders of `triton import` beside the model's. */
export const TRITON_CLI_FOLDERS = ["preprocessing", "tensorrt_llm", "postprocessing"] as const;

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
 * The repository of `triton import`: the BLS under the model's own name, always decoupled, without ensemble; made from the
 * release's templates, as each of the CLI's own fits one version of TensorRT-LLM. Values as in parse_and_substitute of
 * https://github.com/triton-inference-server/triton_cli/blob/main/src/triton_cli/trt_llm/engine_config_parser.py, but for the
 * tokenizer, which the CLI's builder puts beside the engine. Serving options that these values fix have no effect.
 */
const tritonCli: FlavourDefinition = {
  takesImages: false,
  decoupled: () => true,
  plan(context) {
    const { name } = context.facts.model.serving;
    const overrides = TRITON_CLI_RULES;
    return {
      models: [
        // Triton refuses a model whose name is not its folder's.
        fromTemplate(context, "inflight_batcher_llm/tensorrt_llm_bls", {
          name,
          overrides,
          configFields: { name: quote(name) },
        }),
        ...TRITON_CLI_FOLDERS.map((folder) =>
          fromTemplate(context, `inflight_batcher_llm/${folder}`, { overrides }),
        ),
      ],
      clientModel: name,
    };
  },
};

/** Every kind of repository that serves an engine; llm-api.ts has the kind without. */
export const flavours: Readonly<Record<Exclude<Flavour, "llmapi">, FlavourDefinition>> = {
  inflight_batcher_llm: inflightBatcher,
  multimodal,
  llava,
  gpt,
  tritonCli,
};
