/** Sends a prepared request, shows the answer as it comes, and measures it. */

import { AnswerError } from "@engine-room/triton-requests";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { counted } from "../../infra/problems.ts";
import { errorWords, UserError } from "../errors.ts";
import { assertSuccess, fetchWithin, gatewayHeaders } from "../http.ts";
import type { AnswerPart, PreparedRequest } from "./prepared-request.ts";

export interface AnswerFigures {
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  /** The server did not count tokens: events of the stream are counted. */
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
  /** Takes the JSON of the answer, or of each event of a stream. */
  readonly onJson?: (json: unknown) => void;
  /** Advice for an address that does not answer. */
  readonly whenUnreachable: string;
}

/** Time for the slowest accepted answer: a thousand tokens on a busy CPU. */
const TIMEOUT_MILLISECONDS = 600_000;

/** @throws UserError if the address does not answer, or the answer is an error. */
export async function send(request: PreparedRequest, options: SendOptions): Promise<AnswerFigures> {
  const started = performance.now();
  const secondsSince = () => (performance.now() - started) / 1000;
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
    for await (const json of answers(request, options.apiKey)) {
      options.onJson?.(json);
      const part = request.read(json);
      if (part.text !== "") events += 1;
      // An earlier count or reason remains when a later event lacks it.
      last = {
        text: part.text,
        promptTokens: part.promptTokens ?? last.promptTokens,
        completionTokens: part.completionTokens ?? last.completionTokens,
        finishReason: part.finishReason ?? last.finishReason,
      };
      show(text.push(part.text));
    }
  } catch (error) {
    throw failure(error as Error, request.url, options.whenUnreachable);
  }
  show(text.end());
  const byServer = last.completionTokens;
  const streamed = request.stream ? events : null;
  return {
    promptTokens: last.promptTokens ?? null,
    // TensorRT-LLM counts the tokens of each event of a stream, other models the tokens so far.
    completionTokens: byServer === undefined ? streamed : Math.max(byServer, streamed ?? 0),
    isEstimate: byServer === undefined,
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
      : `${isEstimate ? "about " : ""}${counted(completionTokens, "token")}`;
  const prompt = promptTokens === null ? "" : ` for a prompt of ${promptTokens}`;
  const first = firstTextSeconds === null ? [] : [`the first after ${firstTextSeconds.toFixed(2)} s`];
  // The rate of a stream after its first token; otherwise over the whole time, reading the prompt included.
  const [then, generated, seconds] =
    firstTextSeconds === null
      ? ["", completionTokens ?? 0, totalSeconds]
      : ["then ", (completionTokens ?? 0) - 1, totalSeconds - firstTextSeconds];
  const rate =
    generated > 0 && seconds > 0 ? [`${then}${(generated / seconds).toFixed(1)} tokens a second`] : [];
  const times = [...first, ...rate].join(", ");
  const reason = finishReason === "length" ? "; it ended at --max-tokens" : "";
  return `${tokens}${prompt} in ${totalSeconds.toFixed(2)} s${times === "" ? "" : `: ${times}`}${reason}`;
}

/** JSON of the whole answer, or of each event. */
async function* answers(
  { url, headers, body, needsKey, stream }: PreparedRequest,
  apiKey: string | undefined,
): AsyncGenerator<unknown> {
  const key = needsKey ? gatewayHeaders(apiKey) : {};
  const init = { method: "POST", headers: { ...headers, ...key }, body };
  const response = await fetchWithin(url, init, TIMEOUT_MILLISECONDS);
  await assertSuccess(response);
  if (!stream) {
    yield await response.json();
    return;
  }
  const events = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events ?? []) if (data !== "[DONE]") yield JSON.parse(data);
}

function failure(error: Error, url: string, whenUnreachable: string): Error {
  if (error instanceof UserError) return error;
  if (error instanceof AnswerError)
    return new UserError(`The model answered with an error: ${error.message}`);
  if (error instanceof TypeError && error.cause === undefined)
    return new UserError(`${url}: ${error.message}.`);
  if (error instanceof SyntaxError)
    return new UserError(`${url} did not answer with JSON: ${error.message}.`);
  if (error.name === "TimeoutError")
    return new UserError(
      `No whole answer from ${url} within ${TIMEOUT_MILLISECONDS / 60_000} minutes; ask for fewer tokens.`,
    );
  return new UserError(`No answer from ${url} (${errorWords(error)}). ${whenUnreachable}`);
}

/** Turns the events' texts into new text, without the prompt if the model repeats it. */
export class AnswerText {
  readonly #streamedText: PreparedRequest["streamedText"];
  readonly #echo: string;
  #all = "";
  #shown = "";

  constructor({ streamedText, echo }: Pick<PreparedRequest, "streamedText" | "echo">) {
    this.#streamedText = streamedText;
    this.#echo = echo;
  }

  /** @returns New text to show; empty while it may still be the prompt, or half a character. */
  push(text: string): string {
    this.#all = this.#streamedText === "cumulative" ? text : this.#all + text;
    const isPartOfEcho = this.#all.length < this.#echo.length && this.#echo.startsWith(this.#all);
    // An incomplete character arrives as U+FFFD, and complete with a later event.
    return isPartOfEcho ? "" : this.#advance(this.#withoutEcho().replace(/\uFFFD+$/, ""));
  }

  /** @returns Text that was held back. */
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
