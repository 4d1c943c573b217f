/** Sends a prepared request, shows the answer as it comes, and measures it. */

import { AnswerError } from "@engine-room/triton-requests";
import { createParser } from "eventsource-parser";
import { UserError } from "../errors.ts";
import type { AnswerPart, PreparedRequest } from "./prepared-request.ts";

export interface AnswerFigures {
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  /** The server did not count: events of the stream stand for tokens. */
  readonly isEstimate: boolean;
  /** From sending the request to the first text; null without a stream. */
  readonly firstTextSeconds: number | null;
  readonly totalSeconds: number;
  readonly finishReason: string | null;
}

interface SendOptions {
  readonly apiKey: string | undefined;
  /** Takes the answer's text as it comes. */
  readonly write: (text: string) => void;
  /** What helps where nobody answers at the address. */
  readonly whenUnreachable: string;
}

/** The slowest answer that anybody waits for: a thousand tokens on a busy CPU. */
const TIMEOUT_MILLISECONDS = 600_000;

/** Far above any text; a server that sends without end is cut off. */
const LARGEST_ANSWER_BYTES = 64 * 2 ** 20;

/** @throws UserError where nobody answers, or the answer is an error. */
export async function send(request: PreparedRequest, options: SendOptions): Promise<AnswerFigures> {
  const started = performance.now();
  const secondsSince = () => (performance.now() - started) / 1000;
  const response = await post(request, options);
  const text = new AnswerText(request);
  let events = 0;
  let firstTextSeconds: number | null = null;
  let last: AnswerPart = { text: "" };
  const show = (fresh: string) => {
    if (fresh === "") return;
    firstTextSeconds ??= secondsSince();
    options.write(fresh);
  };
  try {
    for await (const json of answers(request, response)) {
      const part = readPart(request, json);
      if (part.text !== "") events += 1;
      last = merged(last, part);
      show(text.push(part.text));
    }
  } catch (error) {
    throw failure(error, request.url, options.whenUnreachable);
  }
  show(text.end());
  const counted = last.completionTokens;
  return {
    promptTokens: last.promptTokens ?? null,
    // TensorRT-LLM counts the tokens of each event of a stream, other models those so far.
    completionTokens:
      counted === undefined
        ? request.stream
          ? events
          : null
        : Math.max(counted, request.stream ? events : 0),
    isEstimate: counted === undefined,
    firstTextSeconds: request.stream ? firstTextSeconds : null,
    totalSeconds: secondsSince(),
    finishReason: last.finishReason ?? null,
  };
}

/** `24 tokens for a prompt of 12 in 1.32 s: the first after 0.21 s, then 20.7 tokens a second`. */
export function figuresLine(figures: AnswerFigures): string {
  const { promptTokens, completionTokens, isEstimate, firstTextSeconds, totalSeconds, finishReason } =
    figures;
  const tokens =
    completionTokens === null
      ? "an answer of uncounted tokens"
      : `${isEstimate ? "about " : ""}${completionTokens} ${completionTokens === 1 ? "token" : "tokens"}`;
  const prompt = promptTokens === null ? "" : ` for a prompt of ${promptTokens}`;
  const first = firstTextSeconds === null ? [] : [`the first after ${firstTextSeconds.toFixed(2)} s`];
  const speed = tokensPerSecond(figures);
  const then = firstTextSeconds === null ? "" : "then ";
  const rate = speed === null ? [] : [`${then}${speed.toFixed(1)} tokens a second`];
  const times = [...first, ...rate].join(", ");
  const reason = finishReason === "length" ? "; it ended at --max-tokens" : "";
  return `${tokens}${prompt} in ${totalSeconds.toFixed(2)} s${times === "" ? "" : `: ${times}`}${reason}`;
}

/** Of a stream after its first token; else over the whole time, reading the prompt included. null where nothing can be said. */
export function tokensPerSecond({
  completionTokens,
  firstTextSeconds,
  totalSeconds,
}: Pick<AnswerFigures, "completionTokens" | "firstTextSeconds" | "totalSeconds">): number | null {
  if (completionTokens === null) return null;
  const [tokens, seconds] =
    firstTextSeconds === null
      ? [completionTokens, totalSeconds]
      : [completionTokens - 1, totalSeconds - firstTextSeconds];
  return tokens > 0 && seconds > 0 ? tokens / seconds : null;
}

async function post(
  { url, headers, body, needsKey }: PreparedRequest,
  { apiKey, whenUnreachable }: SendOptions,
): Promise<Response> {
  const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  const authorization = needsKey && apiKey !== undefined ? { authorization: `Bearer ${apiKey}` } : {};
  let response: Response;
  try {
    response = await fetch(url, { method: "POST", headers: { ...headers, ...authorization }, body, signal });
  } catch (error) {
    throw failure(error, url, whenUnreachable);
  }
  if (response.ok) return response;
  const text = (await response.text()).slice(0, 2000);
  if (response.status === 401) {
    throw new UserError("The gateway asks for a key; put it into ENGINE_ROOM_API_KEY.");
  }
  throw new UserError(`${url} answered ${response.status}: ${wordsOf(text)}`);
}

/** JSON of the whole answer, or of each event. */
async function* answers({ stream }: PreparedRequest, response: Response): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let whole = "";
  let events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > LARGEST_ANSWER_BYTES) {
      throw new UserError(`The answer is larger than ${LARGEST_ANSWER_BYTES / 2 ** 20} MiB; it was cut off.`);
    }
    const text = decoder.decode(chunk, { stream: true });
    if (!stream) {
      whole += text;
      continue;
    }
    parser.feed(text);
    const ready = events;
    events = [];
    for (const data of ready) if (data !== "[DONE]") yield JSON.parse(data);
  }
  if (!stream) yield JSON.parse(whole);
}

function readPart(request: PreparedRequest, json: unknown): AnswerPart {
  try {
    return request.read(json);
  } catch (error) {
    if (error instanceof AnswerError)
      throw new UserError(`The model answered with an error: ${error.message}`);
    if (error instanceof TypeError) throw new UserError(`${request.url}: ${error.message}.`);
    throw error;
  }
}

/** What a later event does not say again stays. */
function merged(before: AnswerPart, part: AnswerPart): AnswerPart {
  return {
    text: part.text,
    promptTokens: part.promptTokens ?? before.promptTokens,
    completionTokens: part.completionTokens ?? before.completionTokens,
    finishReason: part.finishReason ?? before.finishReason,
  };
}

function failure(error: unknown, url: string, whenUnreachable: string): Error {
  if (error instanceof UserError) return error;
  if (error instanceof SyntaxError)
    return new UserError(`${url} did not answer with JSON: ${error.message}.`);
  const { name, message, cause } = error as Error;
  if (name === "TimeoutError") {
    return new UserError(
      `No whole answer from ${url} within ${TIMEOUT_MILLISECONDS / 60_000} minutes; ask for fewer tokens.`,
    );
  }
  const why = cause instanceof Error && cause.message !== "" ? cause.message : message;
  return new UserError(`No answer from ${url} (${why}). ${whenUnreachable}`);
}

/** The sentence of Triton's or the gateway's error, or the text as it is. */
function wordsOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: string | { message?: string } };
    return (typeof error === "object" ? error.message : error) ?? text;
  } catch {
    return text;
  }
}

/** Turns the events' texts into new text, without the prompt where the model repeats it. */
export class AnswerText {
  readonly #streamedText: PreparedRequest["streamedText"];
  readonly #echo: string;
  #all = "";
  #shown = "";

  constructor({ streamedText, echo }: Pick<PreparedRequest, "streamedText" | "echo">) {
    this.#streamedText = streamedText;
    this.#echo = echo;
  }

  /** @returns What is new to show; empty while it may still be the prompt, or half a character. */
  push(text: string): string {
    this.#all = this.#streamedText === "cumulative" ? text : this.#all + text;
    const isPartOfEcho = this.#all.length < this.#echo.length && this.#echo.startsWith(this.#all);
    // A character whose bytes are not all there yet comes as U+FFFD, and right with a later event.
    return isPartOfEcho ? "" : this.#advance(this.#withoutEcho().replace(/\uFFFD+$/, ""));
  }

  /** @returns What was held back. */
  end(): string {
    return this.#advance(this.#withoutEcho());
  }

  #withoutEcho(): string {
    return this.#all.startsWith(this.#echo) ? this.#all.slice(this.#echo.length) : this.#all;
  }

  #advance(text: string): string {
    if (!text.startsWith(this.#shown)) return "";
    const fresh = text.slice(this.#shown.length);
    this.#shown = text;
    return fresh;
  }
}
