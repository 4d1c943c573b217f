import { describe, expect, it } from "vitest";
import { ApiError } from "../../../containers/services/gateway/src/errors.ts";
import {
  CHAT_CHUNKS,
  COMPLETION_CHUNKS,
  promptUsage,
  usageOf,
} from "../../../containers/services/gateway/src/openai/answers.ts";
import {
  type AnswerStream,
  eventStream,
  mergeStreams,
  type StreamEvent,
} from "../../../containers/services/gateway/src/openai/stream.ts";
import type { Ending } from "../../../containers/services/gateway/src/triton/generate.ts";

const head = { id: "id-1", created: 1, model: "m" };
const ending: Ending = {
  finishReason: "length",
  promptTokens: { count: 3, isEstimate: false },
  completionTokens: { count: 2, isEstimate: true },
};

async function* answer(...pieces: string[]): AnswerStream {
  yield* pieces;
  return ending;
}

async function* broken(piece: string, error: Error): AnswerStream {
  yield piece;
  throw error;
}

async function lines(
  events: AsyncIterable<StreamEvent>,
  more: { chat?: boolean; includeUsage?: boolean; usages?: unknown[] } = {},
): Promise<unknown[]> {
  let text = "";
  const stream = eventStream(events, {
    head,
    format: more.chat === false ? COMPLETION_CHUNKS : CHAT_CHUNKS,
    includeUsage: more.includeUsage ?? false,
    onUsage: (usage) => more.usages?.push(usage),
    toApiError: (error) => error as ApiError,
  });
  for await (const part of stream) text += part;
  expect(text.endsWith("\n\n")).toBe(true);
  return text
    .trimEnd()
    .split("\n\n")
    .map((line) => line.replace(/^data: /, ""))
    .map((data) => (data === "[DONE]" ? data : JSON.parse(data)));
}

describe("streamed chat", () => {
  it("opens with the role, then text, then the reason of its end, then [DONE]", async () => {
    const chunks = (await lines(mergeStreams([answer("Hel", "lo")]))) as {
      choices: { delta: object; finish_reason: string | null }[];
    }[];
    expect(chunks.at(-1)).toBe("[DONE]");
    expect(chunks.slice(0, -1).map(({ choices }) => choices[0])).toEqual([
      {
        index: 0,
        delta: { role: "assistant", content: "", refusal: null },
        logprobs: null,
        finish_reason: null,
      },
      { index: 0, delta: { content: "Hel" }, logprobs: null, finish_reason: null },
      { index: 0, delta: { content: "lo" }, logprobs: null, finish_reason: null },
      { index: 0, delta: {}, logprobs: null, finish_reason: "length" },
    ]);
    expect(chunks[0]).toMatchObject({ ...head, object: "chat.completion.chunk" });
    expect(chunks[0]).not.toHaveProperty("usage");
  });

  it("carries usage in a last chunk without choices when asked to", async () => {
    const usages: unknown[] = [];
    const chunks = await lines(mergeStreams([answer("a")]), { includeUsage: true, usages });
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, estimated: true };
    expect(chunks.slice(-2)).toEqual([
      { ...head, object: "chat.completion.chunk", choices: [], usage },
      "[DONE]",
    ]);
    expect(chunks[0]).toMatchObject({ usage: null });
    expect(usages).toEqual([usage]);
  });

  it("ends an empty answer properly", async () => {
    const chunks = await lines(mergeStreams([answer()]));
    expect(chunks).toHaveLength(3);
  });

  it("tells of a failure in an error event and does not say [DONE]", async () => {
    const failure = new ApiError("gone", { status: 502, type: "upstream_error", code: "upstream_broken" });
    const chunks = await lines(mergeStreams([broken("a", failure)]));
    expect(chunks.at(-1)).toEqual({
      error: { message: "gone", type: "upstream_error", param: null, code: "upstream_broken" },
    });
  });
});

describe("several completions in one stream", () => {
  it("keep their index and their order", async () => {
    const chunks = (await lines(mergeStreams([answer("a", "b"), answer("c")]), { chat: false })) as {
      choices: { index: number; text: string }[];
    }[];
    const texts = ["", ""];
    for (const { choices } of chunks.slice(0, -1))
      for (const { index, text } of choices) texts[index] += text;
    expect(texts).toEqual(["ab", "c"]);
  });

  it("are all left when the reader leaves", async () => {
    const left: number[] = [];
    const endless = async function* (index: number): AnswerStream {
      try {
        for (;;) yield "x";
      } finally {
        left.push(index);
      }
    };
    for await (const event of mergeStreams([endless(0), endless(1)])) {
      expect(event).toHaveProperty("text");
      break;
    }
    await new Promise(setImmediate);
    expect(left.sort()).toEqual([0, 1]);
  });
});

describe("usage", () => {
  it("adds up, and is marked when any part of it is an estimate", () => {
    const exact = {
      promptTokens: { count: 1, isEstimate: false },
      completionTokens: { count: 1, isEstimate: false },
    };
    expect(usageOf([exact, exact])).toEqual({ prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 });
    expect(usageOf([exact, ending])).toEqual({
      prompt_tokens: 4,
      completion_tokens: 3,
      total_tokens: 7,
      estimated: true,
    });
    expect(promptUsage({ count: 5, isEstimate: false })).toEqual({ prompt_tokens: 5, total_tokens: 5 });
  });
});
