/** Llama 3.2 Vision (MLLaMA in TensorRT-LLM). */
import type { LanguageModel } from "../types.ts";

export const llama32VisionModels = {
  "llama-3.2-11b-vision": {
    title: "Llama 3.2 11B Vision",
    source: {
      repository: "meta-llama/Llama-3.2-11B-Vision",
      revision: "3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be",
      gated: true,
      license: "Llama 3.2 Community License",
      include: ["*.safetensors", "*.json"],
      // Meta's own format of the same weights.
      exclude: ["original/*"],
      downloadGB: 21.3,
      storedDtype: "bfloat16",
    },
    recipe: "mllama",
    architecture: {
      parameters: 9_775_192_080,
      embeddingParameters: 1_050_705_920,
      layers: 40,
      // The other 8 layers attend to the image only.
      kvLayers: 32,
      heads: 32,
      kvHeads: 8,
      headDimension: 128,
      hiddenSize: 4096,
      vocabularySize: 128_256,
    },
    vision: {
      modelType: "mllama",
      // Encoder 863,567,379 and projector 31,461,376.
      parameters: 895_028_755,
      attention: "cross",
      // 4 tiles × 1025 positions at the base model's 448 pixels; the instruct model's 560 pixels make it 4 × 1601 = 6404.
      tokensPerImage: 4100,
      runsPerImage: 1,
      maxImagesPerRequest: 1,
      video: false,
      needsHubFolder: true,
      requirements: "requirements-mllama.txt",
    },
    dtype: "bfloat16",
    quantizations: ["none", "int8", "int4", "fp8"],
    pipelineParallel: false,
    trainedContextTokens: 131_072,
    limits: {
      maxBatchSize: 8,
      maxInputTokens: 1024,
      maxOutputTokens: 1024,
      maxBeamWidth: 1,
      maxImagesPerRequest: 1,
      maxNumTokens: 4096,
    },
    flavours: ["multimodal"],
    runtimes: ["engine"],
    tokenizer: { endId: 128_001, padId: 128_004, addsBeginToken: true },
    imagePrompt: "<|image|>{question}",
    golden: {
      // The base model goes on with a text; it was not taught to answer.
      prompt: "This picture shows",
      image: "coffee",
      maxTokens: 16,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tensorrtllm_backend docs/multimodal.md: limits and ids",
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, MLLaMA: 4100 encoder positions for the base model," +
        " 6404 for instruct; bf16, tensor parallelism, int8, int4 and fp8",
      "Architecture: config.json of meta-llama/Llama-3.2-11B-Vision; 10,670,220,835 parameters in all",
    ],
  },
} satisfies Record<string, LanguageModel>;
