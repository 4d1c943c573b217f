/** GPT-2. */
import type { LanguageModel } from "../types.ts";

export const gpt2Models = {
  "gpt2-medium": {
    title: "GPT-2 medium",
    source: {
      repository: "openai-community/gpt2-medium",
      revision: "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
      gated: false,
      license: "MIT",
      // The repository holds the weights four times, for four frameworks; the converter reads one of them.
      include: [
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer*.json",
        "vocab.json",
        "merges.txt",
      ],
      downloadGB: 1.5,
      storedDtype: "float32",
    },
    recipe: "gpt",
    architecture: {
      parameters: 354_823_168,
      // Token and position embeddings; the output head shares the first.
      embeddingParameters: 52_511_744,
      layers: 24,
      heads: 16,
      kvHeads: 16,
      headDimension: 64,
      hiddenSize: 1024,
      vocabularySize: 50_257,
    },
    dtype: "float16",
    quantizations: ["none", "int8", "int4"],
    pipelineParallel: true,
    trainedContextTokens: 1024,
    limits: {
      maxBatchSize: 4,
      maxInputTokens: 768,
      maxOutputTokens: 256,
      maxBeamWidth: 1,
      maxImagesPerRequest: 0,
    },
    flavours: ["inflight_batcher_llm", "gpt"],
    // TensorRT-LLM's PyTorch backend has no GPT-2, so there is no `llmapi` for it.
    runtimes: ["engine"],
    tokenizer: { endId: 50_256, padId: 50_256, addsBeginToken: false },
    golden: {
      prompt: "Born in north-east France, Soyer trained as a",
      maxTokens: 8,
      answerContains: ["chef"],
    },
    sources: [
      "NVIDIA/TensorRT-LLM examples/models/core/gpt/README.md: commands, and the golden prompt with its answer",
      "triton-inference-server/tensorrtllm_backend README.md at r25.07: four requests in a batch, end id 50256",
      "Architecture: config.json of openai-community/gpt2-medium; parameters counted from it",
      "nvidia.github.io/TensorRT-LLM/reference/support-matrix.html: GPT-2 is not among the models of the PyTorch backend",
    ],
  },
} satisfies Record<string, LanguageModel>;
