/** A question as an HTTP request, and the parser of its answer. */
import {
  AnswerError,
  buildGenerateRequest,
  parseGenerateResponse,
  type RequestProfile,
  wrapQuestion,
} from "@engine-room/triton-requests";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import { GREEDY, imageUrl, type Question } from "./question.ts";

/** Parts of a whole answer, or of an event of a stream. */
export interface AnswerPart {
  readonly text: string;
  readonly promptTokens?: number | undefined;
  readonly completionTokens?: number | undefined;
  readonly finishReason?: string | undefined;
}

export interface PreparedRequest {
  readonly url: string;
  /** Without the key. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
  /** Whether the server asks for the key of ENGINE_ROOM_API_KEY. */
  readonly needsKey: boolean;
  readonly stream: boolean;
  /** Whether an event holds the new text, or all text so far. */
  readonly streamedText: RequestProfile["streamedText"];
  /** Text before the answer, which is left out; may be empty. */
  readonly echo: string;
  /** Keys that lead to the text of a whole answer, and of an event. */
  readonly textPath: readonly (string | number)[];
  /** The same model over gRPC: `host:port`, and the Triton model; null when it has no such endpoint. */
  readonly grpc: { readonly address: string; readonly tritonModel: string } | null;
  /** @throws AnswerError if the JSON is an error. @throws TypeError if it is not an answer. */
  read(json: unknown): AnswerPart;
}

/**
 * The question in the model's own shape.
 *
 * @param server - The model's Triton.
 * @throws RequestError when the model does not accept a part of the question.
 */
export function tritonRequest(
  profile: RequestProfile,
  server: Pick<TritonEndpoints, "http" | "grpc">,
  question: Question,
): PreparedRequest {
  const text = promptOf(profile, question);
  const { path, headers, body } = buildGenerateRequest(profile, {
    text,
    images: question.images.map((image) =>
      image.kind === "url" ? image.url : Buffer.from(image.base64, "base64"),
    ),
    video: question.video?.frames,
    maxTokens: question.maxTokens,
    ...(question.sampling ?? GREEDY),
    stream: question.stream,
    countTokens: true,
  });
  return {
    url: `${server.http}${path}`,
    headers,
    body: String(body),
    needsKey: false,
    stream: question.stream,
    streamedText: profile.streamedText,
    echo: profile.promptEcho === "repeated" ? text : "",
    textPath: [profile.flavour === "llava" ? "text" : "text_output"],
    grpc: {
      address: server.grpc,
      tritonModel: question.stream ? profile.streamingModel : profile.tritonModel,
    },
    read: (json) => parseGenerateResponse(profile, json),
  };
}

/** Puts the text that the model was trained with around a question about images; a text with the marks is a prompt already. */
function promptOf(profile: RequestProfile, { text, images }: Question): string {
  const mark = profile.image?.mark ?? null;
  if (mark !== null && text.includes(mark)) return text;
  return wrapQuestion(profile, text, images.length);
}

/**
 * The question as a chat message to the gateway, which puts the model's template around it.
 *
 * @param gateway - Address without `/v1`.
 */
export function gatewayRequest(gateway: string, question: Question, needsKey: boolean): PreparedRequest {
  const { model, text, images, video, maxTokens, stream, sampling = GREEDY } = question;
  const parts = [
    ...images.map((image) => ({ type: "image_url", image_url: { url: imageUrl(image) } })),
    ...(video === undefined ? [] : [{ type: "video_url", video_url: { url: video.frames } }]),
  ];
  const content = parts.length === 0 ? text : [...parts, { type: "text", text }];
  const body = {
    model,
    messages: [{ role: "user", content }],
    max_tokens: maxTokens,
    temperature: sampling.temperature,
    // JSON leaves out undefined values.
    top_k: sampling.topK,
    top_p: sampling.topP,
    seed: sampling.seed,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
  };
  const textPath = ["choices", 0, stream ? "delta" : "message", "content"];
  return { ...toGateway(`${gateway}/v1/chat/completions`, body, needsKey), stream, textPath };
}

/** Completes a text, for models without chat template; without images. @param gateway - As {@link gatewayRequest}. */
export function gatewayCompletion(gateway: string, question: Question, needsKey: boolean): PreparedRequest {
  const { model, text, maxTokens } = question;
  const body = { model, prompt: text, max_tokens: maxTokens, temperature: 0 };
  return {
    ...toGateway(`${gateway}/v1/completions`, body, needsKey),
    stream: false,
    textPath: ["choices", 0, "text"],
  };
}

function toGateway(url: string, body: object, needsKey: boolean) {
  return {
    url,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    needsKey,
    streamedText: "delta",
    echo: "",
    grpc: null,
    read: readChatAnswer,
  } as const;
}

/** Answer of a chat, or of a completion, which has `text`. */
interface ChatAnswer {
  readonly error?: { readonly message?: string };
  readonly choices?: readonly {
    readonly text?: string;
    readonly message?: { readonly content?: string | null };
    readonly delta?: { readonly content?: string | null };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null;
}

function readChatAnswer(json: unknown): AnswerPart {
  const { error, choices, usage } = json as ChatAnswer;
  if (error !== undefined) throw new AnswerError(error.message ?? "an error without words");
  if (choices === undefined) throw new TypeError("The gateway's answer has no choices");
  const [choice] = choices;
  return {
    text: choice?.message?.content ?? choice?.delta?.content ?? choice?.text ?? "",
    promptTokens: usage?.prompt_tokens,
    completionTokens: usage?.completion_tokens,
    finishReason: choice?.finish_reason ?? undefined,
  };
}
