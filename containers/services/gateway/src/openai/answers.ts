/** Answers of the OpenAI API: whole ones, chunks of streams, and their usage. */
import { randomUUID } from "node:crypto";
import type { z } from "zod";
import type { TokenCount } from "../text/token-count.ts";
import type { Answer, Ending } from "../triton/generate.ts";
import type { chatCompletionResponse, completionResponse, usage } from "./schemas.ts";

export type Usage = z.infer<typeof usage>;
type ChatCompletion = z.infer<typeof chatCompletionResponse>;
type Completion = z.infer<typeof completionResponse>;

/** What every chunk of one answer has in common. */
export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

/** A fresh id, and the time in whole seconds. */
export function answerHead(prefix: "chatcmpl" | "cmpl", model: string): AnswerHead {
  return {
    id: `${prefix}-${randomUUID().replaceAll("-", "")}`,
    created: Math.floor(Date.now() / 1000),
    model,
  };
}

/** Usage over all answers of a request. */
export function usageOf(endings: readonly Pick<Ending, "promptTokens" | "completionTokens">[]): Usage {
  const prompt = sum(endings.map(({ promptTokens }) => promptTokens));
  const completion = sum(endings.map(({ completionTokens }) => completionTokens));
  return {
    prompt_tokens: prompt.count,
    completion_tokens: completion.count,
    total_tokens: prompt.count + completion.count,
    ...(prompt.isEstimate || completion.isEstimate ? { estimated: true as const } : {}),
  };
}

/** Usage of embeddings, which have no completion. */
export function promptUsage({ count, isEstimate }: TokenCount): Usage {
  return { prompt_tokens: count, total_tokens: count, ...(isEstimate ? { estimated: true as const } : {}) };
}

function sum(counts: readonly TokenCount[]): TokenCount {
  return {
    count: counts.reduce((total, { count }) => total + count, 0),
    isEstimate: counts.some(({ isEstimate }) => isEstimate),
  };
}

export function chatCompletion(head: AnswerHead, answer: Answer): ChatCompletion {
  return {
    ...head,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: answer.text, refusal: null },
        logprobs: null,
        finish_reason: answer.finishReason,
      },
    ],
    usage: usageOf([answer]),
  };
}

export function completion(head: AnswerHead, answers: readonly Answer[]): Completion {
  return {
    ...head,
    object: "text_completion",
    choices: answers.map(({ text, finishReason }, index) => ({
      index,
      text,
      logprobs: null,
      finish_reason: finishReason,
    })),
    usage: usageOf(answers),
  };
}

/** How the pieces of a stream are written: one row for each of the two endpoints. */
export interface ChunkFormat {
  /** Before the first text of a choice; undefined where there is nothing to say. */
  start(index: number): object | undefined;
  text(index: number, text: string): object;
  end(index: number, finishReason: Ending["finishReason"]): object;
}

export const CHAT_CHUNKS: ChunkFormat & { readonly object: string } = {
  object: "chat.completion.chunk",
  start: (index) => ({
    index,
    delta: { role: "assistant", content: "", refusal: null },
    logprobs: null,
    finish_reason: null,
  }),
  text: (index, content) => ({ index, delta: { content }, logprobs: null, finish_reason: null }),
  end: (index, finishReason) => ({ index, delta: {}, logprobs: null, finish_reason: finishReason }),
};

export const COMPLETION_CHUNKS: ChunkFormat & { readonly object: string } = {
  object: "text_completion",
  start: () => undefined,
  text: (index, text) => ({ index, text, logprobs: null, finish_reason: null }),
  end: (index, finishReason) => ({ index, text: "", logprobs: null, finish_reason: finishReason }),
};
