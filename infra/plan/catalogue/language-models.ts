/**
 * Every language and vision-language model that a stack may name. A new model is a new row, here, in vision-models.ts or in
 * llmapi-models.ts; names, types and lists derive from the rows.
 *
 * Revisions are commits of the hub's repositories, each found in public code that pins it to that repository.
 */
import { llmapiModels } from "./llmapi-models.ts";
import type { GoldenPicture, LanguageModel } from "./types.ts";
import { visionModels } from "./vision-models.ts";

/** Shared by Llama 2 7B and its chat model. */
const llama2 = {
  recipe: "llama",
  architecture: {
    parameters: 6_738_415_616,
    embeddingParameters: 262_144_000,
    layers: 32,
    heads: 32,
    kvHeads: 32,
    headDimension: 128,
    hiddenSize: 4096,
    vocabularySize: 32_000,
  },
  dtype: "float16",
  quantizations: ["none", "int8", "int4", "fp8", "int8_sq", "int4_awq"],
  pipelineParallel: true,
  trainedContextTokens: 4096,
  runtimes: ["engine", "llmapi"],
  tokenizer: { endId: 2, padId: 2, addsBeginToken: true },
  // A batch of the Triton tutorial: with it the model and its KV cache fit one GPU of 24 GB.
  limits: {
    maxBatchSize: 4,
    maxInputTokens: 2048,
    maxOutputTokens: 512,
    maxBeamWidth: 1,
    maxImagesPerRequest: 0,
  },
} satisfies Partial<LanguageModel>;

const files = {
  gated: true,
  license: "Llama 2 Community License",
  // The repositories also hold .bin files of the same weights.
  include: ["*.safetensors", "*.json", "tokenizer.model"],
  downloadGB: 13.5,
  storedDtype: "float16",
} as const;

/**
 * The template of meta-llama/Llama-2-7b-chat-hf, with its special tokens written out; the begin token of the first turn
 * is left to TensorRT-LLM's tokenizer, which adds it by itself.
 */
const CHAT_TEMPLATE =
  "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}" +
  "{% set system_message = messages[0]['content'] %}" +
  "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}" +
  "{% for message in loop_messages %}" +
  "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" +
  "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}" +
  "{% if loop.index0 == 0 and system_message != false %}" +
  "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}" +
  "{% else %}{% set content = message['content'] %}{% endif %}" +
  "{% if message['role'] == 'user' %}" +
  "{% if loop.index0 > 0 %}{{ '<s>' }}{% endif %}{{ '[INST] ' + content.strip() + ' [/INST]' }}" +
  "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' </s>' }}{% endif %}" +
  "{% endfor %}";

const architectureSource =
  "Architecture: config.json of meta-llama/Llama-2-7b-hf; 6,738,415,616 parameters are also what the hub's card shows";

const rows = {
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
    // TensorRT-LLM's documents have no AWQ for GPT: docs/source/reference/precision.md at v0.16.0.
    quantizations: ["none", "int8", "int4", "fp8", "int8_sq"],
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
  "llama-2-7b": {
    ...llama2,
    title: "Llama 2 7B",
    source: {
      ...files,
      repository: "meta-llama/Llama-2-7b-hf",
      revision: "01c7f73d771dfac7d292323805ebc428287df4f9",
    },
    flavours: ["inflight_batcher_llm", "tritonCli", "llmapi"],
    golden: {
      prompt: "What is ML?",
      maxTokens: 50,
      answerContains: ["learn", "data", "artificial intelligence"],
    },
    sources: [
      "triton-inference-server/tutorials Popular_Models_Guide/Llama2/trtllm_guide.md: batch of 4, golden prompt and answer",
      "triton-inference-server/tensorrtllm_backend docs/llama.md at r25.07",
      architectureSource,
    ],
  },
  "llama-2-7b-chat": {
    ...llama2,
    title: "Llama 2 7B Chat",
    source: {
      ...files,
      repository: "meta-llama/Llama-2-7b-chat-hf",
      revision: "f5db02db724555f92da89c216ac04704f23d4590",
      modelScope: "shakechen/Llama-2-7b-chat-hf",
    },
    flavours: ["inflight_batcher_llm", "tritonCli", "llmapi"],
    chat: { template: CHAT_TEMPLATE, stopWords: ["</s>"] },
    golden: {
      prompt: "What is machine learning?",
      maxTokens: 100,
      answerContains: ["artificial intelligence", "algorithms"],
    },
    sources: [
      "t9k/examples deployments/triton-tensorrtllm (Kubernetes walkthrough): ModelScope id, golden prompt and answer",
      "Chat template: tokenizer_config.json of meta-llama/Llama-2-7b-chat-hf",
      architectureSource,
    ],
  },
  ...visionModels,
  ...llmapiModels,
} satisfies Record<string, LanguageModel>;

/** Name of a model, as a stack file writes it. */
export type LanguageModelName = keyof typeof rows;

export const languageModels: Readonly<Record<LanguageModelName, LanguageModel>> = rows;

/** All names, in the catalogue's order. */
export const LANGUAGE_MODELS = Object.keys(rows) as unknown as readonly [
  LanguageModelName,
  ...LanguageModelName[],
];

/** Names of the models that engines are built for. */
export const ENGINE_MODELS = LANGUAGE_MODELS.filter((name) =>
  languageModels[name].runtimes.includes("engine"),
);

/** Addresses of the pictures, for requests and for images that lack them. All are CC0-1.0, so that an image may be given on with them. */
export const goldenPictures: Readonly<Record<GoldenPicture, string>> = {
  // An espresso on a red saucer; docstring of skimage.data.coffee: CC0 by the photographer, Rachel Michetti.
  coffee: "https://raw.githubusercontent.com/scikit-image/scikit-image/v0.25.2/skimage/data/coffee.png",
};
