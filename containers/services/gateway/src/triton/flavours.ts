/**
 * How the Triton models that answer /generate differ: one row a kind. Names are those of TensorRT-LLM's own model
 * repositories (`all_models/inflight_batcher_llm`).
 */

export interface Flavour {
  /** Request tensor that seeds the sampling: `random_seed` until TensorRT-LLM 0.19, `seed` since 0.20. */
  readonly seedField: "seed" | "random_seed";
  /**
   * Whether the answer begins with the prompt. `excluded`: the repository was filled with
   * `exclude_input_in_output:True`, as this project does. `repeated`: it was not, and TensorRT-LLM's default is False, so
   * the gateway cuts the prompt off where it comes back as it was sent (special tokens of a chat template do not).
   */
  readonly promptEcho: "excluded" | "repeated";
  /**
   * What a streamed response holds. `delta`: the new text. `cumulative`: all text so far, which is what
   * `tensorrt_llm_bls` with `accumulate_tokens: True` sends, the only way in which SentencePiece models keep their spaces.
   */
  readonly streamedText: "delta" | "cumulative";
}

export const FLAVOURS = {
  /** `ensemble` of TensorRT-LLM 0.20 (25.06) and newer, and this project's CPU models. */
  inflight_batcher_llm: { seedField: "seed", promptEcho: "excluded", streamedText: "delta" },
  /** The same, filled without `exclude_input_in_output:True`. */
  inflight_batcher_llm_echo: { seedField: "seed", promptEcho: "repeated", streamedText: "delta" },
  /** `tensorrt_llm_bls` with `accumulate_tokens:True`, same releases. */
  inflight_batcher_llm_bls: { seedField: "seed", promptEcho: "excluded", streamedText: "cumulative" },
  /** `ensemble` of the releases before: 23.12 to 25.04. */
  inflight_batcher_llm_legacy: { seedField: "random_seed", promptEcho: "excluded", streamedText: "delta" },
} as const satisfies Record<string, Flavour>;
