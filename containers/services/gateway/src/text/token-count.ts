/** Numbers of tokens, and whether a model or a rule of thumb gave them. */

export interface TokenCount {
  readonly count: number;
  /** True where the model does not say: the gateway has no tokenizer of its own. */
  readonly isEstimate: boolean;
}

/** English text has about four bytes a token in the usual vocabularies; each text has one token at least. */
const BYTES_PER_TOKEN = 4;

/** Tokens of texts by their size alone. */
export function estimateTokens(texts: readonly string[]): TokenCount {
  const count = texts.reduce(
    (sum, text) => sum + Math.max(1, Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)),
    0,
  );
  return { count, isEstimate: true };
}
