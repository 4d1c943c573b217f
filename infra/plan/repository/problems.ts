/** Combinations of flavour, templates and release for which no repository can be planned. */

import { type Problem, showValue } from "../../problems.ts";
import { compareVersions } from "../catalogue/releases.ts";
import { type TemplateSet, templateSet } from "../catalogue/templates.ts";
import type { Flavour } from "../catalogue/types.ts";
import { worldSize } from "../fit/placement.ts";
import type { ModelSpec } from "../spec.ts";
import { llavaEngineFile, TRITON_CLI_FOLDERS } from "./flavours.ts";

/**
 * All reasons why `repositoryPlan` can't plan a model; empty where it can. Needs no engine plan, so that checks can call it
 * before anything is planned.
 */
export function repositoryProblems(model: ModelSpec): readonly Problem[] {
  const { engine, serving } = model;
  const { release } = engine;
  const { flavour, runtime } = serving;
  if ((runtime === "llmapi") !== (flavour === "llmapi")) {
    return problemsOf(model, {
      holds: true,
      key: "flavour",
      value: flavour,
      reason: `The runtime is ${runtime}; all_models/llmapi is the one repository without an engine, and has no use for one.`,
      fix:
        runtime === "llmapi"
          ? "Write flavour: llmapi, or runtime: engine."
          : "Write runtime: llmapi, or another flavour.",
    });
  }
  const layout = layoutProblems(model);
  if (flavour === "llmapi") return [...layout, ...llmApiProblems(model)];
  const templates = templateSet(release.templates);
  if (templates !== undefined) return [...layout, ...PROBLEMS[flavour](model, templates)];
  return [
    ...layout,
    {
      path: "release",
      value: showValue(release.tag),
      reason: `The placeholders of ${release.tag}'s templates are not known, and Triton loads no template with one left open.`,
      fix: "Take a release whose templates are known, such as 25.07.",
    },
  ];
}

const PROBLEMS: Readonly<
  Record<Exclude<Flavour, "llmapi">, (model: ModelSpec, templates: TemplateSet) => readonly Problem[]>
> = {
  inflight_batcher_llm: batcherProblems,
  multimodal: multimodalProblems,
  llava: llavaProblems,
  gpt: gptProblems,
  tritonCli: tritonCliProblems,
};

/** A reason that may hold, with the key of the model and the value that it is about. */
interface Finding {
  readonly holds: boolean;
  readonly key: string;
  readonly value: unknown;
  readonly reason: string;
  readonly fix: string;
}

/** The reasons that hold. */
function problemsOf(model: ModelSpec, ...findings: readonly Finding[]): readonly Problem[] {
  return findings
    .filter(({ holds }) => holds)
    .map(({ key, value, reason, fix }) => ({
      path: `${model.path}.${key}`,
      value: showValue(value),
      reason,
      fix,
    }));
}

/** `25.07 (TensorRT-LLM 0.20.0)` */
function version({ engine: { release } }: ModelSpec): string {
  return `${release.tag} (TensorRT-LLM ${release.tensorRtLlm})`;
}

function hasPlaceholder(templates: TemplateSet, template: string, key: string): boolean {
  const { mandatory = [], optional = [] } = templates.models[template] ?? {};
  return mandatory.includes(key) || optional.includes(key);
}

function layoutProblems({ engine: { layout, release } }: ModelSpec): readonly Problem[] {
  if (layout === "ngc" || compareVersions(release.tensorRtLlm, "0.20") >= 0) return [];
  return [
    {
      path: "image.layout",
      value: showValue(layout),
      reason: `TensorRT-LLM's own images hold Triton's templates from 0.20 on, and ${release.tag} has ${release.tensorRtLlm}.`,
      fix: "Write layout: ngc, or take a release from 25.06 on.",
    },
  ];
}

/** For every flavour that is made of all_models/inflight_batcher_llm. */
function batcherProblems(model: ModelSpec, templates: TemplateSet): readonly Problem[] {
  const { tritonBackend } = model.serving;
  const isChosen = hasPlaceholder(templates, "inflight_batcher_llm/tensorrt_llm", "triton_backend");
  return problemsOf(model, {
    holds: tritonBackend === "python" && !isChosen,
    key: "triton.backend",
    value: tritonBackend,
    reason: `The templates of ${version(model)} have the C++ backend written in; a choice exists from 0.10 on.`,
    fix: "Write triton.backend: tensorrtllm, or take a release from 24.06 on.",
  });
}

function multimodalProblems(model: ModelSpec, templates: TemplateSet): readonly Problem[] {
  const { row, model: name } = model.engine;
  const { vision } = row;
  const about = { key: "flavour", value: model.serving.flavour };
  if (vision === undefined) {
    return problemsOf(model, {
      ...about,
      holds: true,
      reason: `${name} is a text model: it has no visual engine to serve.`,
      fix: `Write flavour: ${row.flavours[0]}.`,
    });
  }
  const encoders = "multimodal/multimodal_encoders";
  if (templates.models[encoders] === undefined) {
    return problemsOf(model, {
      ...about,
      holds: true,
      reason: `${version(model)} has no all_models/multimodal; it came with 0.13.`,
      fix: "Take a release from 24.09 on, such as 25.07.",
    });
  }
  const engine = "inflight_batcher_llm/tensorrt_llm";
  const fix = "Take a release from 24.12 on, such as 25.07.";
  return [
    ...batcherProblems(model, templates),
    ...problemsOf(
      model,
      {
        ...about,
        holds: vision.needsHubFolder && !hasPlaceholder(templates, encoders, "hf_model_path"),
        reason: `multimodal_encoders of ${version(model)} can't be told where the Hugging Face folder is, which ${name} needs; hf_model_path came with 0.16.`,
        fix,
      },
      {
        ...about,
        holds: vision.attention === "cross" && !hasPlaceholder(templates, engine, "cross_kv_cache_fraction"),
        reason: `${name} reads images by cross attention, and the templates of ${version(model)} can't divide the KV cache for it; cross_kv_cache_fraction came with 0.14.`,
        fix,
      },
    ),
  ];
}

function llavaProblems(model: ModelSpec): readonly Problem[] {
  const { release, row, model: name } = model.engine;
  const { flavour, kvCacheReuse, tritonBackend } = model.serving;
  return problemsOf(
    model,
    {
      holds: row.vision?.modelType !== "llava",
      key: "flavour",
      value: flavour,
      reason: `The tutorial's repository has LLaVA-1.5's tokenizer and vocabulary written in; ${name} is another model.`,
      fix: `Write flavour: ${row.flavours[0]}.`,
    },
    {
      holds: llavaEngineFile(release) === null,
      key: "flavour",
      value: flavour,
      reason: `No document says how the visual engine of ${version(model)} is named, which the tutorial's repository must be told; 0.9 and 0.13 to 1.1 are known.`,
      fix: "Take another release, such as 25.07.",
    },
    {
      holds: tritonBackend === "python",
      key: "triton.backend",
      value: tritonBackend,
      reason: "The tutorial's repository has the C++ backend written in.",
      fix: "Write triton.backend: tensorrtllm, or flavour: multimodal.",
    },
    {
      holds: kvCacheReuse,
      key: "triton.kvCacheReuse",
      value: kvCacheReuse,
      reason:
        "Reuse needs a prompt_table_extra_id in each request with an image, and the tutorial's llava-1.5 sends none.",
      fix: "Write triton.kvCacheReuse: false, or flavour: multimodal.",
    },
  );
}

function gptProblems(model: ModelSpec): readonly Problem[] {
  const { streaming } = model.serving;
  return problemsOf(model, {
    holds: streaming,
    key: "triton.streaming",
    value: streaming,
    reason: "all_models/gpt answers once, when all is generated.",
    fix: "Write triton.streaming: false, or flavour: inflight_batcher_llm.",
  });
}

function tritonCliProblems(model: ModelSpec, templates: TemplateSet): readonly Problem[] {
  const { name } = model.serving;
  const named = problemsOf(model, {
    holds: TRITON_CLI_FOLDERS.some((folder) => folder === name),
    key: "name",
    value: name,
    reason: `The repository of triton import has a folder ${name} of its own beside the model's.`,
    fix: "Choose another name.",
  });
  return [...batcherProblems(model, templates), ...named];
}

/** Why the model can't be served without an engine. */
function llmApiProblems(model: ModelSpec): readonly Problem[] {
  const { release, row, quantization, model: name, tensorParallel } = model.engine;
  const { runtime } = model.serving;
  const ranks = worldSize(model);
  return problemsOf(
    model,
    {
      holds: !release.runtimes.includes("llmapi"),
      key: "runtime",
      value: runtime,
      reason: `${version(model)} is not known to serve without an engine; the keys of all_models/llmapi are known from 0.20 on.`,
      fix: "Write runtime: engine, or take a release from 25.06 on.",
    },
    {
      holds: row.vision !== undefined,
      key: "runtime",
      value: runtime,
      reason: `all_models/llmapi takes text alone, and ${name} reads images.`,
      fix: "Write runtime: engine.",
    },
    {
      holds: quantization !== "none",
      key: "quantization",
      value: quantization,
      reason: "Without an engine the weights are served as the hub has them; nothing is quantized.",
      fix: "Write quantization: none, or runtime: engine.",
    },
    {
      holds: ranks > 1 && compareVersions(release.tensorRtLlm, "1.0") < 0,
      key: "tensorParallel",
      value: tensorParallel,
      reason: `${ranks} ranks need launch_triton_server.py --trtllm_llmapi_launch, which ${version(model)} is not known to have.`,
      fix: "Write tensorParallel: 1, or take a release from 25.12 on.",
    },
  );
}
