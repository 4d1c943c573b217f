/** Vectors of texts, images, and both: the text encoder, the image encoder, and their ensemble on one Triton. */

import type { EncodersConfig } from "../config.ts";
import type { CallContext } from "../limits.ts";
import type { TritonClient } from "./client.ts";
import { decodeResponse, encodeInferRequest, fp32Rows, int32Sum, JSON_LENGTH_HEADER } from "./tensors.ts";

/** Text, image, or both, to embed. */
interface EncoderInput {
  readonly text?: string | undefined;
  /** Bytes of a JPEG, PNG or WebP file. */
  readonly image?: Uint8Array | undefined;
}

/** A vector for each part of an input: little-endian FP32, 4 × dimension bytes. */
export interface Vectors {
  readonly text?: Buffer;
  readonly image?: Buffer;
}

interface Embedded {
  /** In the order of the inputs. */
  readonly vectors: readonly Vectors[];
  /** 0 for inputs with images: their answers have no usage. */
  readonly promptTokens: number;
}

type Part = "text" | "image";

/** Each part's input, of BYTES, and its output, of FP32. */
const TENSORS = {
  text: { input: "text", output: "text_embedding" },
  image: { input: "image", output: "image_embedding" },
} as const;
/** Output of the text encoder: the number of tokens of each row, INT32. */
const TOKEN_COUNT = "token_count";

/** Images of one request: of 200 kB each they are no more than a few megabytes. */
const MOST_IMAGES = 16;

/** Triton's models by the parts that they take. */
export const ENCODER_MODELS = {
  text: "text_encoder",
  image: "vision_encoder",
  both: "llava_ensemble",
} as const;

/** The encoders, as /v1/embeddings, documents and queries use them. */
export class DocumentEncoder {
  readonly #config: EncodersConfig;
  readonly #triton: TritonClient;

  constructor(config: EncodersConfig, triton: TritonClient) {
    this.#config = config;
    this.#triton = triton;
  }

  /** Numbers of a text's vector. */
  get textDimension(): number {
    return this.#config.dimension;
  }

  /** Numbers of an image's vector. */
  get imageDimension(): number {
    return this.#config.imageDimension;
  }

  /** Embeds searches or documents, in their order, with the words before their texts. */
  async embed(
    use: keyof EncodersConfig["prefixes"],
    contents: readonly EncoderInput[],
    call: CallContext,
  ): Promise<Vectors[]> {
    const prefix = this.#config.prefixes[use];
    const inputs = contents.map(({ text, image }) => ({ text: text && `${prefix}${text}`, image }));
    const vectors: Vectors[] = inputs.map(() => ({}));
    const embedThose = async (parts: readonly Part[]) => {
      const indices = [...inputs.keys()].filter((index) => String(partsOf(inputs[index])) === String(parts));
      const those = indices.map((index) => inputs[index] ?? {});
      const embedded = await this.#embedParts(parts, those, call);
      indices.forEach((index, row) => {
        vectors[index] = embedded.vectors[row] ?? {};
      });
    };
    await Promise.all([embedThose(["text"]), embedThose(["image"]), embedThose(["text", "image"])]);
    return vectors;
  }

  /** Embeds texts as they are, and counts their tokens. */
  embedTexts(texts: readonly string[], call: CallContext): Promise<Embedded> {
    const inputs = texts.map((text) => ({ text }));
    return this.#embedParts(["text"], inputs, call);
  }

  /** One Triton request a batch, one after the other, so that one large request does not fill Triton's queue. */
  async #embedParts(
    parts: readonly Part[],
    inputs: readonly EncoderInput[],
    call: CallContext,
  ): Promise<Embedded> {
    const { maxBatchSize } = this.#config;
    const size = parts.includes("image") ? Math.min(maxBatchSize, MOST_IMAGES) : maxBatchSize;
    const vectors: Vectors[] = [];
    let promptTokens = 0;
    for (let start = 0; start < inputs.length; start += size) {
      const embedded = await this.#infer(parts, inputs.slice(start, start + size), call);
      vectors.push(...embedded.vectors);
      promptTokens += embedded.promptTokens;
    }
    return { vectors, promptTokens };
  }

  /** @throws ApiError as `post`, 502 for an answer that can't be read. */
  async #infer(
    parts: readonly Part[],
    inputs: readonly EncoderInput[],
    call: CallContext,
  ): Promise<Embedded> {
    const model = ENCODER_MODELS[parts.length === 2 ? "both" : (parts[0] ?? "text")];
    const countsTokens = model === ENCODER_MODELS.text;
    const response = await this.#triton.post({
      path: `/v2/models/${model}/infer`,
      ...encodeInferRequest(
        parts.map((part) => ({
          name: TENSORS[part].input,
          elements: inputs.map((input) => input[part] ?? ""),
        })),
        [...parts.map((part) => TENSORS[part].output), ...(countsTokens ? [TOKEN_COUNT] : [])],
      ),
      ...call,
      isIdempotent: true,
    });
    try {
      const answer = Buffer.from(await response.body.arrayBuffer());
      call.hold?.(answer.length);
      const tensors = decodeResponse(answer, Number(response.headers[JSON_LENGTH_HEADER]));
      const columns = { text: this.textDimension, image: this.imageDimension };
      const rowsOf = (part: Part) => fp32Rows(tensors, TENSORS[part].output, inputs.length, columns[part]);
      const made = parts.map((part) => [part, rowsOf(part)] as const);
      return {
        vectors: inputs.map((_, row) => Object.fromEntries(made.map(([part, rows]) => [part, rows[row]]))),
        promptTokens: countsTokens ? int32Sum(tensors, TOKEN_COUNT, inputs.length) : 0,
      };
    } catch (error) {
      throw this.#triton.failure(error, call.signal);
    }
  }
}

function partsOf({ text, image }: EncoderInput = {}): Part[] {
  return [
    ...(text === undefined ? [] : ["text" as const]),
    ...(image === undefined ? [] : ["image" as const]),
  ];
}
