/** Text generation through Triton's generate extension. */
import {
  buildGenerateRequest,
  checkedPictures,
  type GenerateOutput,
  type GenerationRequest,
  parseGenerateResponse,
  RequestError,
  takesStopWords,
} from "@engine-room/triton-requests";
import { createParser } from "eventsource-parser";
import type { ModelConfig } from "../config.ts";
import { invalidRequest } from "../errors.ts";
import type { CallContext } from "../limits.ts";
import type { TritonClient } from "./client.ts";
import { CumulativeFilter, EchoFilter, estimateTokens, StopFilter } from "./text.ts";

/** A request whose numbers are checked against the model's limits; `stopWords` are only the request's own. */
export type GenerateRequest = Omit<GenerationRequest, "stream" | "countTokens">;

/** Reason of an answer's end, and its tokens. */
export interface Ending {
  readonly finishReason: "stop" | "length";
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Whether the gateway estimated any of them. */
  readonly isEstimate: boolean;
}

export interface Answer extends Ending {
  readonly text: string;
}

/** The stream of an answer: nonempty pieces of text, then its ending. */
export type AnswerStream = AsyncGenerator<string, Ending, void>;

/** Few tokens of any model are longer. */
const LONGEST_TOKEN_BYTES = 16;

/** One language model. */
export class TextModel {
  readonly #config: ModelConfig;
  readonly #triton: TritonClient;

  constructor(config: ModelConfig, triton: TritonClient) {
    this.#config = config;
    this.#triton = triton;
  }

  /** The whole answer at once. */
  async complete(request: GenerateRequest, call: CallContext): Promise<Answer> {
    call.hold?.(request.maxTokens * LONGEST_TOKEN_BYTES);
    const response = await this.#post(request, false, call);
    const reader = answerReader(this.#config, request);
    try {
      const text = reader.push(await response.body.json()) + reader.flush();
      return { text, ...reader.ending(estimateTokens) };
    } catch (error) {
      throw this.#triton.failure(error, call.signal);
    }
  }

  /**
   * The answer as it is made. Leaving the generator early ends the work in Triton.
   * @returns Once Triton has begun to answer, so that a refusal still is an HTTP status.
   */
  async stream(request: GenerateRequest, call: CallContext): Promise<AnswerStream> {
    const { body } = await this.#post(request, true, call);
    return this.#pieces(body, request, call.signal);
  }

  async *#pieces(
    body: AsyncIterable<Uint8Array>,
    request: GenerateRequest,
    signal: AbortSignal,
  ): AnswerStream {
    const reader = answerReader(this.#config, request);
    let events = 0;
    try {
      for await (const data of serverSentData(body)) {
        const piece = reader.push(JSON.parse(data));
        events += 1;
        if (piece !== "") yield piece;
        if (reader.isStopped()) break;
      }
    } catch (error) {
      throw this.#triton.failure(error, signal);
    }
    const rest = reader.flush();
    if (rest !== "") yield rest;
    // TensorRT-LLM sends one response a token, so their number is a fair estimate.
    return reader.ending(() => events);
  }

  #post(request: GenerateRequest, stream: boolean, call: CallContext) {
    const { profile } = this.#config;
    const stopWords = takesStopWords(profile) ? stopWordsOf(this.#config, request) : [];
    try {
      const sent = buildGenerateRequest(profile, { ...request, stopWords, stream, countTokens: true });
      // A second run would hold a place on the GPU for as long as the first.
      return this.#triton.post({ ...sent, ...call, isIdempotent: false });
    } catch (error) {
      throw refusal(error);
    }
  }

  /**
   * Checks whether the model accepts these images, without fetching or decoding them, or the frames of a video.
   * @param images - Data URLs and addresses.
   * @throws ApiError 400.
   */
  checkImages(text: string, images: readonly string[], video?: string): void {
    try {
      checkedPictures(this.#config.profile, { text, images, video });
    } catch (error) {
      throw refusal(error);
    }
  }
}

function refusal(error: unknown): unknown {
  return error instanceof RequestError
    ? invalidRequest(error.message, PARAMS[error.field], error.code)
    : error;
}

/** Parameters of the OpenAI API by the fields of a request; other fields have no parameter of their own. */
const PARAMS: Readonly<Record<string, string>> = {
  maxTokens: "max_tokens",
  topP: "top_p",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
};

function stopWordsOf(config: ModelConfig, { stopWords = [] }: GenerateRequest): readonly string[] {
  return [...new Set([...config.stopWords, ...stopWords])];
}

/** Reads what Triton sends, one whole answer or event by event, as the text that the client gets. */
function answerReader(config: ModelConfig, request: GenerateRequest) {
  const { profile } = config;
  const stop = new StopFilter(stopWordsOf(config, request));
  const filters = [
    ...(profile.streamedText === "cumulative" ? [new CumulativeFilter()] : []),
    ...(profile.promptEcho === "repeated" ? [new EchoFilter(request.text)] : []),
    stop,
  ];
  let last: GenerateOutput = { text: "" };
  return {
    isStopped: () => stop.isStopped,
    /** @throws AnswerError when it is an error of Triton's. */
    push(json: unknown): string {
      last = parseGenerateResponse(profile, json);
      return filters.reduce((text, filter) => filter.push(text), last.text);
    },
    /** Text that the filters still hold at the end; each filter's rest passes the later filters. */
    flush: () =>
      filters.reduce((text, filter) => (text === "" ? "" : filter.push(text)) + filter.flush(), ""),
    /** @param estimate - Tokens of an answer whose model does not count them, by its last text. */
    ending(estimate: (text: string) => number): Ending {
      const { promptTokens, completionTokens = estimate(last.text), finishReason } = last;
      // Most models don't report a finish reason: an answer with all its tokens was most likely cut off.
      const likelyReason = completionTokens >= request.maxTokens ? "length" : "stop";
      return {
        finishReason: stop.isStopped ? "stop" : (finishReason ?? likelyReason),
        promptTokens: promptTokens ?? estimateTokens(request.text),
        completionTokens,
        isEstimate: promptTokens === undefined || last.completionTokens === undefined,
      };
    },
  };
}

/** The data of each server-sent event, whatever chunks the network made of them. */
export async function* serverSentData(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    const ready = events;
    events = [];
    yield* ready;
  }
}
