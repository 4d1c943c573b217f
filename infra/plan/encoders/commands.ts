/**
 * Commands that make an encoder's files: export to ONNX, calibration, TensorRT plan. Arguments of trtexec:
 * https://github.com/NVIDIA/TensorRT/tree/main/samples/trtexec. `encoder_builder` is this project's own program.
 */
import {
  type ClipRow,
  ONNX_OPSET,
  type Prefixes,
  type SentenceEncoderRow,
  type TextTowerRow,
  type VisionTowerRow,
} from "../catalogue/encoders.ts";
import type { Release } from "../catalogue/types.ts";
import type { EncoderBuildSpec } from "../container-spec-schemas.ts";
import type { EncodersSpec } from "../spec.ts";

/** One tower with its weights, and `name` of the model that clients ask. */
export type EncoderSubject = {
  /** Catalogue name. */
  readonly encoder: string;
  readonly row: ClipRow | SentenceEncoderRow;
} & (
  | { readonly kind: "vision"; readonly name: "vision_encoder"; readonly tower: VisionTowerRow }
  | { readonly kind: "text"; readonly name: "clip_text" | "text_encoder"; readonly tower: TextTowerRow }
);

/** Folders and files that commands name. The key has their names in angle brackets, as the paths depend on store and key. */
export interface EncoderPlaces {
  /** Folder of the hub's files at their commit, shared by all builds. */
  readonly weights: string;
  /** Folder of tokenizer.json or preprocess.json, which the client's model reads. */
  readonly assets: string;
  /** The exported graph. */
  readonly onnx: string;
  /** The same with quantize and dequantize nodes. */
  readonly quantized: string;
  /** TensorRT's engine. */
  readonly plan: string;
  /** The stack's own calibration samples: a folder of pictures, a file of texts. Absent: the builder's. */
  readonly images?: string | undefined;
  readonly texts?: string | undefined;
}

type BuildStep = EncoderBuildSpec["plan"]["models"][number]["steps"][number];

/** Format of numbers in the graph, and trtexec's words for how they are computed. */
interface Numerics {
  readonly dataType: "float32" | "float16";
  readonly flags: readonly string[];
}

type Precision = EncodersSpec["precision"];

/**
 * From this tag on the graph itself says which number format each tensor has. TensorRT 11 has no `--fp16` and no `--int8`
 * (https://docs.nvidia.com/deeplearning/tensorrt/11.0.0/api/migration/tensorrt-10x-to-11x-trtexec.html), and
 * `--stronglyTyped` works with TensorRT 10 and 11 alike. TensorRT 11.0 came in the second quarter of 2026, so no
 * earlier image holds it; which of the later ones do is not verified.
 */
const STRONGLY_TYPED_FROM = "26.04";

const STRONGLY_TYPED: Readonly<Record<Precision, Numerics>> = {
  fp32: { dataType: "float32", flags: ["--stronglyTyped", "--noTF32"] },
  fp16: { dataType: "float16", flags: ["--stronglyTyped"] },
  int8: { dataType: "float16", flags: ["--stronglyTyped"] },
};

/** TensorRT chooses among the allowed formats; it computes fp32 in TF32 unless told otherwise. */
const WEAKLY_TYPED: Readonly<Record<Precision, Numerics>> = {
  fp32: { dataType: "float32", flags: ["--noTF32"] },
  fp16: { dataType: "float32", flags: ["--fp16"] },
  // Allowed only for a graph with quantize nodes: trtexec gives tensors without scale a random scale. The other tensors are
  // computed in half precision.
  int8: { dataType: "float32", flags: ["--int8", "--fp16"] },
};

/** Number formats for a precision; on a CPU all is float32. */
export function numerics({ device, precision }: EncodersSpec, release: Release): Numerics {
  if (device === "cpu") return { dataType: "float32", flags: [] };
  return (release.tag >= STRONGLY_TYPED_FROM ? STRONGLY_TYPED : WEAKLY_TYPED)[precision];
}

const BUILDER = ["encoder_builder"];

/** From the hub's files to `model.onnx`, and to the file that the model in front of it reads. */
export function exportCommand(
  { kind, tower, row }: EncoderSubject,
  { dataType }: Numerics,
  { weights, assets, onnx }: EncoderPlaces,
): readonly string[] {
  const { source, dimension, config } = row;
  const files = Object.entries(source.files).filter(([path]) => kind === "text" || path !== "tokenizer.json");
  return [
    ...BUILDER,
    "export",
    `--repository=${source.repository}`,
    `--revision=${source.revision}`,
    ...files.map(([path, sha256]) => `--file=${path}${sha256 === null ? "" : `=${sha256}`}`),
    `--tower=${kind}`,
    `--graph=${tower.graph.join(",")}`,
    `--inputs=${tower.inputs.join(",")}`,
    `--output=${tower.output}`,
    `--dimension=${dimension}`,
    ...(config === undefined ? [] : ownRowWords(config, tower, row.prefixes)),
    `--data-type=${dataType}`,
    `--opset=${ONNX_OPSET}`,
    `--weights=${weights}`,
    `--assets=${assets}`,
    `--onnx=${onnx}`,
  ];
}

/** Values of a stack file's row, which the builder compares with the files. */
function ownRowWords(
  config: NonNullable<SentenceEncoderRow["config"]>,
  tower: EncoderSubject["tower"],
  prefixes: Prefixes = {},
): readonly string[] {
  return [
    ...Object.entries(config).map(([path, value]) => `--config=${path}=${value}`),
    ...("maxTokens" in tower ? [`--max-tokens=${tower.maxTokens}`] : []),
    ...(["query", "document"] as const).flatMap((use) =>
      prefixes[use] === undefined ? [] : `--prefix=${use}=${prefixes[use]}`,
    ),
  ];
}

/**
 * Named sets of the builder by kind of input. The scales of an int8 plan come from them, so a set never changes: a
 * better one gets a new name, and with it a new key.
 */
const CALIBRATION_SAMPLES = { vision: "images-1", text: "texts-1" } as const;

/** NVIDIA's packages put it there (libnvinfer-bin). */
const TRTEXEC = "/usr/src/tensorrt/bin/trtexec";

/** Scratch memory of a kernel at most, in MiB: enough for attention over the largest batches, and a bound on a shared GPU. */
const WORKSPACE_MIB = 2048;

/** Rows for which kernels are chosen: single queries and bulk loads both stay near it. */
const OPTIMUM_BATCH_SIZE = 8;

/** Tokens of a text for which kernels are chosen: a caption or a question. */
export const OPTIMUM_TEXT_TOKENS = 64;

/**
 * Commands after the export, none on a CPU. For int8 a calibration finds the range of every tensor on samples, and writes it into
 * the graph as quantize and dequantize nodes; trtexec takes that graph then, never the float one. `--skipInference`, no benchmark
 * after the build, is in TensorRT from 8.6 on (sampleOptions.cpp), and so in every image from 23.12 on.
 */
export function buildSteps(
  { kind, tower }: EncoderSubject,
  { device, precision, maxBatchSize }: EncodersSpec,
  { flags }: Numerics,
  { onnx, quantized, plan, images, texts }: EncoderPlaces,
): readonly BuildStep[] {
  if (device === "cpu") return [];
  const shapes = (batchSize: number, tokens: number) => {
    const size =
      kind === "vision" ? `3x${tower.imageSize}x${tower.imageSize}` : Math.min(tokens, tower.maxTokens);
    return tower.inputs.map((input) => `${input}:${batchSize}x${size}`).join(",");
  };
  const trtexec = (graph: string): BuildStep => ({
    name: "trtexec",
    argv: [
      TRTEXEC,
      `--onnx=${graph}`,
      `--saveEngine=${plan}`,
      ...flags,
      `--minShapes=${shapes(1, 1)}`,
      `--optShapes=${shapes(Math.min(OPTIMUM_BATCH_SIZE, maxBatchSize), OPTIMUM_TEXT_TOKENS)}`,
      `--maxShapes=${shapes(maxBatchSize, Number.POSITIVE_INFINITY)}`,
      `--memPoolSize=workspace:${WORKSPACE_MIB}`,
      "--skipInference",
    ],
  });
  if (precision !== "int8") return [trtexec(onnx)];
  const samples = { vision: images, text: texts }[kind] ?? CALIBRATION_SAMPLES[kind];
  return [
    {
      name: "calibrate",
      argv: [...BUILDER, "calibrate", `--samples=${samples}`, `--onnx=${onnx}`, `--output=${quantized}`],
    },
    trtexec(quantized),
  ];
}
