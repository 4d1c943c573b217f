/**
 * Plans the encoders: the commands that build them, their content address, and what Triton loads. Clients ask the same models,
 * with the same tensors, as on the local platform; each hands its numbers to a tower, which a TensorRT plan or ONNX Runtime
 * computes (docs/decisions/0007).
 */
import { ConfigError, type Problem, showValue } from "../../problems.ts";
import { jsonDigest, shortKey } from "../canonical-json.ts";
import { ONNX_OPSET, textEncoders, visionEncoders } from "../catalogue/encoders.ts";
import type { Gpu, Release } from "../catalogue/types.ts";
import { gpuIdentity } from "../engine/engine-plan.ts";
import { nameWord, resolveWord } from "../engine/types.ts";
import {
  type EncoderSettings,
  llavaEnsembleConfig,
  pythonModelFiles,
  textEncoderConfig,
  visionEncoderConfig,
} from "../repository/cpu-models.ts";
import type { ModelConfig, TensorConfig } from "../repository/model-config.ts";
import type { EncodersSpec } from "../spec.ts";
import {
  calibrateWords,
  type EncoderSubject,
  exportWords,
  numerics,
  OPTIMUM_TEXT_TOKENS,
  trtexecWords,
} from "./commands.ts";
import type { EncoderPlace, EncoderPlan, EncoderStepName, EncoderWord } from "./types.ts";

/** Format that a GPU must compute for a precision; fp32 runs everywhere. */
const FORMATS = { fp32: null, fp16: "float16", int8: "int8" } as const;

/**
 * Combinations of device, precision and GPU that can't be built; none for those that {@link encoderPlan} takes.
 *
 * @param gpu GPU of the pool that runs them; null for a pool without.
 */
export function encoderProblems(spec: EncodersSpec, gpu: Gpu | null): readonly Problem[] {
  const { device, pool, precision } = spec;
  if (device === "cpu") {
    if (precision === "fp32") return [];
    return [
      {
        path: "encoders.precision",
        value: showValue(precision),
        reason: "On a CPU the encoders are float32 graphs; fp16 and int8 exist as TensorRT plans alone.",
        fix: "Write fp32, or device: gpu.",
      },
    ];
  }
  if (gpu === null) {
    return [
      {
        path: "encoders.pool",
        value: showValue(pool),
        reason: "The encoders are to run on a GPU, and the machines of this pool have none.",
        fix: "Name a pool with GPUs, or write device: cpu.",
      },
    ];
  }
  const format = FORMATS[precision];
  if (format === null || gpu.formats.includes(format)) return [];
  return [
    {
      path: "encoders.precision",
      value: showValue(precision),
      reason: `${gpu.name} (compute capability ${gpu.computeCapability}) does not compute ${format}.`,
      fix: "Write fp32, or name a pool with another GPU.",
    },
  ];
}

/**
 * Plans CLIP's two towers and the sentence encoder.
 *
 * @param gpu GPU of the pool that runs them; null for a pool without.
 * @param migProfile Partition that they run in; absent: the whole GPU.
 * @throws ConfigError for what {@link encoderProblems} finds.
 */
export function encoderPlan(
  spec: EncodersSpec,
  release: Release,
  gpu: Gpu | null,
  migProfile?: string,
): EncoderPlan {
  const problems = encoderProblems(spec, gpu);
  if (problems.length > 0) throw new ConfigError(problems);

  const { device, precision } = spec;
  const image = `tritonserver:${release.tag}-py3`;
  const gpuName = device === "gpu" && gpu !== null ? gpuIdentity({ gpu, migProfile }) : null;
  const formats = numerics(spec, release);
  const subjects = encoderSubjects(spec).map((subject) => ({
    subject,
    exportCommand: { name: "export" as const, words: exportWords(subject, formats) },
    commands: [
      ...(precision === "int8" ? [{ name: "calibrate" as const, words: calibrateWords(subject) }] : []),
      ...(device === "gpu"
        ? [{ name: "trtexec" as const, words: trtexecWords(subject, spec, formats) }]
        : []),
    ],
  }));
  const keyFields: EncoderPlan["keyFields"] = {
    precision,
    // A plan only runs on the TensorRT that built it. Documents lack its version for some images, so the tag is used.
    tensorRt: device === "gpu" ? `that of ${image}` : null,
    gpu: gpuName,
    models: Object.fromEntries(
      subjects.map(({ subject: { name, encoder, row }, exportCommand, commands }) => [
        name,
        {
          encoder,
          weights: row.source.repository,
          revision: row.source.revision,
          steps: Object.fromEntries(
            [exportCommand, ...commands].map((command) => [command.name, command.words.map(nameWord)]),
          ),
        },
      ]),
    ),
  };
  const key = jsonDigest(keyFields);
  const directory = `/store/encoders/${shortKey(key)}`;
  const ensemble = llavaEnsembleConfig(frontSettings(spec));
  const models = subjects.map(({ subject, exportCommand, commands }) => ({
    name: subject.name,
    encoder: subject.encoder,
    export: {
      ...located(exportCommand, subject, directory),
      repository: subject.row.source.repository,
      revision: subject.row.source.revision,
      inputs: subject.tower.inputs,
      output: subject.tower.output,
      dimension: subject.row.dimension,
      graph: subject.tower.graph,
      opset: ONNX_OPSET,
      dataType: formats.dataType,
    },
    steps: commands.map((command) => located(command, subject, directory)),
    config: frontConfig(spec, subject),
    towerConfig: towerConfig(spec, subject),
  }));
  return {
    device,
    precision,
    key,
    shortKey: shortKey(key),
    keyFields,
    directory,
    image: `nvcr.io/nvidia/${image}`,
    gpu: gpuName,
    models,
    ensemble,
    tritonModels: [
      ...subjects.flatMap(({ subject }) => tritonModels(spec, subject)),
      // An ensemble has no files, but a version folder.
      { config: ensemble, files: {}, sources: {} },
    ].sort((a, b) => (a.config.name < b.config.name ? -1 : 1)),
  };
}

/** Sorted by name. */
function encoderSubjects(spec: EncodersSpec): readonly EncoderSubject[] {
  const clip = { encoder: spec.vision, row: visionEncoders[spec.vision] };
  const sentences = { encoder: spec.text, row: textEncoders[spec.text] };
  return [
    { ...clip, name: "clip_text", kind: "text", tower: clip.row.text },
    { ...sentences, name: "text_encoder", kind: "text", tower: sentences.row.text },
    { ...clip, name: "vision_encoder", kind: "vision", tower: clip.row.vision },
  ];
}

/** A command with its places filled in. */
function located<Name extends EncoderStepName>(
  command: { readonly name: Name; readonly words: readonly EncoderWord[] },
  { name, encoder, row }: EncoderSubject,
  directory: string,
) {
  const folder = `${directory}/${name}`;
  const places: Readonly<Record<EncoderPlace, string>> = {
    // As for engines.
    weights: `/store/weights/${encoder}/${row.source.revision}`,
    assets: folder,
    onnx: `${folder}/model.onnx`,
    quantized: `${folder}/model.qdq.onnx`,
    plan: `${folder}/model.plan`,
  };
  return { ...command, argv: command.words.map((word) => resolveWord(word, places)) };
}

/** Triton's name of the model that computes. */
function towerName({ name }: Pick<EncoderSubject, "name">): string {
  return `${name.replace("_encoder", "")}_tower`;
}

/** Settings of the models that clients ask. @param text Encoder of the texts; absent: the stack's own. */
function frontSettings(
  spec: EncodersSpec,
  text: Pick<EncoderSubject, "name" | "row"> = { name: "text_encoder", row: textEncoders[spec.text] },
): EncoderSettings {
  const { maxTokens } = text.row.text;
  return {
    // A GPU takes all texts of a batch at once: the plan's largest shape.
    ...(spec.device === "gpu" && { maxPaddedTokens: spec.maxBatchSize * maxTokens }),
    maxBatchSize: spec.maxBatchSize,
    maxQueueDelayMicroseconds: spec.maxQueueDelayMicroseconds,
    dynamicBatching: true,
    towers: { text: towerName(text), vision: towerName({ name: "vision_encoder" }) },
    text: { dimension: text.row.dimension, maxTokens },
    vision: { dimension: visionEncoders[spec.vision].dimension },
  };
}

/** `clip_text` maps texts into the space that it shares with images; its tensors are those of `text_encoder`. */
function frontConfig(spec: EncodersSpec, subject: EncoderSubject): ModelConfig {
  return subject.kind === "vision"
    ? visionEncoderConfig(frontSettings(spec))
    : { ...textEncoderConfig(frontSettings(spec, subject)), name: subject.name };
}

/** Backend of a tower, and the file name that it loads by default. */
const RUNTIMES = {
  gpu: { backend: "tensorrt", kind: "KIND_GPU", file: "model.plan" },
  cpu: { backend: "onnxruntime", kind: "KIND_CPU", file: "model.onnx" },
} as const;

/**
 * A tower. Requests wait in front of the models that clients ask, so here only batches that come while another runs are joined.
 * Warm-up sets it up, since the Python backend may not ask a model before it serves
 * (https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/bls.html).
 */
function towerConfig(spec: EncodersSpec, subject: EncoderSubject): ModelConfig {
  const { backend, kind } = RUNTIMES[spec.device];
  return {
    name: towerName(subject),
    backend,
    maxBatchSize: spec.maxBatchSize,
    inputs: towerInputs(subject, -1),
    outputs: [{ name: subject.tower.output, dataType: "TYPE_FP32", dims: [subject.row.dimension] }],
    dynamicBatching: { maxQueueDelayMicroseconds: 0 },
    // On a GPU: one for each GPU that the container sees.
    instanceGroups: [{ kind, count: 1 }],
    warmups: [{ name: "zeros", batchSize: 1, inputs: towerInputs(subject, OPTIMUM_TEXT_TOKENS) }],
  };
}

function towerInputs({ kind, tower }: EncoderSubject, tokens: number): readonly TensorConfig[] {
  if (kind === "vision") {
    const dims = [3, tower.imageSize, tower.imageSize];
    return tower.inputs.map((name) => ({ name, dataType: "TYPE_FP32", dims }));
  }
  // 32 bits: TensorRT before 10 has no 64-bit tensors, and no vocabulary needs them.
  return tower.inputs.map((name) => ({ name, dataType: "TYPE_INT32", dims: [tokens] }));
}

/** The model that clients ask, with its Python and the file that the export wrote for it, and its tower. */
function tritonModels(spec: EncodersSpec, subject: EncoderSubject): EncoderPlan["tritonModels"] {
  const { name, kind } = subject;
  const asset = kind === "text" ? "tokenizer.json" : "preprocess.json";
  const { file } = RUNTIMES[spec.device];
  return [
    {
      config: frontConfig(spec, subject),
      files: { [`1/${asset}`]: `${name}/${asset}` },
      sources: pythonModelFiles(kind === "text" ? "text_encoder" : "vision_encoder"),
    },
    { config: towerConfig(spec, subject), files: { [`1/${file}`]: `${name}/${file}` }, sources: {} },
  ];
}
