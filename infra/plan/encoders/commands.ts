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
import { shellLine } from "../engine/shell-line.ts";
import { commandWords } from "../engine/types.ts";
import type { EncodersSpec } from "../spec.ts";
import type { EncoderModelName, EncoderPlace, EncoderPlan, EncoderStepName, EncoderWord } from "./types.ts";

/** One tower with its weights. */
export type EncoderSubject = {
  readonly name: EncoderModelName;
  /** Catalogue name. */
  readonly encoder: string;
  readonly row: ClipRow | SentenceEncoderRow;
} & (
  | { readonly kind: "vision"; readonly tower: VisionTowerRow }
  | { readonly kind: "text"; readonly tower: TextTowerRow }
);

/** Format of numbers in the graph, and trtexec's words for how they are computed. */
export interface Numerics {
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
  // Allowed for a graph with quantize nodes alone: trtexec gives tensors without scale a random one. The other tensors are
  // computed in half precision.
  int8: { dataType: "float32", flags: ["--int8", "--fp16"] },
};

/** Number formats for a precision; on a CPU all is float32. */
export function numerics({ device, precision }: EncodersSpec, release: Release): Numerics {
  if (device === "cpu") return { dataType: "float32", flags: [] };
  return (release.tag >= STRONGLY_TYPED_FROM ? STRONGLY_TYPED : WEAKLY_TYPED)[precision];
}

const BUILDER = "python3 -m encoder_builder";

/** From the hub's files to `model.onnx`, and to the file that the model in front of it reads. */
export function exportWords(subject: EncoderSubject, { dataType }: Numerics): readonly EncoderWord[] {
  const { kind, tower } = subject;
  const { source, dimension } = subject.row;
  const files = Object.entries(source.files).filter(([path]) => kind === "text" || path !== "tokenizer.json");
  return [
    ...commandWords<EncoderPlace>(`${BUILDER} export`),
    `--repository=${source.repository}`,
    `--revision=${source.revision}`,
    ...files.map(([path, sha256]) => `--file=${path}=${sha256}`),
    `--tower=${kind}`,
    `--graph=${tower.graph.join(",")}`,
    `--inputs=${tower.inputs.join(",")}`,
    `--output=${tower.output}`,
    `--dimension=${dimension}`,
    `--data-type=${dataType}`,
    `--opset=${ONNX_OPSET}`,
    ...commandWords<EncoderPlace>("--weights=<weights> --assets=<assets> --onnx=<onnx>"),
  ];
}

/**
 * Named sets of the builder by kind of input. The scales of an int8 plan come from them, so a set never changes: a
 * better one gets a new name, and with it a new key.
 */
const CALIBRATION_SAMPLES = { vision: "images-1", text: "texts-1" } as const;

/** Finds the range of every tensor on samples, and writes it into the graph as quantize and dequantize nodes. */
export function calibrateWords({ kind }: EncoderSubject): readonly EncoderWord[] {
  return commandWords(
    `${BUILDER} calibrate --samples=${CALIBRATION_SAMPLES[kind]} --onnx=<onnx> --output=<quantized>`,
  );
}

/** NVIDIA's packages put it there (libnvinfer-bin). */
const TRTEXEC = "/usr/src/tensorrt/bin/trtexec";

/** Scratch memory of a kernel at most, in MiB: enough for attention over the largest batches, and a bound on a shared GPU. */
const WORKSPACE_MIB = 2048;

/** Rows for which kernels are chosen: single queries and bulk loads both stay near it. */
const OPTIMUM_BATCH_SIZE = 8;

/** Tokens of a text for which kernels are chosen: a caption or a question. */
export const OPTIMUM_TEXT_TOKENS = 64;

/**
 * From the graph to `model.plan`. int8 takes the calibrated graph, never the float one. `--skipInference`, no benchmark after the
 * build, is in TensorRT from 8.6 on (sampleOptions.cpp), and so in every image from 23.12 on.
 */
export function trtexecWords(
  subject: EncoderSubject,
  { precision, maxBatchSize }: EncodersSpec,
  { flags }: Numerics,
): readonly EncoderWord[] {
  const { kind, tower } = subject;
  const shapes = (batchSize: number, tokens: number) => {
    const size =
      kind === "vision" ? `3x${tower.imageSize}x${tower.imageSize}` : Math.min(tokens, tower.maxTokens);
    return tower.inputs.map((input) => `${input}:${batchSize}x${size}`).join(",");
  };
  return [
    ...commandWords<EncoderPlace>(
      `${TRTEXEC} --onnx=<${precision === "int8" ? "quantized" : "onnx"}> --saveEngine=<plan>`,
    ),
    ...flags,
    `--minShapes=${shapes(1, 1)}`,
    `--optShapes=${shapes(Math.min(OPTIMUM_BATCH_SIZE, maxBatchSize), OPTIMUM_TEXT_TOKENS)}`,
    `--maxShapes=${shapes(maxBatchSize, Number.POSITIVE_INFINITY)}`,
    `--memPoolSize=workspace:${WORKSPACE_MIB}`,
    "--skipInference",
  ];
}

/** Purpose and owner of each command. */
const COMMENTS: Readonly<Record<EncoderStepName, string>> = {
  export:
    "downloads the files at their commit and writes the ONNX graph (encoder_builder is this project's own program)",
  calibrate:
    "measures ranges on samples and writes quantize and dequantize nodes (encoder_builder, likewise)",
  trtexec: "builds the plan (NVIDIA's own tool, part of the image)",
};

/** The commands of a plan, as a person would type them in its image; NVIDIA's image lacks this project's own program. */
export function explainEncoders(plan: EncoderPlan): readonly string[] {
  const where = plan.gpu === null ? "on any machine" : `on a machine with the GPU that serves (${plan.gpu})`;
  return [
    `# Encoders ${plan.shortKey}: ${plan.precision}, in ${plan.image} with encoder_builder, ${where}.`,
    shellLine(["mkdir", "-p", ...plan.models.map(({ name }) => `${plan.directory}/${name}`)]),
    ...plan.models.flatMap((model) => [
      "",
      `# ${model.name}: ${model.encoder}, served by ${model.towerConfig.name}.`,
      ...[model.export, ...model.steps].flatMap(({ name, argv }) => [
        `# ${name}: ${COMMENTS[name]}.`,
        shellLine(argv),
      ]),
    ]),
  ];
}
