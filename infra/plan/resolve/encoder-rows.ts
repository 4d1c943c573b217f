/** Rows of the encoders that a stack names: the catalogue's, or the stack file's own. */
import type { OwnEncoder } from "../../config/encoders.ts";
import {
  CLIP_HEAD_WIDTH,
  CLIP_SHAPES,
  CLIP_TEXT_TOKENS,
  CLIP_VOCABULARY,
  type ClipRow,
  clipRow,
  type EncoderSource,
  type SentenceEncoderRow,
  sentenceRow,
  textEncoders,
  visionEncoders,
} from "../catalogue/encoders.ts";
import type { EncodersSpec } from "../spec.ts";
import { type Report, rowOf, unknownName } from "./names.ts";

/** Files of both kinds in addition to the weights. */
const FILES = ["config.json", "tokenizer.json"];
/** Files in which a repository of sentence-transformers describes the steps after the transformer. */
const SENTENCE_FILES = ["1_Pooling/config.json", "modules.json", "sentence_bert_config.json"];

/** null when a name has no row, which is reported. */
export function encoderRows(
  { vision, text }: Pick<EncodersSpec, "vision" | "text">,
  own: Readonly<Record<string, OwnEncoder>>,
  report: Report,
): Pick<EncodersSpec, "vision" | "text" | "ownVision" | "ownText"> | null {
  const find = <Kind extends OwnEncoder["kind"]>(path: string, name: string, kind: Kind) => {
    const row = rowOf(own, name);
    if (row?.kind === kind) return row as Extract<OwnEncoder, { kind: Kind }>;
    const known: object = kind === "clip" ? visionEncoders : textEncoders;
    if (Object.hasOwn(known, name)) return undefined;
    const names = Object.keys(own).filter((one) => own[one]?.kind === kind);
    report({
      ...unknownName(
        path,
        name,
        kind === "clip" ? "an encoder of images" : "an encoder of texts",
        [...Object.keys(known), ...names],
        `Others can be added under \`catalogue.encoders\`, with \`kind: ${kind}\`.`,
      ),
      ...(row && { reason: `${name} is of kind ${row.kind}, and ${path} names a row of kind ${kind}.` }),
    });
    return null;
  };
  const [clip, sentence] = [find("encoders.vision", vision, "clip"), find("encoders.text", text, "sentence")];
  if (clip === null || sentence === null) return null;
  return {
    vision,
    text,
    ...(clip === undefined ? {} : { ownVision: ownClip(clip) }),
    ...(sentence === undefined ? {} : { ownText: ownSentences(sentence) }),
  };
}

function ownClip(row: Extract<OwnEncoder, { kind: "clip" }>): ClipRow {
  const shape = CLIP_SHAPES[row.architecture];
  const { imageSize, patchSize, dimension, vision, text } = shape;
  return {
    ...clipRow(shape, sourceOf(row, ["preprocessor_config.json"])),
    config: {
      model_type: "clip",
      projection_dim: dimension,
      "text_config.hidden_size": text.width,
      "text_config.max_position_embeddings": CLIP_TEXT_TOKENS,
      "text_config.num_attention_heads": text.width / CLIP_HEAD_WIDTH,
      "text_config.num_hidden_layers": text.layers,
      "text_config.vocab_size": CLIP_VOCABULARY,
      "vision_config.hidden_size": vision.width,
      "vision_config.image_size": imageSize,
      "vision_config.num_attention_heads": vision.width / CLIP_HEAD_WIDTH,
      "vision_config.num_hidden_layers": vision.layers,
      "vision_config.patch_size": patchSize,
    },
  };
}

function ownSentences(row: Extract<OwnEncoder, { kind: "sentence" }>): SentenceEncoderRow {
  const { layers, hiddenSize: width, vocabularySize, maxTokens, pooling, prefixes } = row;
  return {
    ...sentenceRow({ layers, width, vocabularySize, maxTokens, pooling }, sourceOf(row, SENTENCE_FILES)),
    config: {
      model_type: "bert",
      hidden_size: width,
      num_hidden_layers: layers,
      vocab_size: vocabularySize,
    },
    ...(prefixes === undefined ? {} : { prefixes }),
  };
}

/** The commit says what each file holds. */
function sourceOf({ repository, revision, weights }: OwnEncoder, files: readonly string[]): EncoderSource {
  const all = [...FILES, ...files, weights].sort();
  return { repository, revision, files: Object.fromEntries(all.map((path) => [path, null])) };
}
