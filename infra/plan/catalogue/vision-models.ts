/** Vision-language models: LLaVA-1.5 and OneVision, BLIP-2 with OPT, VILA 1.5, Llama 3.2 Vision (MLLaMA in TensorRT-LLM). */
import type { LanguageModel } from "./types.ts";

/** `OPENAI_CLIP_MEAN` and `OPENAI_CLIP_STD` of transformers/image_utils.py. */
const OF_CLIP = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
} as const;

/** The two models differ in the size of a picture's tiles and in their training. */
const LLAMA_VISION = {
  source: {
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
    attention: "cross",
    runsPerImage: 1,
    maxImagesPerRequest: 1,
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
} as const;

export const visionModels = {
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
      imageProcessor: {
        class: "CLIPImageProcessor",
        edge: 336,
        ...OF_CLIP,
        file: "preprocessor_config.json",
      },
      runsPerImage: 1,
      maxImagesPerRequest: 1,
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
      "Image processor: huggingface.co/llava-hf/llava-1.5-7b-hf preprocessor_config.json, which" +
        " transformers/models/llava/convert_llava_weights_to_hf.py makes of openai/clip-vit-large-patch14-336",
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
      // One tile of 27 × 27 patches; a single image is cut in tiles, so the request as a whole has a bound of its own.
      tokensPerImage: 729,
      tokensPerRequest: 7300,
      runsPerImage: 16,
      maxImagesPerRequest: 4,
      // 27 × 27 patches are pooled to 14 × 14 (postprocess_video of multimodal_utils.py); a frame is a run of the visual engine.
      video: { defaultFrames: 8, tokensPerFrame: 196 },
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
      maxImagesPerRequest: 4,
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
    golden: {
      prompt: "What is shown in this image?",
      image: "coffee",
      maxTokens: 30,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tensorrtllm_backend docs/multimodal.md: limits, 7300 visual tokens, 16 runs, end id 151645",
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, LLaVA-OneVision: the same with 7128 and 32;" +
        " several images in a request are not supported, and this project's parts add them",
      "Prompt: huggingface.co/docs/transformers/model_doc/llava_onevision; architecture: config.json of the repository",
    ],
  },
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
      imageProcessor: {
        class: "BlipImageProcessor",
        edge: 224,
        ...OF_CLIP,
        file: "preprocessor_config.json",
      },
      runsPerImage: 1,
      maxImagesPerRequest: 1,
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
      "Image processor: huggingface.co/Salesforce/blip2-opt-2.7b preprocessor_config.json, by" +
        " transformers/models/blip_2/convert_blip_2_original_to_pytorch.py",
    ],
  },
  "vila1.5-3b": {
    title: "VILA 1.5 3B",
    source: {
      repository: "Efficient-Large-Model/VILA1.5-3b",
      revision: "42d1dda6807cc521ef27674ca2ae157539d17026",
      gated: false,
      license: "CC-BY-NC-4.0",
      // Language model, vision tower and projector are in separate folders; a pattern's `*` spans folders.
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
      // With `image_aspect_ratio: resize` VILA's own code resizes to the same square first.
      imageProcessor: {
        class: "SiglipImageProcessor",
        edge: 384,
        mean: [0.5, 0.5, 0.5],
        std: [0.5, 0.5, 0.5],
        file: "vision_tower/preprocessor_config.json",
      },
      runsPerImage: 1,
      maxImagesPerRequest: 4,
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
      "Image processor: huggingface.co/google/siglip-so400m-patch14-384 preprocessor_config.json; image_aspect_ratio:" +
        " NVIDIA/TensorRT-LLM tests/unittest/_torch/modeling/test_modeling_vila.py; llava/mm_utils.py of NVlabs/VILA, process_image",
    ],
  },
  "llama-3.2-11b-vision": {
    ...LLAMA_VISION,
    title: "Llama 3.2 11B Vision",
    source: {
      ...LLAMA_VISION.source,
      repository: "meta-llama/Llama-3.2-11B-Vision",
      revision: "3f2e93603aaa5dd142f27d34b06dfa2b6e97b8be",
    },
    vision: {
      ...LLAMA_VISION.vision,
      // Encoder 836,288,019 and projector 31,461,376.
      parameters: 867_749_395,
      // 4 tiles × 1025 positions at the base model's 448 pixels; the instruct model's 560 pixels make it 4 × 1601 = 6404.
      tokensPerImage: 4100,
    },
    tokenizer: { endId: 128_001, padId: 128_004, addsBeginToken: true },
    chat: {
      // The hub has no template: the base model continues a text.
      template:
        "{% for message in messages %}{{ message['content'] }}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}",
      stopWords: [],
    },
    golden: {
      // It was not taught to answer.
      prompt: "This picture shows",
      image: "coffee",
      maxTokens: 16,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "triton-inference-server/tensorrtllm_backend docs/multimodal.md: limits and ids",
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, MLLaMA: 4100 encoder positions for the base model," +
        " 6404 for instruct; bf16, tensor parallelism, int8, int4 and fp8",
      "Architecture: config.json of meta-llama/Llama-3.2-11B-Vision; parameters of the encoder computed from it, with" +
        " transformers/models/mllama/modeling_mllama.py",
    ],
  },
  "llama-3.2-11b-vision-instruct": {
    ...LLAMA_VISION,
    title: "Llama 3.2 11B Vision Instruct",
    source: {
      ...LLAMA_VISION.source,
      repository: "meta-llama/Llama-3.2-11B-Vision-Instruct",
      revision: "9eb2daaa8597bf192a8b0e73f848f3a102794df5",
    },
    vision: {
      ...LLAMA_VISION.vision,
      // Encoder 863,567,379 and projector 31,461,376.
      parameters: 895_028_755,
      // 4 tiles × 1601 positions at 560 pixels.
      tokensPerImage: 6404,
    },
    // `<|eot_id|>` ends a turn.
    tokenizer: { endId: 128_009, padId: 128_004, addsBeginToken: true },
    chat: {
      // chat_template.json without tools and dates, which it writes only for chats without pictures.
      template:
        "{% for message in messages %}" +
        "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] + '<|eot_id|>' }}" +
        "{% endfor %}" +
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
      stopWords: ["<|eot_id|>"],
    },
    golden: {
      prompt: "What is shown in this picture?",
      image: "coffee",
      maxTokens: 30,
      answerContains: ["coffee", "espresso", "cup"],
    },
    sources: [
      "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md, MLLaMA: 6404 encoder positions; bf16, tensor" +
        " parallelism, int8, int4 and fp8",
      "Architecture: config.json of meta-llama/Llama-3.2-11B-Vision-Instruct; 10,670,220,835 parameters in all",
    ],
  },
} satisfies Record<string, LanguageModel>;
