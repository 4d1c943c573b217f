/** Requests of Triton's generate extension, and their answers. */
import { FLAVOURS, requestFields } from "./flavours.ts";
import { checkedPictures } from "./images.ts";
import type { RequestProfile } from "./profile.ts";
import { AnswerError, type GenerationRequest, type TritonRequest } from "./request.ts";

/**
 * A POST to `/generate`, or to `/generate_stream` if the request says `stream`.
 * A model that can't stream answers `/generate_stream` with a single event.
 * @throws RequestError when this model does not accept a part of the request, pixels among them.
 */
export function buildGenerateRequest(profile: RequestProfile, request: GenerationRequest): TritonRequest {
  const [model, endpoint] = request.stream
    ? [profile.streamingModel, "generate_stream"]
    : [profile.tritonModel, "generate"];
  return {
    path: `/v2/models/${model}/${endpoint}`,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(requestFields(profile, request, checkedPictures(profile, request))),
  };
}

/** One answer, or one event of a stream. */
export interface GenerateOutput {
  /** As the model gives it: see `promptEcho` and `streamedText` of the profile. */
  readonly text: string;
  /** Absent when the model does not count. */
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  /** Absent when the model does not report it. */
  readonly finishReason?: "stop" | "length";
}

/**
 * Reads the JSON of a `/generate` answer, or of one event of `/generate_stream`: errors come as events too, after the first
 * with status 200.
 * @throws AnswerError with Triton's words when it is an error. @throws TypeError when it holds no text.
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
    ...(promptTokens !== undefined && { promptTokens }),
    ...(completionTokens !== undefined && { completionTokens }),
    ...((reason === "stop" || reason === "length") && { finishReason: reason }),
  };
}

/** Triton writes a tensor of one element as a bare value and of several (beams) as a list. */
function single(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : value;
}

function count(value: unknown): number | undefined {
  const number = single(value);
  return typeof number === "number" && Number.isInteger(number) && number >= 0 ? number : undefined;
}
