/**
 * Plans the encoders: the commands that build them, their content address, and what Triton loads. Clients ask the same models,
 * with the same tensors, as on the local platform; each hands its numbers to a tower, which a TensorRT plan or ONNX Runtime
 * computes (docs/decisions/0007).
 */

import { ONNX_OPSET, textRow, visionRow } from "../catalogue/encoders.ts";
import type { Gpu, Release } from "../catalogue/types.ts";
import type { Findings } from "../checks/check.ts";
import type { EncoderBuildSpec, EncoderServerSpec } from "../container-spec-schemas.ts";
import { gpuIdentity } from "../engine/engine-plan.ts";
import { jsonDigest, shortKey } from "../plain-data.ts";
import {
  llavaEnsembleConfig,
  pythonModelFiles,
  textEncoderConfig,
  visionEncoderConfig,
} from "../repository/cpu-models.ts";
import { oneInstance, renderTextFormat, tensor } from "../repository/model-config.ts";
import type { EncodersSpec, GpuStackSpec, TargetGpu } from "../spec.ts";
import { GIB, grouped } from "../units.ts";
import {
  buildSteps,
  type EncoderPlaces,
  type EncoderSubject,
  exportCommand,
  numerics,
  OPTIMUM_TEXT_TOKENS,
} from "./commands.ts";

/** How the encoders become what Triton serves. */
export type EncoderPlan = EncoderBuildSpec["plan"] & {
  /** The first 12 digits of the key, as paths and names carry it. */
  readonly shortKey: string;
  /** Image that builds plans and serves them: the trtllm image has no TensorRT or ONNX backend. */
  readonly image: string;
  /** GPU that builds and serves, as in the key; null on a CPU. */
  readonly gpu: string | null;
  /** Everything that Triton loads, sorted by name: the models that clients ask, their towers, the ensemble. */
  readonly tritonModels: EncoderServerSpec["repository"]["models"];
};

/** Format that a GPU must compute for a precision; fp32 runs everywhere. */
const FORMATS = { fp32: null, fp16: "float16", int8: "int8" } as const;

/**
 * Combinations of device, precision and GPU that can't be built.
 *
 * @param gpu GPU of the pool that runs them; null for a pool without.
 */
export function encoderProblems({ device, precision }: EncodersSpec, gpu: Gpu | null): Findings {
  const path = "encoders.precision";
  if (device === "cpu")
    return (
      precision !== "fp32" && {
        path,
        reason: "On a CPU the encoders are float32 graphs; fp16 and int8 exist only as TensorRT plans.",
        fix: "Write fp32, or device: gpu.",
      }
    );
  if (gpu === null)
    return {
      path: "encoders.pool",
      reason: "The encoders need a GPU, and the machines of this pool have no GPU.",
      fix: "Name a pool with GPUs, or write device: cpu.",
    };
  const format = FORMATS[precision];
  return (
    format !== null &&
    !gpu.formats.includes(format) && {
      path,
      reason: `${gpu.name} (compute capability ${gpu.computeCapability}) does not compute ${format}.`,
      fix: "Write fp32, or name a pool with another GPU.",
    }
  );
}

/** Protocol buffers, of which ONNX is one, end at 2 GiB; the builder writes every graph in 32 bits first. */
const ONNX_GIB = 2;

/** Own rows whose graph does not fit into an ONNX file. CLIP's sizes of the catalogue do. */
export function graphProblems({ text, ownText }: EncodersSpec): Findings {
  const parameters = ownText?.text.parameters ?? 0;
  const graphGiB = (parameters * 4) / GIB;
  return (
    graphGiB >= ONNX_GIB && {
      path: `catalogue.encoders.${text}`,
      reason: `Its graph of ${grouped(parameters)} parameters × 4 bytes is ${graphGiB.toFixed(2)} GiB, and an ONNX file may have ${ONNX_GIB} GiB.`,
      fix: "Name a smaller encoder; hiddenSize, layers and vocabularySize are those of its config.json.",
    }
  );
}

/** GPU of a stack's encoders, as their plans see it; null: they run on the CPU. */
export function encoderTarget({ encoders, pools }: GpuStackSpec): TargetGpu | null {
  const pool = pools.find(({ name }) => name === encoders?.pool);
  if (encoders?.device !== "gpu" || !pool?.gpu) return null;
  const { gpu, sharing } = pool;
  return sharing.mode === "mig" ? { gpu, migProfile: sharing.profile } : { gpu };
}

/**
 * Plans CLIP's two towers and the sentence encoder, if {@link encoderProblems} finds nothing.
 *
 * @param target - null on a CPU.
 */
export function encoderPlan(spec: EncodersSpec, release: Release, target: TargetGpu | null): EncoderPlan {
  const { device, precision, calibration } = spec;
  const image = `tritonserver:${release.tag}-py3`;
  const gpu = target && gpuIdentity(target);
  const formats = numerics(spec, release);
  const subjects = encoderSubjects(spec);
  const commands = (subject: EncoderSubject, places: EncoderPlaces) => ({
    exported: { name: "export" as const, argv: exportCommand(subject, formats, places) },
    steps: buildSteps(subject, spec, formats, places),
  });
  const keyFields: EncoderPlan["keyFields"] = {
    precision,
    ...(calibration === undefined ? {} : { calibration: calibration.revision }),
    // A plan only runs on the TensorRT that built it. Documents lack its version for some images, so the tag is used.
    tensorRt: device === "gpu" ? `that of ${image}` : null,
    gpu,
    models: Object.fromEntries(
      subjects.map((subject) => {
        const { encoder, row } = subject;
        const { exported, steps } = commands(subject, {
          ...PLACE_NAMES,
          images: calibration?.images && "<images>",
          texts: calibration?.texts && "<texts>",
        });
        return [
          subject.name,
          {
            encoder,
            weights: row.source.repository,
            revision: row.source.revision,
            steps: Object.fromEntries([exported, ...steps].map(({ name, argv }) => [name, argv])),
          },
        ];
      }),
    ),
  };
  const key = jsonDigest(keyFields);
  const directory = `/store/encoders/${shortKey(key)}`;
  return {
    device,
    precision,
    key,
    shortKey: shortKey(key),
    keyFields,
    directory,
    image: `nvcr.io/nvidia/${image}`,
    gpu,
    models: subjects.map((subject) => {
      const { name, encoder, row, tower } = subject;
      const { exported, steps } = commands(subject, {
        ...placesOf(subject, directory),
        ...calibration,
      });
      return {
        name,
        encoder,
        export: {
          ...exported,
          repository: row.source.repository,
          revision: row.source.revision,
          inputs: tower.inputs,
          output: tower.output,
          dimension: row.dimension,
          graph: tower.graph,
          opset: ONNX_OPSET,
          dataType: formats.dataType,
        },
        steps,
      };
    }),
    tritonModels: tritonModels(spec, subjects),
  };
}

const PLACE_NAMES: EncoderPlaces = {
  weights: "<weights>",
  assets: "<assets>",
  onnx: "<onnx>",
  quantized: "<quantized>",
  plan: "<plan>",
};

function placesOf({ name, encoder, row }: EncoderSubject, directory: string): EncoderPlaces {
  const folder = `${directory}/${name}`;
  return {
    // As for engines.
    weights: `/store/weights/${encoder}/${row.source.revision}`,
    assets: folder,
    onnx: `${folder}/model.onnx`,
    quantized: `${folder}/model.qdq.onnx`,
    plan: `${folder}/model.plan`,
  };
}

/** Sorted by name. */
function encoderSubjects(spec: EncodersSpec): readonly EncoderSubject[] {
  const clip = { encoder: spec.vision, row: visionRow(spec) };
  const sentences = { encoder: spec.text, row: textRow(spec) };
  return [
    { ...clip, name: "clip_text", kind: "text", tower: clip.row.text },
    { ...sentences, name: "text_encoder", kind: "text", tower: sentences.row.text },
    { ...clip, name: "vision_encoder", kind: "vision", tower: clip.row.vision },
  ];
}

/** Triton's name of the model that computes for another one. */
export function towerName(name: string): string {
  return `${name.replace("_encoder", "")}_tower`;
}

/** The models that clients ask, each with its Python and the file that the export wrote for it; their towers; the ensemble. */
function tritonModels(spec: EncodersSpec, subjects: readonly EncoderSubject[]): EncoderPlan["tritonModels"] {
  const text = textRow(spec);
  const settings = {
    maxBatchSize: spec.maxBatchSize,
    maxQueueDelayMicroseconds: spec.maxQueueDelayMicroseconds,
    dynamicBatching: true,
    text: { dimension: text.dimension, maxTokens: text.text.maxTokens },
    vision: { dimension: visionRow(spec).dimension },
  };
  const { file } = RUNTIMES[spec.device];
  return [
    ...subjects.flatMap((subject) => {
      const { kind, name, row, tower } = subject;
      const computing = { tower_model: towerName(name) };
      const front =
        kind === "vision"
          ? {
              config: visionEncoderConfig(settings, computing),
              files: { "1/preprocess.json": `${name}/preprocess.json` },
              sources: pythonModelFiles("vision_encoder"),
            }
          : {
              // `clip_text` maps texts into the space that it shares with images.
              config: textEncoderConfig(
                {
                  ...settings,
                  text: { dimension: row.dimension, maxTokens: tower.maxTokens, prefixes: row.prefixes },
                },
                {
                  ...computing,
                  // A GPU takes all texts of a batch at once: the plan's largest shape.
                  ...(spec.device === "gpu" && { max_padded_tokens: spec.maxBatchSize * tower.maxTokens }),
                },
                name,
              ),
              files: { "1/tokenizer.json": `${name}/tokenizer.json` },
              sources: pythonModelFiles("text_encoder"),
            };
      return [
        { name, ...front },
        {
          name: towerName(name),
          config: towerConfig(spec, subject),
          files: { [`1/${file}`]: `${name}/${file}` },
          sources: {},
        },
      ];
    }),
    // An ensemble has no files, but a version folder.
    { name: "llava_ensemble", config: llavaEnsembleConfig(settings), files: {}, sources: {} },
  ].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Backend of a tower, and the file name that it loads by default. */
const RUNTIMES = {
  gpu: { backend: "tensorrt", kind: "KIND_GPU", file: "model.plan" },
  cpu: { backend: "onnxruntime", kind: "KIND_CPU", file: "model.onnx" },
} as const;

/**
 * config.pbtxt of a tower. Requests wait in front of the models that clients ask, so here only batches that come while another
 * runs are joined. Warm-up sets it up, since the Python backend may not ask a model before it serves
 * (https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/bls.html).
 */
function towerConfig({ device, maxBatchSize }: EncodersSpec, subject: EncoderSubject): string {
  const { name, row, tower } = subject;
  const { backend, kind } = RUNTIMES[device];
  return renderTextFormat({
    name: towerName(name),
    backend,
    max_batch_size: maxBatchSize,
    input: towerInputs(subject, -1),
    output: tensor(tower.output, "TYPE_FP32", [row.dimension]),
    dynamic_batching: { max_queue_delay_microseconds: 0 },
    instance_group: oneInstance(kind),
    model_warmup: {
      name: "zeros",
      batch_size: 1,
      inputs: towerInputs(subject, OPTIMUM_TEXT_TOKENS).map(({ name: key, ...shape }) => ({
        key,
        value: { ...shape, zero_data: true },
      })),
    },
  });
}

function towerInputs({ kind, tower }: EncoderSubject, tokens: number) {
  // 32 bits: TensorRT before 10 has no 64-bit tensors, and no vocabulary needs them.
  return tower.inputs.map((name) =>
    kind === "vision"
      ? tensor(name, "TYPE_FP32", [3, tower.imageSize, tower.imageSize])
      : tensor(name, "TYPE_INT32", [Math.min(tokens, tower.maxTokens)]),
  );
}
