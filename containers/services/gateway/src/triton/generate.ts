/** Text generation through Triton's generate extension. */
import {
  AnswerError,
  buildGenerateRequest,
  type GenerateOutput,
  type GenerationRequest,
  parseGenerateResponse,
  parseStreamEvent,
  RequestError,
  takesStopWords,
} from "@engine-room/triton-requests";
import type { Dispatcher } from "undici";
import type { CallContext } from "../call-context.ts";
import type { ModelConfig } from "../config.ts";
import { invalidRequest } from "../errors.ts";
import { CumulativeFilter, EchoFilter, StopFilter, type TextFilter } from "../text/filters.ts";
import { estimateTokens, type TokenCount } from "../text/token-count.ts";
import type { TritonClient } from "./client.ts";
import { serverSentData } from "./sse.ts";

/** What to generate; every number is checked against the model's limits before. Stop words are the request's own. */
export type GenerateRequest = Omit<GenerationRequest, "id" | "stream" | "countTokens">;

/** How an answer ended and what it cost. */
export interface Ending {
  readonly finishReason: "stop" | "length";
  readonly promptTokens: TokenCount;
  readonly completionTokens: TokenCount;
}

export interface Answer extends Ending {
  readonly text: string;
}

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
    const response = await this.#post(request, false, call);
    let output: GenerateOutput;
    try {
      output = parseGenerateResponse(this.#config.profile, await response.body.json());
    } catch (error) {
      throw this.#failure(error, call.signal);
    }
    const stop = this.#stopFilter(request);
    const text = applyAll([...this.#echoFilters(request), stop], output.text);
    return {
      text,
      ...this.#ending(
        request,
        output,
        output.completionTokens ?? estimateTokens([output.text]),
        stop.isStopped,
      ),
    };
  }

  /**
   * The answer as it is made: pieces of text, none of them empty, and the ending as the generator's return value.
   * Leaving the generator early ends the work in Triton.
   * @returns Once Triton has begun to answer, so that a refusal still is an HTTP status.
   */
  async stream(request: GenerateRequest, call: CallContext): Promise<AsyncGenerator<string, Ending, void>> {
    const response = await this.#post(request, true, call);
    return this.#pieces(response, request, call.signal);
  }

  async *#pieces(
    response: Dispatcher.ResponseData,
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<string, Ending, void> {
    const stop = this.#stopFilter(request);
    const { profile } = this.#config;
    const cumulative = profile.streamedText === "cumulative" ? [new CumulativeFilter()] : [];
    const filters = [...cumulative, ...this.#echoFilters(request), stop];
    let last: GenerateOutput = { text: "" };
    let responses = 0;
    try {
      for await (const data of serverSentData(response.body)) {
        last = parseStreamEvent(profile, JSON.parse(data));
        responses += 1;
        const piece = filters.reduce((text, filter) => filter.push(text), last.text);
        if (piece !== "") yield piece;
        if (stop.isStopped) break;
      }
    } catch (error) {
      throw this.#failure(error, signal);
    }
    const rest = flushAll(filters);
    if (rest !== "") yield rest;
    // TensorRT-LLM sends one response a token, so their number is a fair estimate.
    return this.#ending(
      request,
      last,
      last.completionTokens ?? { count: responses, isEstimate: true },
      stop.isStopped,
    );
  }

  async #post(
    request: GenerateRequest,
    stream: boolean,
    call: CallContext,
  ): Promise<Dispatcher.ResponseData> {
    return this.#triton.post({
      ...this.#tritonRequest(request, stream),
      ...call,
      // A second run would hold a place on the GPU for as long as the first.
      isIdempotent: false,
    });
  }

  #tritonRequest(request: GenerateRequest, stream: boolean) {
    const { profile } = this.#config;
    const stopWords = takesStopWords(profile) ? this.#stopWords(request) : [];
    try {
      return buildGenerateRequest(profile, { ...request, stopWords, stream, countTokens: true });
    } catch (error) {
      throw requestFailure(error);
    }
  }

  #failure(error: unknown, signal: AbortSignal): Error {
    const known = error instanceof AnswerError ? this.#triton.streamedError(error.message) : error;
    return this.#triton.failure(known, signal);
  }

  #stopWords(request: GenerateRequest): readonly string[] {
    return [...new Set([...this.#config.stopWords, ...(request.stopWords ?? [])])];
  }

  #stopFilter(request: GenerateRequest): StopFilter {
    return new StopFilter(this.#stopWords(request));
  }

  #echoFilters(request: GenerateRequest): TextFilter[] {
    return this.#config.profile.promptEcho === "repeated" ? [new EchoFilter(request.text)] : [];
  }

  #ending(
    request: GenerateRequest,
    output: GenerateOutput,
    completion: number | TokenCount,
    isStopped: boolean,
  ): Ending {
    const completionTokens =
      typeof completion === "number" ? { count: completion, isEstimate: false } : completion;
    return {
      finishReason: isStopped ? "stop" : (output.finishReason ?? likelyReason(request, completionTokens)),
      promptTokens:
        output.promptTokens === undefined
          ? estimateTokens([request.text])
          : { count: output.promptTokens, isEstimate: false },
      completionTokens,
    };
  }
}

/** Most models do not say why they ended: all tokens used means that they had to. */
function likelyReason({ maxTokens }: GenerateRequest, { count }: TokenCount): Ending["finishReason"] {
  return count >= maxTokens ? "length" : "stop";
}

/** Parameters of the OpenAI API by the fields of a request; what has no row is no parameter of its own there. */
const PARAMS: Readonly<Record<string, string>> = {
  maxTokens: "max_tokens",
  topP: "top_p",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
};

/** What this model can't take, as a 400; anything else as it is. */
function requestFailure(error: unknown): unknown {
  return error instanceof RequestError
    ? invalidRequest(error.message, PARAMS[error.field], error.code)
    : error;
}

function applyAll(filters: readonly TextFilter[], text: string): string {
  return filters.reduce((piece, filter) => filter.push(piece), text) + flushAll(filters);
}

/** What the filters hold back at the end; what an earlier one lets go still passes the later ones. */
function flushAll(filters: readonly TextFilter[]): string {
  return filters.reduce((text, filter) => filter.push(text) + filter.flush(), "");
}
