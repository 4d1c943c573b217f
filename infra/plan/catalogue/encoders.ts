/**
 * Encoders: what turns images and texts into vectors, on every platform. CLIP has two towers with one space of vectors; a
 * sentence encoder has one, with a space of its own.
 */

export const VISION_ENCODER_NAMES = ["clip-vit-base-patch32", "clip-vit-large-patch14"] as const;
export type VisionEncoderName = (typeof VISION_ENCODER_NAMES)[number];

export const TEXT_ENCODER_NAMES = ["all-MiniLM-L6-v2"] as const;
export type TextEncoderName = (typeof TEXT_ENCODER_NAMES)[number];

/**
 * Operator set of every exported graph: the lowest with LayerNormalization as one operator. Spread over elementary operators, as in
 * older opsets, it overflows in half precision (TensorRT warns of it when it builds).
 */
export const ONNX_OPSET = 17;

/** Steps after the transformer inside the exported graph, in this order. */
type GraphStep =
  /** The first token's vector, in CLIP after the last layer normalisation. */
  | "classTokenPooling"
  /** The last kept token's vector (CLIP's end of text), after the last layer normalisation. */
  | "endOfTextPooling"
  /** The mean of the kept tokens' vectors. */
  | "meanPooling"
  /** CLIP's linear map into the space that its towers share. */
  | "projection"
  /** Division by the Euclidean length. */
  | "normalize";

/** One transformer, as its ONNX graph. */
interface EncoderTower {
  /** Parameters with projection and, for BERT, with the pooler that the graph leaves out. */
  readonly parameters: number;
  /** Length of a token's vector. */
  readonly width: number;
  readonly graph: readonly GraphStep[];
  /** Name of the graph's output: float32 [batch, dimension], rows of unit length. */
  readonly output: string;
}

export interface VisionTowerRow extends EncoderTower {
  /** Name of the graph's input: float32 [batch, 3, imageSize, imageSize]. */
  readonly inputs: readonly ["pixel_values"];
  /** Pixels of an edge. */
  readonly imageSize: number;
  /** Patches and the class token. */
  readonly tokens: number;
}

export interface TextTowerRow extends EncoderTower {
  /** Names of the graph's inputs: whole numbers [batch, sequence]; texts are padded on the right, the mask is 0 there. */
  readonly inputs: readonly ["input_ids", "attention_mask"];
  /** Longer texts are cut here, special tokens included. */
  readonly maxTokens: number;
}

/** Files of the model hub. */
export interface EncoderSource {
  /** Hugging Face id. */
  readonly repository: string;
  /** Commit, 40 hexadecimal digits. */
  readonly revision: string;
  /** SHA-256 by name of the files that a build needs: weights, configuration, tokenizer; null when only the commit pins a file. */
  readonly files: Readonly<Record<string, string | null>>;
}

interface PinnedSource extends EncoderSource {
  readonly files: Readonly<Record<string, string>>;
}

export interface SentenceEncoderRow<Source extends EncoderSource = EncoderSource> {
  readonly source: Source;
  /** Numbers in an embedding. */
  readonly dimension: number;
  readonly text: TextTowerRow;
  /** Required values of the source's config.json by path; absent for the catalogue's own rows, whose files are known. */
  readonly config?: Readonly<Record<string, string | number>>;
  readonly prefixes?: Prefixes;
}

/** Words that the gateway puts before texts of searches and of documents; absent: none. */
export interface Prefixes {
  readonly query?: string | undefined;
  readonly document?: string | undefined;
}

/** Both towers map into one space: a text finds images without captions. */
export interface ClipRow<Source extends EncoderSource = EncoderSource> extends SentenceEncoderRow<Source> {
  readonly vision: VisionTowerRow;
}

interface Transformer {
  readonly layers: number;
  /** Length of a token's vector. */
  readonly width: number;
}

interface ClipShape {
  /** Pixels of an image's edge. */
  readonly imageSize: number;
  /** Pixels of a patch's edge. */
  readonly patchSize: number;
  /** Numbers in an embedding. */
  readonly dimension: number;
  readonly vision: Transformer;
  readonly text: Transformer;
}

/**
 * Sizes of CLIP by the name that OpenAI gave them: clip/model.py of https://github.com/openai/CLIP, config.json of openai/clip-vit-* and
 * laion/CLIP-ViT-*. ViT-H/14 and larger ones are missing: their heads have other sizes, and their graphs are above the 2 GiB that
 * an ONNX file may have.
 */
export const CLIP_SHAPES = {
  "ViT-B/32": {
    imageSize: 224,
    patchSize: 32,
    dimension: 512,
    vision: { layers: 12, width: 768 },
    text: { layers: 12, width: 512 },
  },
  "ViT-B/16": {
    imageSize: 224,
    patchSize: 16,
    dimension: 512,
    vision: { layers: 12, width: 768 },
    text: { layers: 12, width: 512 },
  },
  "ViT-L/14": {
    imageSize: 224,
    patchSize: 14,
    dimension: 768,
    vision: { layers: 24, width: 1024 },
    text: { layers: 12, width: 768 },
  },
  "ViT-L/14@336px": {
    imageSize: 336,
    patchSize: 14,
    dimension: 768,
    vision: { layers: 24, width: 1024 },
    text: { layers: 12, width: 768 },
  },
} as const satisfies Record<string, ClipShape>;

export const CLIP_NAMES = Object.keys(CLIP_SHAPES) as [ClipName, ClipName, ...ClipName[]];
type ClipName = keyof typeof CLIP_SHAPES;

export const CLIP_VOCABULARY = 49_408;

/** clip/model.py, build_model: heads = width // 64, in both towers. */
export const CLIP_HEAD_WIDTH = 64;

/** Number of positions of CLIP's text tower. */
export const CLIP_TEXT_TOKENS = 77;

/** Weights and biases of layers whose feed-forward part is four times as wide as a token's vector. */
function layersParameters({ layers, width }: Transformer): number {
  return layers * (12 * width ** 2 + 13 * width);
}

export function clipRow<Source extends EncoderSource>(shape: ClipShape, source: Source): ClipRow<Source> {
  const { imageSize, patchSize, dimension, vision, text } = shape;
  const tokens = (imageSize / patchSize) ** 2 + 1;
  return {
    source,
    dimension,
    vision: {
      graph: ["classTokenPooling", "projection", "normalize"],
      inputs: ["pixel_values"],
      output: "image_embedding",
      imageSize,
      tokens,
      width: vision.width,
      // The patches' convolution and the projection have no bias; two normalisations are outside of the layers.
      parameters: (3 * patchSize ** 2 + 1 + tokens + 4 + dimension) * vision.width + layersParameters(vision),
    },
    text: {
      graph: ["endOfTextPooling", "projection", "normalize"],
      inputs: ["input_ids", "attention_mask"],
      output: "text_embedding",
      maxTokens: CLIP_TEXT_TOKENS,
      width: text.width,
      parameters: (CLIP_VOCABULARY + CLIP_TEXT_TOKENS + 2 + dimension) * text.width + layersParameters(text),
    },
  };
}

/** Sizes of a BERT. */
interface BertShape extends Transformer {
  readonly vocabularySize: number;
  readonly maxTokens: number;
  readonly pooling: "mean" | "cls";
}

/** `max_position_embeddings` of BERT, for its parameters. */
const BERT_POSITIONS = 512;

export function sentenceRow<Source extends EncoderSource>(
  shape: BertShape,
  source: Source,
): SentenceEncoderRow<Source> {
  const { width, vocabularySize, maxTokens, pooling } = shape;
  return {
    source,
    dimension: width,
    text: {
      graph: [pooling === "cls" ? "classTokenPooling" : "meanPooling", "normalize"],
      inputs: ["input_ids", "attention_mask"],
      output: "text_embedding",
      maxTokens,
      width,
      // Two segments and a normalisation beside words and positions; the pooler.
      parameters:
        (vocabularySize + BERT_POSITIONS + 4) * width + layersParameters(shape) + width ** 2 + width,
    },
  };
}

/** Query instruction of BGE's English models. */
const BGE_ENGLISH = "Represent this sentence for searching relevant passages: ";

/**
 * Prefixes that only a model card says: its repository has no `prompts`, with which a build could compare a row. Cards of
 * intfloat/e5-base-v2, intfloat/multilingual-e5-small, BAAI/bge-small-en-v1.5 and BAAI/bge-small-zh-v1.5.
 */
export const CARD_PREFIXES: readonly { readonly repository: RegExp; readonly prefixes: Prefixes }[] = [
  {
    repository: /^intfloat\/(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?$/,
    prefixes: { query: "query: ", document: "passage: " },
  },
  { repository: /^BAAI\/bge-(small|base|large)-en(-v1\.5)?$/, prefixes: { query: BGE_ENGLISH } },
  {
    repository: /^BAAI\/bge-(small|base|large)-zh(-v1\.5)?$/,
    prefixes: { query: "为这个句子生成表示以用于检索相关文章：" },
  },
];

/** CLIP models by catalogue name. License: MIT, by OpenAI's repository; the hub's cards name none. */
export const visionEncoders: Readonly<Record<VisionEncoderName, ClipRow<PinnedSource>>> = {
  // 151,277,313 parameters in all, one of them the temperature: notebooks/Interacting_with_CLIP.ipynb of the repository.
  "clip-vit-base-patch32": clipRow(CLIP_SHAPES["ViT-B/32"], {
    repository: "openai/clip-vit-base-patch32",
    // Its weights are only in pytorch_model.bin.
    revision: "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
    files: {
      "config.json": "b575ef3c36f2a057fa19e221650105052d61cc9c1a972ec15019c6261ec98770",
      "pytorch_model.bin": "a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f",
      "tokenizer.json": "b556ac8c99757ffb677208af34bc8c6721572114111a6e0aaf5fa69ff0b8d842",
    },
  }),
  // 427,616,513 parameters in all, one of them the temperature: counted from config.json.
  "clip-vit-large-patch14": clipRow(CLIP_SHAPES["ViT-L/14"], {
    repository: "openai/clip-vit-large-patch14",
    revision: "32bd64288804d66eefd0ccbe215aa642df71cc41",
    files: {
      "config.json": "8a09b467700c58138c29d53c605b34ebc69beaadd13274a8a2af8ad2c2f4032a",
      "model.safetensors": "a2bf730a0c7debf160f7a6b50b3aaf3703e7e88ac73de7a314903141db026dcb",
      "tokenizer.json": "a83e0809aa4c3af7208b2df632a7a69668c6d48775b3c3fe4e1b1199d1f8b8f4",
    },
  }),
};

/** Sentence encoders by catalogue name. License: Apache-2.0. */
export const textEncoders: Readonly<Record<TextEncoderName, SentenceEncoderRow<PinnedSource>>> = {
  "all-MiniLM-L6-v2": sentenceRow(
    // `max_seq_length` of sentence_bert_config.json; the position table is longer.
    { layers: 6, width: 384, vocabularySize: 30_522, maxTokens: 256, pooling: "mean" },
    {
      repository: "sentence-transformers/all-MiniLM-L6-v2",
      revision: "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
      files: {
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
      },
    },
  ),
};

/** Row of a stack's encoder of images: the stack file's own, or the catalogue's by name. */
export function visionRow(names: { readonly vision: string; readonly ownVision?: ClipRow }): ClipRow {
  return names.ownVision ?? visionEncoders[names.vision as VisionEncoderName];
}

/** Row of a stack's encoder of texts: the stack file's own, or the catalogue's by name. */
export function textRow(names: {
  readonly text: string;
  readonly ownText?: SentenceEncoderRow;
}): SentenceEncoderRow {
  return names.ownText ?? textEncoders[names.text as TextEncoderName];
}
