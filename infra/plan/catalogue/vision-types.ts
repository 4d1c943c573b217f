/** Kinds of visual half. How requests hold their images is in containers/services/triton-requests/src/profile.ts. */

interface VisionTypeRow {
  /** First TensorRT-LLM whose documents show the visual engine; null: `runtime: llmapi` serves the model without engines. */
  readonly since: string | null;
  /** Whether NVIDIA's guides build the unquantized language model with the fused MLP. */
  readonly usesFusedMlp: boolean;
  /**
   * Text that run.py gets for a question; it writes the rest of the prompt itself (`USER:` and `ASSISTANT:` for LLaVA, say).
   * From NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md.
   */
  readonly checkInput: string;
  /**
   * Patches and width of one run of the visual engine, from the tower's config.json; the language model may see fewer tokens.
   * Patches are null when a run has as many as `tokensPerImage`, of a model of pictures of any size `patchesPerToken` times as many.
   */
  readonly patches: number | null;
  /** @default 1 */
  readonly patchesPerToken?: number;
  readonly width: number;
  /** Format of the features that the builder's visual engine computes. */
  readonly features: "TYPE_FP16" | "TYPE_BF16";
  /**
   * Reason that all_models/multimodal takes only one picture a request; absent: it takes several, or this project's parts do. From
   * all_models/inflight_batcher_llm/preprocessing/1/model.py of tensorrtllm_backend at v0.17.0 and v0.19.0.
   */
  readonly onePicture?: string;
  /**
   * Whether this project's parts make one tile of each picture of a request with several, with one more token at its end, and put
   * them before the text: LlavaOnevisionProcessor of transformers does so from 4.53 on, with the chat template of the model.
   */
  readonly severalAreTiles?: true;
  /**
   * Chat for all_models/multimodal, whose preprocessing adds the beginning of the first turn and the end of the last turn
   * itself; absent: the chat of the model's row.
   */
  readonly chat?: { readonly template: string; readonly stopWords: readonly string[] };
  /** Folder of the tokenizer below the weights; absent: the weights' own. */
  readonly tokenizerFolder?: string;
  /** Edge in pixels of the square that is one token, of a model of pictures of any size; absent: all pictures have `tokensPerImage`. */
  readonly tokenEdgePixels?: number;
  /** Lines of the model's source code that no image can run, and sed's commands, which find nothing in edited code. */
  readonly sourceEdits?: readonly { readonly file: string; readonly sed: string }[];
}

/** The turns between the first and the last; the system's text stands before the first. */
const betweenTurns = (assistant: string, user: string) =>
  "{% for message in messages %}" +
  `{% if message['role'] == 'assistant' %}{{ ${assistant} }}` +
  `{% elif not loop.first and messages[loop.index0 - 1]['role'] == 'assistant' %}{{ ${user} }}` +
  "{% elif not loop.first %}{{ '\n' }}{% endif %}{{ message['content'] }}{% endfor %}";

/** LLaVA and VILA were trained on the chats of Vicuna. */
const VICUNA_CHAT = { template: betweenTurns("' ASSISTANT: '", "' USER: '"), stopWords: ["</s>", "USER:"] };

const rows = {
  llava: {
    chat: VICUNA_CHAT,
    since: "0.9",
    usesFusedMlp: true,
    checkInput: "\n {question}",
    // https://huggingface.co/openai/clip-vit-large-patch14-336/blob/main/config.json
    patches: 577,
    width: 1024,
    features: "TYPE_FP16",
  },
  blip2: {
    // https://huggingface.co/docs/transformers/v4.57.6/model_doc/blip-2: questions and answers one after the other.
    chat: {
      template:
        "{% for message in messages %}" +
        "{{ {'assistant': ' ', 'system': ''}.get(message['role'], 'Question: ') + message['content'] }}" +
        "{% if message['role'] == 'user' %} Answer:{% elif not loop.last %}{{ ' ' }}{% endif %}{% endfor %}",
      stopWords: ["\n", "Question:"],
    },
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
    chat: VICUNA_CHAT,
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
        // Since transformers 4.51 it does not accept an argument; before, this was the default.
        file: "llava/model/llava_arch.py",
        sed: "s/no_init_weights(_enable=True)/no_init_weights()/",
      },
      {
        // Other models' visual tower, which requires flash_attn: images before 25.05 lack it, and the index has only its sources.
        file: "llava/model/multimodal_encoder/builder.py",
        sed: "/^from .intern_encoder import InternVisionTower$/d",
      },
    ],
  },
  llava_onevision: {
    chat: {
      template: betweenTurns("'<|im_end|><|im_start|>assistant\n'", "'<|im_end|><|im_start|>user\n'"),
      stopWords: ["<|im_end|>"],
    },
    since: "0.15",
    usesFusedMlp: true,
    checkInput: "{question}",
    // The tower of vila.
    patches: 729,
    width: 1152,
    features: "TYPE_FP16",
    severalAreTiles: true,
  },
  mllama: {
    since: "0.15",
    usesFusedMlp: false,
    checkInput: "<|image|><|begin_of_text|>{question}",
    // https://huggingface.co/meta-llama/Llama-3.2-11B-Vision/blob/main/config.json
    patches: null,
    width: 1280,
    features: "TYPE_BF16",
    // mllama_process: an item of IMAGE_URL, whose dims are [ 1 ], is one image. build_mllama_engine of
    // tensorrt_llm/tools/multimodal_builder.py, which has only the batch dynamic, exports the tower with the shape of one image.
    onePicture: "reads one image for each prompt, as the visual engine does",
  },
  qwen2_5_vl: {
    since: null,
    usesFusedMlp: false,
    checkInput: "{question}",
    patches: null,
    // A patch has 14 × 14 pixels: https://huggingface.co/Qwen/Qwen2.5-VL-3B-Instruct/blob/main/config.json
    patchesPerToken: 4,
    tokenEdgePixels: 28,
    width: 1280,
    features: "TYPE_BF16",
  },
} satisfies Record<string, VisionTypeRow>;

/** `--model_type` of the visual engine builder. */
export type VisionType = keyof typeof rows;

export const visionTypes: Readonly<Record<VisionType, VisionTypeRow>> = rows;

export const VISION_TYPES = Object.keys(rows) as unknown as readonly [VisionType, ...VisionType[]];

/** The row of a model; undefined for a text model. */
export function visionTypeOf({
  vision,
}: {
  readonly vision?: { readonly modelType: VisionType } | undefined;
}): VisionTypeRow | undefined {
  return vision && visionTypes[vision.modelType];
}
