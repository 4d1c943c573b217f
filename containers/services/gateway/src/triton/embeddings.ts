/** Texts to vectors through the text encoder of the encoders' Triton. */
import type { CallContext } from "../call-context.ts";
import type { EncodersConfig } from "../config.ts";
import { estimateTokens, type TokenCount } from "../text/token-count.ts";
import type { TritonClient } from "./client.ts";
import { batchesOf, infer } from "./encoder-requests.ts";
import { fp32Rows, int32Sum } from "./tensors.ts";

interface Embeddings {
  /** One a text, in the texts' order: little-endian FP32, 4 × dimension bytes. */
  readonly vectors: readonly Buffer[];
  readonly promptTokens: TokenCount;
}

/** The model behind /v1/embeddings. */
export class TextEncoder {
  readonly #config: EncodersConfig;
  readonly #triton: TritonClient;

  constructor(config: EncodersConfig, triton: TritonClient) {
    this.#config = config;
    this.#triton = triton;
  }

  /**
   * Embeds all texts: one Triton request up to maxBatchSize texts, one after the other above it, so that one large
   * request does not push everybody else out of Triton's queue.
   */
  async embed(texts: readonly string[], call: CallContext): Promise<Embeddings> {
    const vectors: Buffer[] = [];
    let tokens = 0;
    for (const batch of batchesOf(texts, this.#config.maxBatchSize)) {
      const embedded = await this.#embedBatch(batch, call);
      vectors.push(...embedded.vectors);
      tokens += embedded.promptTokens.count;
    }
    return { vectors, promptTokens: { count: tokens, isEstimate: this.#config.tokenCountOutput === null } };
  }

  #embedBatch(texts: readonly string[], call: CallContext): Promise<Embeddings> {
    const { textModel, textInput, textOutput, tokenCountOutput, dimension } = this.#config;
    return infer(
      this.#triton,
      {
        model: textModel,
        inputs: [{ name: textInput, elements: texts }],
        outputs: tokenCountOutput === null ? [textOutput] : [textOutput, tokenCountOutput],
        read: (tensors) => ({
          vectors: fp32Rows(tensors.get(textOutput), texts.length, dimension),
          promptTokens:
            tokenCountOutput === null
              ? estimateTokens(texts)
              : { count: int32Sum(tensors.get(tokenCountOutput), texts.length), isEstimate: false },
        }),
      },
      call,
    );
  }
}
