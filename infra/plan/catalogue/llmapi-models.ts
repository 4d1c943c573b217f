/** Vision-language models that only TensorRT-LLM's PyTorch backend serves (`runtime: llmapi`); no recipe builds engines for them. */
import type { LanguageModel } from "./types.ts";

const QWEN_VISION = {
  source: {
    gated: false,
    include: ["*.safetensors", "*.json", "merges.txt"],
    storedDtype: "bfloat16",
  },
  recipe: "qwen",
  vision: {
    modelType: "qwen2_5_vl",
    attention: "prompt",
    // A token is 28 × 28 pixels. This project's part of the server scales larger pictures down to so many; the model takes 16,384.
    tokensPerImage: 1280,
    runsPerImage: 1,
    // As many as the limits' prompt holds; the model has no number of its own.
    maxImagesPerRequest: 4,
    needsHubFolder: false,
  },
  dtype: "bfloat16",
  quantizations: ["none"],
  pipelineParallel: false,
  trainedContextTokens: 128_000,
  limits: {
    maxBatchSize: 8,
    maxInputTokens: 8192,
    maxOutputTokens: 512,
    maxBeamWidth: 1,
    maxImagesPerRequest: 4,
  },
  flavours: ["llmapi"],
  runtimes: ["llmapi"],
  tokenizer: { endId: 151_645, padId: 151_643, addsBeginToken: false },
  chat: {
    // chat_template.json without tools, for messages whose content is text; the mark of an image belongs to the request.
    template:
      "{% if messages[0]['role'] != 'system' %}" +
      "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}" +
      "{% for message in messages %}" +
      "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    stopWords: ["<|im_end|>"],
  },
  golden: {
    prompt: "What is shown in this picture?",
    image: "coffee",
    maxTokens: 30,
    answerContains: ["coffee", "espresso", "cup"],
  },
} as const;

const SOURCES = [
  "triton-inference-server/tutorials Popular_Models_Guide/Qwen2.5-VL/qwen2_5_vl_trtllm_guide.md: the 3B model in the container 26.07",
  "Token of 28 × 28 pixels, at most 16,384 of a picture, 1280 as a balance: README.md of QwenLM/Qwen2.5-VL",
] as const;

export const llmapiModels = {
  "qwen2.5-vl-3b": {
    ...QWEN_VISION,
    title: "Qwen2.5-VL 3B Instruct",
    source: {
      ...QWEN_VISION.source,
      repository: "Qwen/Qwen2.5-VL-3B-Instruct",
      revision: "66285546d2b821cf421d4f5eb2576359d3770cd3",
      license: "Qwen Research License",
      downloadGB: 7.5,
    },
    architecture: {
      parameters: 3_085_938_688,
      // The output head is the embedding.
      embeddingParameters: 311_164_928,
      layers: 36,
      heads: 16,
      kvHeads: 2,
      headDimension: 128,
      hiddenSize: 2048,
      vocabularySize: 151_936,
    },
    vision: { ...QWEN_VISION.vision, parameters: 668_684_288 },
    sources: [
      ...SOURCES,
      "Architecture: config.json of Qwen/Qwen2.5-VL-3B-Instruct; 3,754,622,976 parameters in all, computed from it",
    ],
  },
  "qwen2.5-vl-7b": {
    ...QWEN_VISION,
    title: "Qwen2.5-VL 7B Instruct",
    source: {
      ...QWEN_VISION.source,
      repository: "Qwen/Qwen2.5-VL-7B-Instruct",
      revision: "cc594898137f460bfe9f0759e9844b3ce807cfb5",
      license: "Apache-2.0",
      downloadGB: 16.6,
    },
    architecture: {
      parameters: 7_615_616_512,
      embeddingParameters: 1_089_994_752,
      layers: 28,
      heads: 28,
      kvHeads: 4,
      headDimension: 128,
      hiddenSize: 3584,
      vocabularySize: 152_064,
    },
    vision: { ...QWEN_VISION.vision, parameters: 676_550_144 },
    sources: [
      ...SOURCES,
      "Architecture: config.json of Qwen/Qwen2.5-VL-7B-Instruct; 8,292,166,656 parameters in all, computed from it",
    ],
  },
} satisfies Record<string, LanguageModel>;
