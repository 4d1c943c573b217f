/** Kinds of visual half, and the numbers of a visual engine. */
import type { EngineLimits, LanguageModel, VisionTower, VisionType } from "../catalogue/types.ts";
import type { VisualNumbers } from "./types.ts";

interface VisionTypeRow {
  /** First TensorRT-LLM whose documents show the visual engine. */
  readonly since: string;
  /** Whether NVIDIA's guides build the unquantized language model with the fused MLP. */
  readonly usesFusedMlp: boolean;
  /**
   * Text that run.py gets for a question; it writes the rest of the prompt itself (`USER:` and `ASSISTANT:` for LLaVA, say).
   * From NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md.
   */
  readonly checkInput: string;
  /**
   * Patches and width of one run of the visual engine, from the tower's config.json; the language model may see fewer tokens.
   * null: exactly `tokensPerImage`, the four tiles of an image in one run.
   */
  readonly patches: number | null;
  readonly width: number;
  /** Format of the features that the builder's visual engine computes. */
  readonly features: "TYPE_FP16" | "TYPE_BF16";
  /** Folder of the tokenizer below the weights; absent: the weights' own. */
  readonly tokenizerFolder?: string;
  /** Lines of the model's source code that no image can run, and sed's commands, which find nothing in edited code. */
  readonly sourceEdits?: readonly { readonly file: string; readonly sed: string }[];
}

export const visionTypes: Readonly<Record<VisionType, VisionTypeRow>> = {
  llava: {
    since: "0.9",
    usesFusedMlp: true,
    checkInput: "\n {question}",
    // https://huggingface.co/openai/clip-vit-large-patch14-336/blob/main/config.json
    patches: 577,
    width: 1024,
    features: "TYPE_FP16",
  },
  blip2: {
    // 0.9 takes the language model from another repository.
    since: "0.13",
    usesFusedMlp: false,
    checkInput: "Question: {question} Answer:",
    // https://huggingface.co/Salesforce/blip2-opt-2.7b/blob/main/config.json
    patches: 257,
    width: 1408,
    features: "TYPE_FP16",
  },
  vila: {
    since: "0.15",
    usesFusedMlp: true,
    checkInput: "<image>\n {question}",
    // https://huggingface.co/google/siglip-so400m-patch14-384/blob/main/config.json
    patches: 729,
    width: 1152,
    features: "TYPE_FP16",
    // `TOKENIZER_PATH` of NVIDIA/TensorRT-LLM tests/integration/defs/triton_server/test_triton_llm.py, and run.py.
    tokenizerFolder: "llm",
    // VILA's code is of transformers 4.37 and for training too. With these edits a small model of the same layout loads, computes
    // and is exported to ONNX with transformers 4.45.1, 4.48.3, 4.51.3, 4.53.1 and 4.56.0, and without deepspeed and flash_attn.
    sourceEdits: [
      {
        // Only training over several machines calls it; deepspeed is in no image.
        file: "llava/train/sequence_parallel/globals.py",
        sed: "s/^import deepspeed.comm as dist$/import torch.distributed as dist/",
      },
      {
        // Since transformers 4.51 it takes no argument; before, this was the default.
        file: "llava/model/llava_arch.py",
        sed: "s/no_init_weights(_enable=True)/no_init_weights()/",
      },
      {
        // Other models' visual tower, which wants flash_attn: images before 25.05 have none, and the index only its sources.
        file: "llava/model/multimodal_encoder/builder.py",
        sed: "/^from .intern_encoder import InternVisionTower$/d",
      },
    ],
  },
  llava_onevision: {
    since: "0.15",
    usesFusedMlp: true,
    checkInput: "{question}",
    // The tower of vila.
    patches: 729,
    width: 1152,
    features: "TYPE_FP16",
  },
  mllama: {
    since: "0.15",
    usesFusedMlp: false,
    checkInput: "<|image|><|begin_of_text|>{question}",
    // https://huggingface.co/meta-llama/Llama-3.2-11B-Vision/blob/main/config.json
    patches: null,
    width: 1280,
    features: "TYPE_BF16",
  },
};

/** The row of a model; undefined for a text model. */
export function visionTypeOf({
  vision,
}: {
  readonly vision?: Pick<VisionTower, "modelType"> | undefined;
}): VisionTypeRow | undefined {
  return vision && visionTypes[vision.modelType];
}

/** `--multimodal_gpu0_cuda_mem_pool_bytes` of tensorrtllm_backend's docs/multimodal.md. */
const DOCUMENTED_POOL_BYTES = 300_000_000;

/** Room in the pool over the bytes of one full batch; an assumption, no document names a figure. */
const POOL_HEADROOM = 1.25;

const POOL_STEP_BYTES = 100_000_000;

/** Visual features are handed on in float16 or bfloat16. */
const FEATURE_BYTES = 2;

/**
 * Visual numbers of an engine; null for a text model. Formulae of NVIDIA/TensorRT-LLM
 * examples/models/core/multimodal/README.md; where images are cut in tiles or a video in frames, the model's bound for a
 * whole request replaces features times images. Cross attention has no prompt table: its positions count as encoder
 * input. Triton's preprocessing divides these numbers back, so they must not be rounded.
 */
export function visualNumbers(
  { vision, architecture }: Pick<LanguageModel, "architecture" | "vision">,
  { maxBatchSize, maxImagesPerRequest }: Pick<EngineLimits, "maxBatchSize" | "maxImagesPerRequest">,
): VisualNumbers | null {
  if (vision === undefined) return null;
  const tokensPerRequest = vision.tokensPerRequest ?? vision.tokensPerImage * maxImagesPerRequest;
  const crosses = vision.attention === "cross";
  const batchBytes = FEATURE_BYTES * tokensPerRequest * architecture.hiddenSize * maxBatchSize;
  return {
    maxMultimodalTokens: crosses ? 0 : maxBatchSize * tokensPerRequest,
    maxEncoderInputTokens: crosses ? tokensPerRequest : 0,
    visionMaxBatchSize: maxBatchSize * vision.runsPerImage * maxImagesPerRequest,
    tokensPerRequest,
    cudaMemoryPoolBytes: Math.max(
      DOCUMENTED_POOL_BYTES,
      Math.ceil((POOL_HEADROOM * batchBytes) / POOL_STEP_BYTES) * POOL_STEP_BYTES,
    ),
  };
}
