/** Answers of the OpenAI API: whole ones, streams of one prompt or several at once, and their usage. */
import { randomUUID } from "node:crypto";
import type { z } from "zod";
import { type ApiError, toOpenAiBody } from "../errors.ts";
import type { Answer, AnswerStream, Ending } from "../triton/generate.ts";
import type { usage } from "./schemas.ts";

export type Usage = z.infer<typeof usage>;

/** How an endpoint writes its answers; each part belongs to one choice. */
export interface AnswerFormat<Type extends string = string, Choice extends object = object> {
  readonly idPrefix: string;
  /** `object` of a whole answer. */
  readonly type: Type;
  /** `object` of each chunk of a stream. */
  readonly chunkType: string;
  readonly whole: (text: string) => Choice;
  /** Opens a choice of a stream; undefined for an endpoint without an opening chunk. */
  readonly first: object | undefined;
  readonly piece: (text: string) => object;
  readonly last: object;
}

export const CHAT_FORMAT = {
  idPrefix: "chatcmpl",
  type: "chat.completion",
  chunkType: "chat.completion.chunk",
  whole: (content: string) => ({ message: { role: "assistant" as const, content, refusal: null } }),
  first: { delta: { role: "assistant", content: "", refusal: null } },
  piece: (content: string) => ({ delta: { content } }),
  last: { delta: {} },
} as const;

export const COMPLETION_FORMAT = {
  idPrefix: "cmpl",
  type: "text_completion",
  chunkType: "text_completion",
  whole: (text: string) => ({ text }),
  first: undefined,
  piece: (text: string) => ({ text }),
  last: { text: "" },
} as const;

/** Common fields of an answer's chunks: a fresh id, the time in whole seconds, and the model. */
export function answerHead({ idPrefix }: AnswerFormat, model: string) {
  const id = `${idPrefix}-${randomUUID().replaceAll("-", "")}`;
  return { id, created: Math.floor(Date.now() / 1000), model };
}
export type AnswerHead = ReturnType<typeof answerHead>;

/** A whole answer with one choice a prompt. */
export function wholeAnswer<Type extends string, Choice extends object>(
  format: AnswerFormat<Type, Choice>,
  head: AnswerHead,
  answers: readonly Answer[],
) {
  return {
    ...head,
    object: format.type,
    choices: answers.map(({ text, finishReason }, index) => ({
      index,
      ...format.whole(text),
      logprobs: null,
      finish_reason: finishReason,
    })),
    usage: usageOf(answers),
  };
}

/** Usage over all answers of a request. */
export function usageOf(endings: readonly Omit<Ending, "finishReason">[]): Usage {
  const prompt = endings.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
  const completion = endings.reduce((sum, { completionTokens }) => sum + completionTokens, 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...(endings.some(({ isEstimate }) => isEstimate) && { estimated: true as const }),
  };
}

interface EventStreamOptions {
  readonly head: AnswerHead;
  readonly format: AnswerFormat;
  /** Whether a last chunk with usage follows, and every other chunk has `usage: null`. */
  readonly includeUsage: boolean;
  /** Called once, when all answers have ended. */
  readonly onUsage: (usage: Usage) => void;
  /** Translates a failure in the middle of the stream for the client. */
  readonly toApiError: (error: unknown) => ApiError;
}

/**
 * Text of a `text/event-stream`: the chunks of one answer after the other, though all are made at the same time, then `[DONE]`.
 * A failure after the first of them becomes an error event, which OpenAI clients throw.
 * @throws Error for a failure before.
 */
export async function* eventStream(
  answers: readonly AnswerStream[],
  { head, format, includeUsage, onUsage, toApiError }: EventStreamOptions,
): AsyncGenerator<string, void, void> {
  const chunk = (choices: readonly object[], usage: Usage | null) =>
    serverSentEvent({ ...head, object: format.chunkType, choices, ...(includeUsage && { usage }) });
  const choice = (index: number, part: object, finishReason: Ending["finishReason"] | null = null) =>
    chunk([{ index, ...part, logprobs: null, finish_reason: finishReason }], null);
  const endings: Ending[] = [];
  let hasBegun = false;
  try {
    for (const [index, answer] of answers.entries()) {
      let next = await answer.next();
      hasBegun = true;
      // The opening chunk shares a write with the next chunk, which saves a packet.
      let opening = format.first === undefined ? "" : choice(index, format.first);
      for (; !next.done; next = await answer.next()) {
        yield opening + choice(index, format.piece(next.value));
        opening = "";
      }
      endings.push(next.value);
      yield opening + choice(index, format.last, next.value.finishReason);
    }
  } catch (error) {
    if (!hasBegun) throw error;
    yield serverSentEvent(toOpenAiBody(toApiError(error)));
    return;
  }
  const usage = usageOf(endings);
  onUsage(usage);
  yield `${includeUsage ? chunk([], usage) : ""}data: [DONE]\n\n`;
}

function serverSentEvent(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
