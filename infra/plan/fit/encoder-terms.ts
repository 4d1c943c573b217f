/** What the encoders' Triton keeps on a GPU. */
import {
  type TextTowerRow,
  textEncoders,
  type VisionTowerRow,
  visionEncoders,
} from "../catalogue/encoders.ts";
import type { EncodersSpec } from "../spec.ts";
import { GIB } from "../units.ts";
import { grouped } from "./numbers.ts";
import type { SizedTerm } from "./terms.ts";

/** Bytes of a weight. An int8 plan keeps embeddings and layer normalisation in 16 bits; {@link WEIGHTS_ERROR} covers it. */
const WEIGHT_BYTES = { fp32: 4, fp16: 2, int8: 1 } as const;
/** Bytes of an activation: int8 plans compute some layers in 16 bits. */
const ACTIVATION_BYTES = { fp32: 4, fp16: 2, int8: 2 } as const;

const WEIGHTS_ERROR = { fp32: 0.05, fp16: 0.05, int8: 0.5 } as const;

/** Tensors of one layer that live together, in units of `tokens × width`; the language models' factor, inferred for these. */
const ACTIVATION_FACTOR = 18;
const ACTIVATION_ERROR = 0.5;

/** One Triton without TensorRT-LLM's kernels; measured for a Python stub, see terms.ts. */
const CONTEXT_GIB = 0.55;
const CONTEXT_ERROR_GIB = 0.2;
const POOL_GIB = 64 / 1024;

interface Tower {
  readonly name: string;
  readonly parameters: number;
  readonly tokens: number;
  readonly width: number;
}

/** Terms of `vision_encoder`, `text_encoder` and `clip_text` in one Triton. */
export function encoderTerms(spec: EncodersSpec): readonly SizedTerm[] {
  const { vision, text: clipText } = visionEncoders[spec.vision];
  const towers = [
    visionTower(vision),
    textTower("text_encoder", textEncoders[spec.text].text),
    textTower("clip_text", clipText),
  ];
  return [
    ...towers.flatMap((tower) => towerTerms(spec, tower)),
    {
      tenant: "encoders",
      what: "memoryPool",
      gib: POOL_GIB,
      arithmetic: "Triton's default of 67,108,864 bytes",
      uncertaintyGiB: 0,
      source: "https://github.com/NVIDIA/TensorRT-LLM/issues/2233",
      when: "anyTime",
    },
    {
      tenant: "encoders",
      what: "cudaContext",
      gib: CONTEXT_GIB,
      arithmetic: "tritonserver: CUDA context and libraries",
      uncertaintyGiB: CONTEXT_ERROR_GIB,
      source: "https://github.com/NVIDIA/TensorRT-LLM/issues/3058",
      when: "anyTime",
    },
  ];
}

function visionTower(row: VisionTowerRow): Tower {
  return { name: "vision_encoder", parameters: row.parameters, tokens: row.tokens, width: row.width };
}

function textTower(name: string, row: TextTowerRow): Tower {
  return { name, parameters: row.parameters, tokens: row.maxTokens, width: row.width };
}

function towerTerms(spec: EncodersSpec, tower: Tower): readonly SizedTerm[] {
  const weightBytes = WEIGHT_BYTES[spec.precision];
  const activationBytes = ACTIVATION_BYTES[spec.precision];
  const weightsGiB = (tower.parameters * weightBytes) / GIB;
  const activationsGiB =
    (ACTIVATION_FACTOR * spec.maxBatchSize * tower.tokens * tower.width * activationBytes) / GIB;
  return [
    {
      tenant: "encoders",
      what: "weights",
      gib: weightsGiB,
      arithmetic: `${tower.name}: ${grouped(tower.parameters)} parameters × ${weightBytes} bytes (${spec.precision})`,
      uncertaintyGiB: weightsGiB * WEIGHTS_ERROR[spec.precision],
      source: visionEncoders[spec.vision].source.repository,
      when: "anyTime",
    },
    {
      tenant: "encoders",
      what: "activations",
      gib: activationsGiB,
      arithmetic: `${tower.name}: ${ACTIVATION_FACTOR} × batch ${spec.maxBatchSize} × ${tower.tokens} tokens × ${tower.width} × ${activationBytes} bytes`,
      uncertaintyGiB: activationsGiB * ACTIVATION_ERROR,
      source: "inferred: the language models' factor on the encoder's own shape",
      when: "anyTime",
    },
  ];
}
