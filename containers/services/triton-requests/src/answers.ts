/** Answers of Triton's generate extension. */
import { AnswerError } from "./errors.ts";
import { FLAVOURS } from "./flavours/index.ts";
import type { RequestProfile } from "./profile.ts";

/** One answer, or one event of a stream. */
export interface GenerateOutput {
  /** As the model gives it: see `promptEcho` and `streamedText` of the profile. */
  readonly text: string;
  /** Where the model counts. */
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  /** Where the model says why it ended. */
  readonly finishReason?: "stop" | "length";
}

/**
 * Reads the body of a `/generate` answer.
 * @throws AnswerError with Triton's words when the body is an error. @throws TypeError when it holds no text.
 */
export function parseGenerateResponse(profile: RequestProfile, json: unknown): GenerateOutput {
  const fields = (typeof json === "object" && json !== null ? json : {}) as Readonly<Record<string, unknown>>;
  if (fields.error !== undefined) throw new AnswerError(String(fields.error));
  const { textOutput } = FLAVOURS[profile.flavour];
  const text = single(fields[textOutput]);
  if (typeof text !== "string") throw new TypeError(`Triton's answer has no ${textOutput}`);
  const promptTokens = count(fields.num_input_tokens) ?? count(fields.prompt_tokens);
  const completionTokens = count(fields.num_output_tokens) ?? count(fields.completion_tokens);
  const reason = single(fields.finish_reason);
  return {
    text,
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(completionTokens === undefined ? {} : { completionTokens }),
    ...(reason === "stop" || reason === "length" ? { finishReason: reason } : {}),
  };
}

/**
 * Reads the data of one event of `/generate_stream`. Its shape is that of a whole answer; errors come as events too, after
 * the first with status 200.
 */
export const parseStreamEvent: typeof parseGenerateResponse = parseGenerateResponse;

/** Triton writes a tensor of one element as a bare value and of several (beams) as a list. */
function single(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : value;
}

function count(value: unknown): number | undefined {
  const number = single(value);
  return typeof number === "number" && Number.isInteger(number) && number >= 0 ? number : undefined;
}
