/** VILA 1.5. */
import type { LanguageModel } from "../types.ts";

export const vilaModels = {
  "vila1.5-3b": {
    title: "VILA 1.5 3B",
    source: {
      repository: "Efficient-Large-Model/VILA1.5-3b",
      revision: "42d1dda6807cc521ef27674ca2ae157539d17026",
      gated: false,
      license: "CC-BY-NC-4.0",
      // Language model, vision tower and projector lie in folders of their own; a pattern's `*` spans folders.
      include: ["*.safetensors", "*.json", "*.model"],
      downloadGB: 6.2,
      storedDtype: "bfloat16",
    },
    recipe: "llama",
    architecture: {
      parameters: 2_701_560_320,
      embeddingParameters: 163_840_000,
      layers: 32,
      heads: 20,
      kvHeads: 20,
      headDimension: 128,
      hiddenSize: 2560,
      vocabularySize: 32_000,
    },
    vision: {
      modelType: "vila",
      // SigLIP-so400m at 384 pixels; the projector is not counted.
      parameters: 412_987_248,
      attention: "prompt",
      // 14 × 14 after the projector's downsampling of 27 × 27 patches.
      tokensPerImage: 196,
      runsPerImage: 1,
      maxImagesPerRequest: 4,
      video: false,
      needsHubFolder: false,
      requirements: "requirements-vila.txt",
      // The commit that NVIDIA's own examples check out for this model.
      codeRepository: {
        url: "https://github.com/Efficient-Large-Model/VILA.git",
        commit: "ec7fb2c264920bf004fd9fa37f1ec36ea0942db5",
      },
    },
    dtype: "float16",
    quantizations: ["none", "int8", "int4"],
    pipelineParallel: false,
    trainedContextTokens: 4096,
    limits: {
      maxBatchSize: 8,
      maxInputTokens: 2048,
      maxOutputTokens: 512,
      maxBeamWidth: 1,
      maxImagesPerRequest: 4,
    },
    flavours: ["multimodal"],
    runtimes: ["engine"],
    tokenizer: { endId: 2, padId: 2, addsBeginToken: true },
    imagePrompt:
      "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, " +
      "and polite answers to the user's questions. USER: <image>\n {question} ASSISTANT:",
    golden: {
      prompt: "Please elaborate what you see in the images?",
      image: "coffee",
      maxTokens: 68,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tensorrtllm_backend docs/multimodal.md: limits, 196 features, 4 images, prompt" +
        " (the documents write vila1.5-3b; the folder's name must hold vila)",
      "Language model Sheared-LLaMA-2.7B: github.com/NVlabs/VILA/issues/89; architecture: config.json of" +
        " princeton-nlp/Sheared-LLaMA-2.7B",
      "Commit of the code: examples/llm_ptq and examples/vlm_ptq of NVIDIA/TensorRT-Model-Optimizer",
      "Licence: github.com/NVlabs/VILA README.md, model licence",
    ],
  },
} satisfies Record<string, LanguageModel>;
