/**
 * Commands that make an encoder's files: export to ONNX, calibration, TensorRT plan. Arguments of trtexec:
 * https://github.com/NVIDIA/TensorRT/tree/main/samples/trtexec. `encoder_builder` is this project's own program.
 */
import {
  type ClipRow,
  ONNX_OPSET,
  type SentenceEncoderRow,
  type TextTowerRow,
  type VisionTowerRow,
} from "../catalogue/encoders.ts";
import type { Release } from "../catalogue/types.ts";
import type { EncodersSpec } from "../spec.ts";
import type { EncoderModelName, EncoderWord } from "./types.ts";

/** One tower with what it is built from. */
export type EncoderSubject = {
  readonly name: EncoderModelName;
  /** Catalogue name. */
  readonly encoder: string;
  readonly row: ClipRow | SentenceEncoderRow;
} & (
  | { readonly kind: "vision"; readonly tower: VisionTowerRow }
  | { readonly kind: "text"; readonly tower: TextTowerRow }
);

/** How numbers are written in the graph and computed. */
export interface Numerics {
  /** Number format of the exported graph. */
  readonly dataType: "float32" | "float16";
  /** Words of trtexec. */
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

/** TensorRT chooses among the allowed formats; it computes fp32 in TF32 unless told otherwise. */
const WEAKLY_TYPED: Readonly<Record<Precision, Numerics>> = {
  fp32: { dataType: "float32", flags: ["--noTF32"] },
  fp16: { dataType: "float32", flags: ["--fp16"] },
  // Allowed for a graph with quantize nodes alone: trtexec gives tensors without scale a random one. What is not
  // quantized runs in half precision.
  int8: { dataType: "float32", flags: ["--int8", "--fp16"] },
};

const STRONGLY_TYPED: Readonly<Record<Precision, Numerics>> = {
  fp32: { dataType: "float32", flags: ["--stronglyTyped", "--noTF32"] },
  fp16: { dataType: "float16", flags: ["--stronglyTyped"] },
  int8: { dataType: "float16", flags: ["--stronglyTyped"] },
};

/** Number formats for a precision; on a CPU all is float32. */
export function numerics(device: EncodersSpec["device"], precision: Precision, release: Release): Numerics {
  if (device === "cpu") return { dataType: "float32", flags: [] };
  return (release.tag >= STRONGLY_TYPED_FROM ? STRONGLY_TYPED : WEAKLY_TYPED)[precision];
}

const BUILDER = ["python3", "-m", "encoder_builder"] as const;

/** From the hub's files to `model.onnx`, and to what the model in front of it reads. */
export function exportWords(subject: EncoderSubject, { dataType }: Numerics): readonly EncoderWord[] {
  const { source, dimension } = subject.row;
  const files = Object.entries(source.files).filter(
    ([path]) => subject.kind === "text" || path !== "tokenizer.json",
  );
  return [
    ...BUILDER,
    "export",
    `--repository=${source.repository}`,
    `--revision=${source.revision}`,
    ...files.map(([path, sha256]) => `--file=${path}=${sha256}`),
    `--tower=${subject.kind}`,
    `--graph=${subject.tower.graph.join(",")}`,
    `--inputs=${subject.tower.inputs.join(",")}`,
    `--output=${subject.tower.output}`,
    `--dimension=${dimension}`,
    `--data-type=${dataType}`,
    `--opset=${ONNX_OPSET}`,
    { before: "--weights=", place: "weights" },
    { before: "--assets=", place: "assets" },
    { before: "--onnx=", place: "onnx" },
  ];
}

/**
 * Named sets of the builder by kind of input. The scales of an int8 plan come from them, so a set never changes: a
 * better one gets a new name, and with it a new key.
 */
const CALIBRATION_SAMPLES = { vision: "images-1", text: "texts-1" } as const;

/** Finds the range of every tensor on samples, and writes it into the graph as quantize and dequantize nodes. */
export function calibrateWords(subject: EncoderSubject): readonly EncoderWord[] {
  return [
    ...BUILDER,
    "calibrate",
    `--samples=${CALIBRATION_SAMPLES[subject.kind]}`,
    { before: "--onnx=", place: "onnx" },
    { before: "--output=", place: "quantized" },
  ];
}

/** Where NVIDIA's packages put it (libnvinfer-bin). */
const TRTEXEC = "/usr/src/tensorrt/bin/trtexec";

/** Scratch memory of a kernel at most, in MiB: enough for attention over the largest batches, and a bound on a shared GPU. */
const WORKSPACE_MIB = 2048;

/** Rows for which kernels are chosen: single queries and bulk loads both stay near it. */
const OPTIMUM_BATCH_SIZE = 8;

/** Tokens of a text for which kernels are chosen: a caption or a question. */
export const OPTIMUM_TEXT_TOKENS = 64;

/**
 * From the graph to `model.plan`. int8 takes the calibrated graph, never the float one. `--skipInference`: no benchmark
 * after the build; TensorRT 8.6 has it already, and calls `--buildOnly` deprecated for it (sampleOptions.cpp), so every
 * image from 23.12 on takes it.
 *
 * @param maxBatchSize largest batch, and the `max_batch_size` that Triton may be given.
 */
export function trtexecWords(
  subject: EncoderSubject,
  precision: Precision,
  { flags }: Numerics,
  maxBatchSize: number,
): readonly EncoderWord[] {
  const optimumBatchSize = Math.min(OPTIMUM_BATCH_SIZE, maxBatchSize);
  return [
    TRTEXEC,
    { before: "--onnx=", place: precision === "int8" ? "quantized" : "onnx" },
    { before: "--saveEngine=", place: "plan" },
    ...flags,
    `--minShapes=${shapes(subject, 1, 1)}`,
    `--optShapes=${shapes(subject, optimumBatchSize, OPTIMUM_TEXT_TOKENS)}`,
    `--maxShapes=${shapes(subject, maxBatchSize, Number.POSITIVE_INFINITY)}`,
    `--memPoolSize=workspace:${WORKSPACE_MIB}`,
    "--skipInference",
  ];
}

/** Shape of every input; a text's length is cut at the model's. */
function shapes(subject: EncoderSubject, batchSize: number, tokens: number): string {
  const row =
    subject.kind === "vision"
      ? `3x${subject.tower.imageSize}x${subject.tower.imageSize}`
      : String(Math.min(tokens, subject.tower.maxTokens));
  return subject.tower.inputs.map((input) => `${input}:${batchSize}x${row}`).join(",");
}
