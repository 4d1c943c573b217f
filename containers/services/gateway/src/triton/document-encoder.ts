/** Texts, images, and both together to vectors: the text encoder, the image encoder, and their ensemble. */
import type { CallContext } from "../call-context.ts";
import type { EncodersConfig } from "../config.ts";
import type { TritonClient } from "./client.ts";
import type { TextEncoder } from "./embeddings.ts";
import { batchesOf, infer } from "./encoder-requests.ts";
import { fp32Rows } from "./tensors.ts";

/** What is embedded; at least one of the two. */
export interface EncoderInput {
  readonly text?: string | undefined;
  /** Bytes of a JPEG, PNG or WebP file. */
  readonly image?: Uint8Array | undefined;
}

/** A vector for each part of an input: little-endian FP32, 4 × dimension bytes. */
export interface Vectors {
  readonly text?: Buffer;
  readonly image?: Buffer;
}

/** The parts that an input has; each has a model of its own, and both together have the ensemble. */
const KINDS = ["text", "image", "both"] as const;
type Kind = (typeof KINDS)[number];

/** The encoders as documents and queries use them. */
export class DocumentEncoder {
  readonly #config: EncodersConfig;
  readonly #triton: TritonClient;
  readonly #text: TextEncoder;

  constructor(config: EncodersConfig, triton: TritonClient, text: TextEncoder) {
    this.#config = config;
    this.#triton = triton;
    this.#text = text;
  }

  /** Numbers of a text's vector. */
  get textDimension(): number {
    return this.#config.dimension;
  }

  /** Numbers of an image's vector; undefined where the stack has no image encoder. */
  get imageDimension(): number | undefined {
    return this.#config.imageDimension;
  }

  /**
   * Embeds all inputs, in their order. Images are passed over where the stack has no image encoder. One Triton request
   * for each batch of a kind; the kinds run side by side, the batches of a kind one after the other.
   */
  async embed(inputs: readonly EncoderInput[], call: CallContext): Promise<Vectors[]> {
    const vectors: Vectors[] = inputs.map(() => ({}));
    await Promise.all(
      KINDS.map(async (kind) => {
        const indices = [...inputs.keys()].filter((index) => this.#kindOf(inputs[index]) === kind);
        const batchSize = kind === "text" ? this.#config.maxBatchSize : this.#imageBatchSize;
        for (const batch of batchesOf(indices, batchSize)) {
          const embedded = await this.#embedBatch(
            kind,
            batch.map((index) => inputs[index] ?? {}),
            call,
          );
          batch.forEach((index, row) => {
            vectors[index] = embedded[row] ?? {};
          });
        }
      }),
    );
    return vectors;
  }

  #kindOf({ text, image }: EncoderInput = {}): Kind | undefined {
    const hasImage = image !== undefined && this.imageDimension !== undefined;
    if (text !== undefined) return hasImage ? "both" : "text";
    return hasImage ? "image" : undefined;
  }

  get #imageBatchSize(): number {
    return Math.min(this.#config.maxBatchSize, this.#config.imageMaxBatchSize);
  }

  async #embedBatch(kind: Kind, inputs: readonly EncoderInput[], call: CallContext): Promise<Vectors[]> {
    const texts = inputs.map(({ text = "" }) => text);
    if (kind === "text") {
      const { vectors } = await this.#text.embed(texts, call);
      return vectors.map((text) => ({ text }));
    }
    const { visionModel, ensembleModel, textInput, textOutput, dimension } = this.#config;
    const { imageInput, imageOutput, imageDimension = 0 } = this.#config;
    const images = { name: imageInput, elements: inputs.map(({ image = new Uint8Array() }) => image) };
    const isBoth = kind === "both";
    return infer(
      this.#triton,
      {
        model: isBoth ? ensembleModel : visionModel,
        inputs: isBoth ? [{ name: textInput, elements: texts }, images] : [images],
        outputs: isBoth ? [textOutput, imageOutput] : [imageOutput],
        read: (tensors) => {
          const imageRows = fp32Rows(tensors.get(imageOutput), inputs.length, imageDimension);
          if (!isBoth) return imageRows.map((image) => ({ image }));
          const textRows = fp32Rows(tensors.get(textOutput), inputs.length, dimension);
          return imageRows.map((image, row) => ({ image, text: textRows[row] as Buffer }));
        },
      },
      call,
    );
  }
}
