/** Text generation through Triton's generate extension, with TensorRT-LLM's names for inputs and outputs. */
import { randomInt } from "node:crypto";
import type { Dispatcher } from "undici";
import type { ModelConfig } from "../config.ts";
import { CumulativeFilter, EchoFilter, StopFilter, type TextFilter } from "../text/filters.ts";
import { estimateTokens, type TokenCount } from "../text/token-count.ts";
import type { TritonClient } from "./client.ts";
import { FLAVOURS, type Flavour } from "./flavours.ts";
import { serverSentData } from "./sse.ts";

/** What to generate; every number is checked against the model's limits before. */
export interface GenerateRequest {
  readonly prompt: string;
  readonly maxTokens: number;
  /** 0 for the most probable token each time. */
  readonly temperature: number;
  readonly topP: number;
  /** 0 for no limit. */
  readonly topK: number;
  /** Absent for a different answer each time. */
  readonly seed: number | undefined;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  /** The request's own; the model's are added. */
  readonly stopWords: readonly string[];
}

/** How an answer ended and what it cost. */
export interface Ending {
  readonly finishReason: "stop" | "length";
  readonly promptTokens: TokenCount;
  readonly completionTokens: TokenCount;
}

export interface Answer extends Ending {
  readonly text: string;
}

/** Fields of a Triton answer that matter here. */
interface Output {
  readonly text: string;
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
}

/** One language model. */
export class TextModel {
  readonly #config: ModelConfig;
  readonly #flavour: Flavour;
  readonly #triton: TritonClient;

  constructor(config: ModelConfig, triton: TritonClient) {
    this.#config = config;
    this.#flavour = FLAVOURS[config.flavour];
    this.#triton = triton;
  }

  /** The whole answer at once. */
  async complete(request: GenerateRequest, signal: AbortSignal): Promise<Answer> {
    const response = await this.#post("generate", request, signal);
    let output: Output;
    try {
      output = readOutput(await response.body.json());
    } catch (error) {
      throw this.#triton.failure(error, signal);
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
  async stream(request: GenerateRequest, signal: AbortSignal): Promise<AsyncGenerator<string, Ending, void>> {
    const response = await this.#post("generate_stream", request, signal);
    return this.#pieces(response, request, signal);
  }

  async *#pieces(
    response: Dispatcher.ResponseData,
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<string, Ending, void> {
    const stop = this.#stopFilter(request);
    const cumulative = this.#flavour.streamedText === "cumulative" ? [new CumulativeFilter()] : [];
    const filters = [...cumulative, ...this.#echoFilters(request), stop];
    let last: Output = { text: "", promptTokens: undefined, completionTokens: undefined };
    let responses = 0;
    try {
      for await (const data of serverSentData(response.body)) {
        const parsed: unknown = JSON.parse(data);
        const message = streamedErrorMessage(parsed);
        if (message !== undefined) throw this.#triton.streamedError(message);
        last = readOutput(parsed);
        responses += 1;
        const piece = filters.reduce((text, filter) => filter.push(text), last.text);
        if (piece !== "") yield piece;
        if (stop.isStopped) break;
      }
    } catch (error) {
      throw this.#triton.failure(error, signal);
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

  #post(
    endpoint: "generate" | "generate_stream",
    request: GenerateRequest,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    return this.#triton.post({
      path: `/v2/models/${this.#config.tritonModel}/${endpoint}`,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(this.#tritonRequest(request, endpoint === "generate_stream")),
      signal,
      // A second run would hold a place on the GPU for as long as the first.
      isIdempotent: false,
    });
  }

  /** Inputs by TensorRT-LLM's names. A name that is no input of the model reaches it as a parameter, which TensorRT-LLM ignores. */
  #tritonRequest(request: GenerateRequest, stream: boolean): Record<string, unknown> {
    const { endId, padId } = this.#config;
    const stopWords = this.#stopWords(request);
    return {
      text_input: request.prompt,
      max_tokens: request.maxTokens,
      // The empty text means "none"; releases before 24.01 require both tensors.
      bad_words: "",
      stop_words: stopWords.length === 0 ? "" : stopWords,
      ...(endId === undefined ? {} : { end_id: endId }),
      ...(padId === undefined ? {} : { pad_id: padId }),
      ...sampling(request, this.#flavour.seedField),
      return_num_input_tokens: true,
      return_num_output_tokens: true,
      stream,
    };
  }

  #stopWords(request: GenerateRequest): readonly string[] {
    return [...new Set([...this.#config.stopWords, ...request.stopWords])];
  }

  #stopFilter(request: GenerateRequest): StopFilter {
    return new StopFilter(this.#stopWords(request));
  }

  #echoFilters(request: GenerateRequest): TextFilter[] {
    return this.#flavour.promptEcho === "repeated" ? [new EchoFilter(request.prompt)] : [];
  }

  #ending(
    request: GenerateRequest,
    output: Output,
    completion: number | TokenCount,
    isStopped: boolean,
  ): Ending {
    const completionTokens =
      typeof completion === "number" ? { count: completion, isEstimate: false } : completion;
    return {
      // TensorRT-LLM does not say why it ended: all tokens used means that it had to.
      finishReason: !isStopped && completionTokens.count >= request.maxTokens ? "length" : "stop",
      promptTokens:
        output.promptTokens === undefined
          ? estimateTokens([request.prompt])
          : { count: output.promptTokens, isEstimate: false },
      completionTokens,
    };
  }
}

/** Sampling inputs. Temperature 0 is no number to divide by: the most probable token is top_k 1. */
export function sampling(request: GenerateRequest, seedField: Flavour["seedField"]): Record<string, number> {
  const penalties = {
    ...(request.frequencyPenalty === 0 ? {} : { frequency_penalty: request.frequencyPenalty }),
    ...(request.presencePenalty === 0 ? {} : { presence_penalty: request.presencePenalty }),
  };
  if (request.temperature === 0) return { top_k: 1, ...penalties };
  return {
    temperature: request.temperature,
    top_p: request.topP,
    top_k: request.topK,
    // TensorRT-LLM's own default is a fixed seed, with which every answer to a prompt would be the same.
    [seedField]: request.seed ?? randomInt(2 ** 32),
    ...penalties,
  };
}

/** Reads one answer, or one response of a stream. @throws TypeError when it holds no text. */
export function readOutput(value: unknown): Output {
  const fields = value as Readonly<Record<string, unknown>> | null;
  const text = single(fields?.text_output);
  if (typeof text !== "string") throw new TypeError("Triton's answer has no text_output");
  return {
    text,
    promptTokens: tokenNumber(fields?.num_input_tokens),
    completionTokens: tokenNumber(fields?.num_output_tokens),
  };
}

function streamedErrorMessage(value: unknown): string | undefined {
  const error = (value as { readonly error?: unknown } | null)?.error;
  return error === undefined ? undefined : String(error);
}

/** Triton writes a tensor of one element as a bare value and of several as a list. */
function single(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : value;
}

function tokenNumber(value: unknown): number | undefined {
  const count = single(value);
  return typeof count === "number" && Number.isInteger(count) && count >= 0 ? count : undefined;
}

function applyAll(filters: readonly TextFilter[], text: string): string {
  return filters.reduce((piece, filter) => filter.push(piece), text) + flushAll(filters);
}

/** What the filters hold back at the end; what an earlier one lets go still passes the later ones. */
function flushAll(filters: readonly TextFilter[]): string {
  return filters.reduce((text, filter) => filter.push(text) + filter.flush(), "");
}
