/** Texts to vectors through the text encoder of the encoders' Triton. */
import type { EncodersConfig } from "../config.ts";
import { estimateTokens, type TokenCount } from "../text/token-count.ts";
import type { TritonClient } from "./client.ts";
import { decodeResponse, encodeTextRequest, fp32Rows, int32Sum, JSON_LENGTH_HEADER } from "./tensors.ts";

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
  async embed(texts: readonly string[], signal: AbortSignal): Promise<Embeddings> {
    const { maxBatchSize } = this.#config;
    const vectors: Buffer[] = [];
    let tokens = 0;
    for (let start = 0; start < texts.length; start += maxBatchSize) {
      const batch = await this.#embedBatch(texts.slice(start, start + maxBatchSize), signal);
      vectors.push(...batch.vectors);
      tokens += batch.promptTokens.count;
    }
    return { vectors, promptTokens: { count: tokens, isEstimate: this.#config.tokenCountOutput === null } };
  }

  async #embedBatch(texts: readonly string[], signal: AbortSignal): Promise<Embeddings> {
    const { textModel, textInput, textOutput, tokenCountOutput, dimension } = this.#config;
    const outputs = tokenCountOutput === null ? [textOutput] : [textOutput, tokenCountOutput];
    const { body, jsonBytes } = encodeTextRequest(textInput, texts, outputs);
    const response = await this.#triton.post({
      path: `/v2/models/${textModel}/infer`,
      headers: { "content-type": "application/octet-stream", [JSON_LENGTH_HEADER]: String(jsonBytes) },
      body,
      signal,
      isIdempotent: true,
    });
    try {
      const answer = Buffer.from(await response.body.arrayBuffer());
      const tensors = decodeResponse(answer, Number(response.headers[JSON_LENGTH_HEADER]));
      return {
        vectors: fp32Rows(tensors.get(textOutput), texts.length, dimension),
        promptTokens:
          tokenCountOutput === null
            ? estimateTokens(texts)
            : { count: int32Sum(tensors.get(tokenCountOutput), texts.length), isEstimate: false },
      };
    } catch (error) {
      throw this.#triton.failure(error, signal);
    }
  }
}
