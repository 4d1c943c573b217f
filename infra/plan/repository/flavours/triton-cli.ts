/**
 * What `triton import` makes: the BLS under the model's own name in front of preprocessing, engine and
 * postprocessing, always decoupled, without ensemble. It is made from the release's templates here: those that the
 * CLI brings fit one version of TensorRT-LLM each. Values as in parse_and_substitute of
 * https://github.com/triton-inference-server/triton_cli/blob/main/src/triton_cli/trt_llm/engine_config_parser.py, but
 * for the tokenizer, which the CLI's builder puts beside the engine and trtllm-build does not. Serving options that
 * these values fix have no effect.
 */
import { type Problem, showValue } from "../../../problems.ts";
import type { TemplateSet } from "../../catalogue/templates.ts";
import type { ModelSpec } from "../../spec.ts";
import { gives, type Rules, tokenizerFolder } from "../parameters.ts";
import { quote } from "../text-format.ts";
import { type FlavourDefinition, fromTemplate } from "./flavour.ts";
import { batcherProblems } from "./inflight-batcher.ts";

const FOLDER = "inflight_batcher_llm";
/** Folders beside the one with the model's name. */
const FIXED_NAMES = ["preprocessing", "tensorrt_llm", "postprocessing"] as const;

const one = gives(() => "1");
const none = gives(() => "");
const zero = gives(() => "0");

const overrides: Rules = {
  max_queue_delay_microseconds: zero,
  max_queue_size: zero,
  preprocessing_instance_count: one,
  postprocessing_instance_count: one,
  bls_instance_count: one,
  exclude_input_in_output: gives(() => "True"),
  batching_strategy: gives(() => "inflight_fused_batching"),
  tensorrt_llm_draft_model_name: none,
  guided_decoding_backend: none,
  xgrammar_tokenizer_info_path: none,
};

/** The CLI hands all values to all templates, so the engine's template gets the tokenizer too. */
const engineOverrides: Rules = { ...overrides, tokenizer_dir: tokenizerFolder };

function problems(model: ModelSpec, templates: TemplateSet): Problem[] {
  const found = batcherProblems(model, templates);
  const { name } = model.serving;
  if (FIXED_NAMES.some((fixed) => fixed === name)) {
    found.push({
      path: `${model.path}.name`,
      value: showValue(name),
      reason: `The repository of triton import has a folder ${name} of its own beside the model's.`,
      fix: "Choose another name.",
    });
  }
  return found;
}

export const tritonCli: FlavourDefinition = {
  takesImages: false,
  decoupled: () => true,
  problems,
  plan(context) {
    const { name } = context.facts.model.serving;
    return {
      models: [
        fromTemplate(context, name, `${FOLDER}/tensorrt_llm_bls`, {
          overrides,
          // Triton refuses a model whose name is not its folder's.
          configFields: { name: quote(name) },
        }),
        ...FIXED_NAMES.map((fixed) =>
          fromTemplate(context, fixed, `${FOLDER}/${fixed}`, {
            overrides: fixed === "tensorrt_llm" ? engineOverrides : overrides,
          }),
        ),
      ],
      launchArguments: [],
      environment: {},
      clones: [],
      clientModel: name,
      streamingModel: name,
    };
  },
};
