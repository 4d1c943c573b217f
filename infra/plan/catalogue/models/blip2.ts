/** BLIP-2 with OPT. */
import type { LanguageModel } from "../types.ts";

export const blip2Models = {
  "blip2-opt-2.7b": {
    title: "BLIP-2 OPT 2.7B",
    source: {
      repository: "Salesforce/blip2-opt-2.7b",
      revision: "59a1ef6c1e5117b3f65523d1c6066825bcf315e3",
      gated: false,
      license: "MIT",
      include: ["*.safetensors", "*.json", "merges.txt"],
      downloadGB: 15,
      storedDtype: "float32",
    },
    recipe: "opt",
    converterModelType: "blip2",
    architecture: {
      parameters: 2_651_596_800,
      // Token and position embeddings; the output head shares the first.
      embeddingParameters: 133_944_320,
      layers: 32,
      heads: 32,
      kvHeads: 32,
      headDimension: 80,
      hiddenSize: 2560,
      vocabularySize: 50_272,
    },
    vision: {
      modelType: "blip2",
      // Image encoder 985,952,256 and Q-Former with its projection 107,130,880.
      parameters: 1_093_083_136,
      attention: "prompt",
      // Query tokens of the Q-Former.
      tokensPerImage: 32,
      runsPerImage: 1,
      maxImagesPerRequest: 1,
      video: false,
      needsHubFolder: false,
    },
    dtype: "float16",
    quantizations: ["none", "int8", "int4"],
    pipelineParallel: false,
    trainedContextTokens: 2048,
    limits: {
      maxBatchSize: 8,
      maxInputTokens: 924,
      maxOutputTokens: 100,
      maxBeamWidth: 1,
      maxImagesPerRequest: 1,
    },
    flavours: ["multimodal"],
    runtimes: ["engine"],
    // The model ends an answer with a line feed, which is its end id; OPT's own end token is 2.
    tokenizer: { endId: 50_118, padId: 1, addsBeginToken: true },
    imagePrompt: "Question: {question} Answer:",
    golden: {
      prompt: "what is shown in this picture?",
      image: "coffee",
      maxTokens: 16,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tensorrtllm_backend docs/multimodal.md: limits, 32 features",
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, BLIP2: int8 and int4 of the OPT part",
      "Architecture and end id: config.json of Salesforce/blip2-opt-2.7b with OPT's published vocabulary of 50,272;" +
        " 3,744,679,936 parameters in all. The files of this revision are 14,979,207,136 bytes, which leaves room for" +
        " 32 rows more in the vocabulary (not verified, 0.08 million parameters)",
    ],
  },
} satisfies Record<string, LanguageModel>;
