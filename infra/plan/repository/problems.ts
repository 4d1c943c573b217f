/** Combinations of flavour, templates and release for which no repository can be planned. */
import { showValue } from "../../problems.ts";
import { compareVersions } from "../catalogue/releases.ts";
import { type TemplateSet, templateSet } from "../catalogue/templates.ts";
import type { Flavour } from "../catalogue/types.ts";
import { VISION_TYPES, visionTypes } from "../catalogue/vision-types.ts";
import { type Finding, type Findings, flatFindings } from "../checks/check.ts";
import { worldSize } from "../fit/placement.ts";
import type { ModelSpec } from "../spec.ts";
import { llavaEngineFile, TRITON_CLI_FOLDERS } from "./repository-plan.ts";

/**
 * All reasons why `repositoryPlan` can't plan a model; empty if it can. Needs no engine plan, so that checks can call it
 * before anything is planned.
 */
export function repositoryProblems(model: ModelSpec): readonly Finding[] {
  const { release, layout } = model.engine;
  const { flavour, runtime } = model.serving;
  if ((runtime === "llmapi") !== (flavour === "llmapi")) {
    return [
      {
        ...at(model, "flavour", flavour),
        reason: `The runtime is ${runtime}; all_models/llmapi is the only repository without an engine.`,
        fix:
          runtime === "llmapi"
            ? "Write flavour: llmapi, or runtime: engine."
            : "Write runtime: llmapi, or another flavour.",
      },
    ];
  }
  const templates = templateSet(release.templates);
  return flatFindings([
    layout !== "ngc" &&
      compareVersions(release.tensorRtLlm, "0.20") < 0 && {
        path: "image.layout",
        reason: `TensorRT-LLM's own images hold Triton's templates from 0.20 on, and ${release.tag} has ${release.tensorRtLlm}.`,
        fix: "Write layout: ngc, or take a release from 25.06 on.",
      },
    flavour !== "llmapi" && templates === undefined
      ? {
          path: "release",
          reason: `The placeholders of ${release.tag}'s templates are not known, and Triton loads no template with one left open.`,
          fix: "Take a release whose templates are known, such as 25.07.",
        }
      : findings[flavour](model, (templates ?? { models: {} }).models),
  ]);
}

type Templates = TemplateSet["models"];

const findings: Readonly<Record<Flavour, (model: ModelSpec, templates: Templates) => Findings>> = {
  inflight_batcher_llm: chosenBackend,

  multimodal(model, templates) {
    const { row, model: name } = model.engine;
    const { vision } = row;
    const about = at(model, "flavour", model.serving.flavour);
    if (vision === undefined) {
      return {
        ...about,
        reason: `${name} is a text model: it has no visual engine to serve.`,
        fix: `Write flavour: ${row.flavours[0]}.`,
      };
    }
    const encoders = "multimodal/multimodal_encoders";
    if (templates[encoders] === undefined) {
      return {
        ...about,
        reason: `${version(model)} has no all_models/multimodal; it came with 0.13.`,
        fix: "Take a release from 24.09 on, such as 25.07.",
      };
    }
    const engine = "inflight_batcher_llm/tensorrt_llm";
    const fix = "Take a release from 24.12 on, such as 25.07.";
    return [
      chosenBackend(model, templates),
      vision.needsHubFolder &&
        !hasPlaceholder(templates, encoders, "hf_model_path") && {
          ...about,
          reason: `multimodal_encoders of ${version(model)} can't be told where the Hugging Face folder is, which ${name} needs; hf_model_path came with 0.16.`,
          fix,
        },
      vision.attention === "cross" &&
        !hasPlaceholder(templates, engine, "cross_kv_cache_fraction") && {
          ...about,
          reason: `${name} reads images by cross attention, and the templates of ${version(model)} can't divide the KV cache for it; cross_kv_cache_fraction came with 0.14.`,
          fix,
        },
    ];
  },

  llava(model) {
    const { release, row, model: name } = model.engine;
    const { flavour, kvCacheReuse, tritonBackend } = model.serving;
    return [
      row.vision?.modelType !== "llava" && {
        ...at(model, "flavour", flavour),
        reason: `The tutorial's repository has LLaVA-1.5's tokenizer and vocabulary written in; ${name} is another model.`,
        fix: `Write flavour: ${row.flavours[0]}.`,
      },
      llavaEngineFile(release) === null && {
        ...at(model, "flavour", flavour),
        reason: `No document says how the visual engine of ${version(model)} is named, which the tutorial's repository must be told; 0.9 and 0.13 to 1.1 are known.`,
        fix: "Take another release, such as 25.07.",
      },
      tritonBackend === "python" && {
        ...at(model, "triton.backend", tritonBackend),
        reason: "The tutorial's repository has the C++ backend written in.",
        fix: "Write triton.backend: tensorrtllm, or flavour: multimodal.",
      },
      kvCacheReuse && {
        ...at(model, "triton.kvCacheReuse", kvCacheReuse),
        reason:
          "Reuse needs a prompt_table_extra_id in each request with an image, and the tutorial's llava-1.5 sends none.",
        fix: "Write triton.kvCacheReuse: false, or flavour: multimodal.",
      },
    ];
  },

  gpt: (model) =>
    model.serving.streaming && {
      ...at(model, "triton.streaming", true),
      reason: "all_models/gpt answers once, when all is generated.",
      fix: "Write triton.streaming: false, or flavour: inflight_batcher_llm.",
    },

  tritonCli(model, templates) {
    const { name } = model.serving;
    return [
      chosenBackend(model, templates),
      TRITON_CLI_FOLDERS.includes(name) && {
        ...at(model, "name", name),
        reason: `The repository of triton import has a folder ${name} of its own beside the model's.`,
        fix: "Choose another name.",
      },
    ];
  },

  llmapi(model) {
    const { release, row, quantization, model: name, tensorParallel } = model.engine;
    const { runtime } = model.serving;
    const ranks = worldSize(model);
    return [
      !release.runtimes.includes("llmapi") && {
        ...at(model, "runtime", runtime),
        reason: `${version(model)} is not known to serve without an engine; the keys of all_models/llmapi are known from 0.20 on.`,
        fix: "Write runtime: engine, or take a release from 25.06 on.",
      },
      row.vision !== undefined &&
        visionTypes[row.vision.modelType].since !== null && {
          ...at(model, "runtime", runtime),
          reason: `Models of the vision type ${row.vision.modelType}, such as ${name}, are not known to be served without an engine; ${WITHOUT_ENGINE.join(" and ")} is.`,
          fix: "Write runtime: engine.",
        },
      row.vision !== undefined &&
        release.hasLlmapiPictures !== true && {
          ...at(model, "runtime", runtime),
          reason: `${name} reads images, and ${version(model)} is not known to serve them without an engine; TensorRT-LLM 1.2.1 is.`,
          fix: `Take a release from 26.04 on, such as 26.07, with acceptUnverified: true${row.runtimes.includes("engine") ? ", or write runtime: engine" : ""}.`,
        },
      row.vision?.video !== undefined && {
        ...at(model, "runtime", runtime),
        reason: `The row of ${name} has vision.video, and this project's part of all_models/llmapi takes pictures, and no video.`,
        fix: "Remove vision.video from the row.",
      },
      quantization !== "none" && {
        ...at(model, "quantization", quantization),
        reason: "Without an engine the weights are served as the hub has them; nothing is quantized.",
        fix: "Write quantization: none, or runtime: engine.",
      },
      ranks > 1 &&
        compareVersions(release.tensorRtLlm, "1.0") < 0 && {
          ...at(model, "tensorParallel", tensorParallel),
          reason: `${ranks} ranks need trtllm-llmapi-launch, which ${version(model)} is not known to have.`,
          fix: "Write tensorParallel: 1, or take a release from 25.12 on.",
        },
    ];
  },
};

const WITHOUT_ENGINE = VISION_TYPES.filter((type) => visionTypes[type].since === null);

/** For every flavour that is made of all_models/inflight_batcher_llm. */
function chosenBackend(model: ModelSpec, templates: Templates): Findings {
  const { tritonBackend } = model.serving;
  return (
    tritonBackend === "python" &&
    !hasPlaceholder(templates, "inflight_batcher_llm/tensorrt_llm", "triton_backend") && {
      ...at(model, "triton.backend", tritonBackend),
      reason: `The templates of ${version(model)} have the C++ backend written in; a choice exists from 0.10 on.`,
      fix: "Write triton.backend: tensorrtllm, or take a release from 24.06 on.",
    }
  );
}

/** The resolved value is shown: defaults depend on model and release. */
function at({ path }: ModelSpec, key: string, value: unknown): Pick<Finding, "path" | "value"> {
  return { path: `${path}.${key}`, value: showValue(value) };
}

/** `25.07 (TensorRT-LLM 0.20.0)` */
function version({ engine: { release } }: ModelSpec): string {
  return `${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
}

function hasPlaceholder(templates: Templates, template: string, key: string): boolean {
  const { mandatory = [], optional = [] } = templates[template] ?? {};
  return mandatory.includes(key) || optional.includes(key);
}
