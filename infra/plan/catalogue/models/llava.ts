/** LLaVA-1.5 and LLaVA-OneVision. */
import type { LanguageModel } from "../types.ts";

export const llavaModels = {
  "llava-1.5-7b": {
    title: "LLaVA-1.5 7B",
    source: {
      repository: "llava-hf/llava-1.5-7b-hf",
      revision: "b234b804b114d9e37bb655e11cbbb5f5e971b7a9",
      gated: false,
      license: "Llama 2 Community License",
      include: ["*.safetensors", "*.json", "tokenizer.model"],
      downloadGB: 14.1,
      storedDtype: "float16",
    },
    recipe: "llama",
    architecture: {
      parameters: 6_738_939_904,
      embeddingParameters: 262_668_288,
      layers: 32,
      heads: 32,
      kvHeads: 32,
      headDimension: 128,
      hiddenSize: 4096,
      vocabularySize: 32_064,
    },
    vision: {
      modelType: "llava",
      parameters: 324_487_168,
      attention: "prompt",
      // (336 pixels / 14 pixels a patch)²
      tokensPerImage: 576,
      runsPerImage: 1,
      maxImagesPerRequest: 1,
      video: false,
      needsHubFolder: false,
    },
    dtype: "float16",
    quantizations: ["none", "int8", "int4", "fp8"],
    pipelineParallel: false,
    trainedContextTokens: 4096,
    limits: {
      maxBatchSize: 1,
      maxInputTokens: 2048,
      maxOutputTokens: 512,
      maxBeamWidth: 1,
      maxImagesPerRequest: 1,
    },
    flavours: ["llava", "multimodal"],
    runtimes: ["engine"],
    tokenizer: { endId: 2, padId: 32_001, addsBeginToken: true },
    chat: {
      // The hub's template for messages whose content is text; the mark of an image belongs to the request.
      template:
        "{% for message in messages %}" +
        "{% if message['role'] != 'system' %}{{ message['role'].upper() + ': ' }}{% endif %}" +
        "{{ message['content'] + ' ' }}{% endfor %}" +
        "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
      stopWords: ["</s>", "USER:"],
    },
    imagePrompt: "USER: <image>\nQuestion: {question} Answer:",
    golden: {
      prompt: "What is shown in this picture?",
      image: "coffee",
      maxTokens: 30,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tutorials Popular_Models_Guide/Llava1.5/llava_trtllm_guide.md: commands",
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, LLaVA: 576 features, tensor but no pipeline parallelism",
      "Architecture, pad id and chat template: config.json and chat_template.json of llava-hf/llava-1.5-7b-hf;" +
        " 7,063,427,072 parameters in all",
    ],
  },
  "llava-onevision-qwen2-7b": {
    title: "LLaVA-OneVision Qwen2 7B",
    source: {
      repository: "llava-hf/llava-onevision-qwen2-7b-ov-hf",
      revision: "0d50680527681998e456c7b78950205bedd8a068",
      gated: false,
      license: "Apache-2.0",
      include: ["*.safetensors", "*.json", "merges.txt"],
      downloadGB: 16.1,
      storedDtype: "float16",
    },
    recipe: "qwen",
    architecture: {
      parameters: 7_615_157_760,
      embeddingParameters: 1_089_536_000,
      layers: 28,
      heads: 28,
      kvHeads: 4,
      headDimension: 128,
      hiddenSize: 3584,
      vocabularySize: 152_000,
    },
    vision: {
      modelType: "llava_onevision",
      // 8,030,348,832 parameters in all, less those of the language model; the total is not verified.
      parameters: 415_191_072,
      attention: "prompt",
      // One tile of 27 × 27 patches; an image is cut in tiles, so the request as a whole has a bound of its own.
      tokensPerImage: 729,
      tokensPerRequest: 7300,
      runsPerImage: 16,
      maxImagesPerRequest: 1,
      video: true,
      needsHubFolder: true,
      requirements: "requirements-llava-onevision.txt",
    },
    dtype: "float16",
    quantizations: ["none", "int8", "int4"],
    pipelineParallel: false,
    trainedContextTokens: 32_768,
    limits: {
      maxBatchSize: 1,
      maxInputTokens: 7500,
      maxOutputTokens: 100,
      maxBeamWidth: 1,
      maxImagesPerRequest: 1,
    },
    flavours: ["multimodal"],
    runtimes: ["engine"],
    tokenizer: { endId: 151_645, padId: 151_643, addsBeginToken: false },
    chat: {
      template:
        "{% for message in messages %}" +
        "{{ '<|im_start|>' + message['role'] + ' \\n' + message['content'] + '<|im_end|>' }}{% endfor %}" +
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
      stopWords: ["<|im_end|>"],
    },
    imagePrompt: "<|im_start|>user <image>\n{question}<|im_end|><|im_start|>assistant\n",
    golden: {
      prompt: "What is shown in this image?",
      image: "coffee",
      maxTokens: 30,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tensorrtllm_backend docs/multimodal.md: limits, 7300 visual tokens, 16 runs, end id 151645",
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, LLaVA-OneVision: the same with 7128 and 32;" +
        " several images in a request are not supported",
      "Prompt: huggingface.co/docs/transformers/model_doc/llava_onevision; architecture: config.json of the repository",
    ],
  },
} satisfies Record<string, LanguageModel>;
