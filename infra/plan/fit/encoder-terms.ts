/** What the encoders' Triton keeps on a GPU. */
import { textEncoders, visionEncoders } from "../catalogue/encoders.ts";
import type { EncodersSpec } from "../spec.ts";
import { GIB, grouped } from "../units.ts";
import type { SizedTerm } from "./types.ts";

/**
 * Bytes of a weight and of an activation, and the error of the weights: an int8 plan keeps embeddings and layer normalisation in
 * 16 bits, and computes some layers so.
 */
const PRECISIONS = {
  fp32: { weightBytes: 4, activationBytes: 4, weightsError: 0.05 },
  fp16: { weightBytes: 2, activationBytes: 2, weightsError: 0.05 },
  int8: { weightBytes: 1, activationBytes: 2, weightsError: 0.5 },
} as const;

/** Tensors of one layer that live together, in units of `tokens × width`; the language models' factor, inferred for these. */
const ACTIVATION_FACTOR = 18;
const ACTIVATION_ERROR = 0.5;

/** One Triton without TensorRT-LLM's kernels; measured for a Python stub, see terms.ts. */
const CONTEXT_GIB = 0.55;
const CONTEXT_ERROR_GIB = 0.2;
const POOL_GIB = 64 / 1024;

/** Terms of `vision_encoder`, `text_encoder` and `clip_text` in one Triton. */
export function encoderTerms(spec: EncodersSpec): readonly Omit<SizedTerm, "tenant">[] {
  const { vision, text: clipText, source } = visionEncoders[spec.vision];
  const { text } = textEncoders[spec.text];
  const { weightBytes, activationBytes, weightsError } = PRECISIONS[spec.precision];
  const towers = [
    { name: "vision_encoder", tokens: vision.tokens, row: vision },
    { name: "text_encoder", tokens: text.maxTokens, row: text },
    { name: "clip_text", tokens: clipText.maxTokens, row: clipText },
  ];
  return [
    ...towers.flatMap(({ name, tokens, row: { parameters, width } }): Omit<SizedTerm, "tenant">[] => {
      const weightsGiB = (parameters * weightBytes) / GIB;
      const activationsGiB = (ACTIVATION_FACTOR * spec.maxBatchSize * tokens * width * activationBytes) / GIB;
      return [
        {
          what: "weights",
          gib: weightsGiB,
          arithmetic: `${name}: ${grouped(parameters)} parameters × ${weightBytes} bytes (${spec.precision})`,
          uncertaintyGiB: weightsGiB * weightsError,
          source: source.repository,
          when: "anyTime",
        },
        {
          what: "activations",
          gib: activationsGiB,
          arithmetic: `${name}: ${ACTIVATION_FACTOR} × batch ${spec.maxBatchSize} × ${tokens} tokens × ${width} × ${activationBytes} bytes`,
          uncertaintyGiB: activationsGiB * ACTIVATION_ERROR,
          source: "inferred: the language models' factor on the encoder's own shape",
          when: "anyTime",
        },
      ];
    }),
    {
      what: "memoryPool",
      gib: POOL_GIB,
      arithmetic: "Triton's default of 67,108,864 bytes",
      uncertaintyGiB: 0,
      source: "https://github.com/NVIDIA/TensorRT-LLM/issues/2233",
      when: "anyTime",
    },
    {
      what: "cudaContext",
      gib: CONTEXT_GIB,
      arithmetic: "tritonserver: CUDA context and libraries",
      uncertaintyGiB: CONTEXT_ERROR_GIB,
      source: "https://github.com/NVIDIA/TensorRT-LLM/issues/3058",
      when: "anyTime",
    },
  ];
}
