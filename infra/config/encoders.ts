/** Schemas of encoders, and of encoders' rows that a stack adds to the catalogue. */
import { z } from "zod";
import { VISION_WEIGHTS } from "../plan/catalogue/cpu-models.ts";
import { CLIP_NAMES, TEXT_ENCODER_NAMES, VISION_ENCODER_NAMES } from "../plan/catalogue/encoders.ts";
import {
  batching,
  catalogueName,
  formattedText,
  formMessage,
  minEncoderReplicas,
  publishedTritonPorts,
  replicas,
  resourceName,
  revision,
  storePath,
} from "./common.ts";

const source = {
  /** Repository of the Hugging Face hub. */
  repository: formattedText(
    /^\w[\w.-]{0,95}\/\w[\w.-]{0,95}$/,
    "a repository of the Hugging Face hub, with its owner",
    "BAAI/bge-small-en-v1.5",
  ),
  /** Commit on the Hugging Face hub. */
  revision,
  /** File of the weights. */
  weights: z.enum(["model.safetensors", "pytorch_model.bin"]).default("model.safetensors"),
};

const clip = z.strictObject({
  /** A CLIP, which encodes images and texts, or a BERT of sentence-transformers. */
  kind: z.literal("clip"),
  ...source,
  /** Name that OpenAI gave to a CLIP of these sizes. */
  architecture: z.enum(CLIP_NAMES, {
    error: ({ input }) =>
      /^ViT-(H|g|bigG)/i.test(String(input))
        ? `Graphs of ViT-H/14 and larger ones are above the 2 GiB that an ONNX file may have.\nName a smaller CLIP: ${CLIP_NAMES.join(", ")}.`
        : formMessage(`one of ${CLIP_NAMES.join(", ")}`, CLIP_NAMES[1]),
  }),
});

/** An encoder reads it again with each text, so that long words would leave it less of the text. */
const prefix = z
  .string()
  .max(200)
  .regex(/^(?:[^\p{Cc}]|\n)*$/u, "must have no control characters but line breaks")
  .optional();

const sentence = z.strictObject({
  kind: z.literal("sentence"),
  ...source,
  /** `hidden_size` of config.json: numbers in a vector. */
  hiddenSize: z.int().min(1).max(4096),
  /** `num_hidden_layers` of config.json. */
  layers: z.int().min(1).max(48),
  /** `vocab_size` of config.json. */
  vocabularySize: z.int().min(1).max(1_000_000).default(30_522),
  /** Longer texts are cut here; `max_seq_length` of sentence_bert_config.json at most. */
  maxTokens: z.int().min(8).max(8192),
  /** Which vector stands for a text, as 1_Pooling/config.json has it: the mean of all tokens, or that of the first. */
  pooling: z.enum(["mean", "cls"]).default("mean"),
  /**
   * Words that the encoder was trained with before a text, to the last space; another `document` makes the vectors of all documents
   * again. The gateway puts them before texts of documents and of searches (`/v1/match`, `/v1/answer`); clients of `/v1/embeddings`
   * and of Triton write them themselves. Absent: none.
   */
  prefixes: z
    .strictObject({
      /** Before the text of a search; `""`: none, whatever the repository's `prompts` say. */
      query: prefix,
      /** Before the text of a document; `""`: none, whatever the repository's `prompts` say. */
      document: prefix,
    })
    .optional(),
});

/**
 * Encoders that are not in the catalogue, by the names that `encoders.vision` and `encoders.text` give. For another encoder the
 * gateway makes the vectors of all documents again; the documents stay.
 */
export const ownEncoders = z
  .record(catalogueName("bge-small-en-v1.5"), z.discriminatedUnion("kind", [clip, sentence]))
  .optional();

export type OwnEncoder = NonNullable<z.infer<typeof ownEncoders>>[string];

const rowName = z.string().min(1).max(63);

const encoders = z.strictObject({
  /** Encoder of images: `clip-vit-base-patch32`, `clip-vit-large-patch14`, or a row of kind `clip` under `catalogue.encoders` of this file. */
  vision: rowName.default(VISION_ENCODER_NAMES[0]),
  /** Encoder of texts: `all-MiniLM-L6-v2`, or a row of kind `sentence` under `catalogue.encoders` of this file. */
  text: rowName.default(TEXT_ENCODER_NAMES[0]),
  /** The device that the encoders run on. */
  device: z.enum(["cpu", "gpu"]).default("cpu"),
  /** Number format; absent: `fp32` on a CPU, `fp16` on a GPU. */
  precision: z.enum(["fp32", "fp16", "int8"]).optional(),
  /** Samples of your own for `precision: int8`; absent: the builder's pictures and texts. */
  calibration: z
    .strictObject({
      /** Folder of at most 128 pictures, JPEG or PNG. */
      images: storePath("a folder", "/store/calibration/pictures").optional(),
      /** File of at most 1000 texts, a line each, in UTF-8. */
      texts: storePath("a file", "/store/calibration/texts.txt").optional(),
      /** Your label for their content; the encoders are rebuilt when it changes. */
      revision: z.string().min(1).max(100),
    })
    .optional(),
  ...batching,
  /** Absent: on a CPU the cheapest pool with room, one without GPU if there is any; on a GPU the only pool with GPUs. */
  pool: resourceName("gpu").optional(),
  /** GPU number of the host (`docker`). */
  gpuIndices: z.array(z.int().min(0).max(15)).length(1).optional(),
  replicas,
});

/** `false`: the stack has no encoders. */
export const clusterEncodersOrNone = z
  .union([z.literal(false), encoders.extend({ minReplicas: minEncoderReplicas })])
  .prefault({});

/** `false`: the stack has no encoders. */
export const hostEncodersOrNone = z
  .union([z.literal(false), encoders.extend({ ports: publishedTritonPorts })])
  .prefault({});

export const cpuEncoders = z.strictObject({
  ...batching,
  /** Whether Triton joins requests to a batch. */
  dynamicBatching: z.boolean().default(true),
  /** CPU threads of one encoder; 0 takes what the machine has. */
  threads: z.int().min(0).max(256).default(0),
  /** `auto`: CLIP from the model hub if it answers, else from a package, else seeded. */
  visionWeights: z.enum(VISION_WEIGHTS).default("auto"),
});
