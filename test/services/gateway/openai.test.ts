/** OpenAI's requests and answers as prompts, tensors, texts and streams. */
import { imageProfile, requestProfile } from "@engine-room/triton-requests";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gatewayConfigSchema } from "../../../containers/services/gateway/src/config.ts";
import { ApiError } from "../../../containers/services/gateway/src/errors.ts";
import {
  CHAT_FORMAT,
  COMPLETION_FORMAT,
  eventStream,
  usageOf,
} from "../../../containers/services/gateway/src/openai/answers.ts";
import {
  ChatTemplate,
  chatGeneration,
  completionGenerations,
  defaultMaxTokens,
  readChat,
} from "../../../containers/services/gateway/src/openai/generation.ts";
import {
  chatCompletionRequest,
  completionRequest,
} from "../../../containers/services/gateway/src/openai/schemas.ts";
import {
  type AnswerStream,
  type Ending,
  serverSentData,
} from "../../../containers/services/gateway/src/triton/generate.ts";
import {
  decodeResponse,
  encodeBytesTensor,
  encodeInferRequest,
  fp32Rows,
  fp32Values,
  int32Sum,
  JSON_LENGTH_HEADER,
} from "../../../containers/services/gateway/src/triton/tensors.ts";
import {
  CumulativeFilter,
  EchoFilter,
  estimateTokens,
  StopFilter,
  type TextFilter,
} from "../../../containers/services/gateway/src/triton/text.ts";
import { CHAT, CHATML, configOf } from "./support.ts";

const [model] = gatewayConfigSchema.parse(configOf({ encoders: 1, model: 2 })).models;

if (model === undefined) throw new Error("the test's configuration has a model");

const chat = (more: object = {}) =>
  chatGeneration(chatCompletionRequest.parse({ ...CHAT, ...more }), "prompt", [], model);

test("a chat prompt ends where the assistant's answer begins", () => {
  expect(new ChatTemplate(CHATML).render([{ role: "user", content: "Hi" }])).toBe(
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
  );
});

test("a chat template that writes special tokens leaves them to the model's tokenizer", () => {
  const template = new ChatTemplate("{{ bos_token }}{{ messages[0]['content'] | trim }}{{ eos_token }}");
  expect(template.render([{ role: "user", content: " a " }])).toBe("a");
});

test("a chat template's refusal becomes a 400 about the messages", () => {
  const template = new ChatTemplate("{{ raise_exception('roles must alternate') }}");
  expect(() => template.render([])).toThrow(
    expect.objectContaining({
      message: expect.stringContaining("roles must alternate"),
      details: expect.objectContaining({ status: 400, param: "messages" }),
    }),
  );
});

test("a chat takes text parts, and the role developer as system", () => {
  const { messages } = chatCompletionRequest.parse({
    model: "m",
    messages: [
      { role: "developer", content: "Be brief." },
      {
        role: "user",
        name: "bob",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ],
  });
  expect(readChat(messages, model)).toEqual({
    turns: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "ab", name: "bob" },
    ],
    images: [],
  });
});

test("the answer length is max_tokens or max_completion_tokens", () => {
  expect(chat({ max_tokens: 7 }).maxTokens).toBe(7);
  expect(chat({ max_tokens: 7, max_completion_tokens: 9 }).maxTokens).toBe(9);
});

test("an answer length above the model's limit is refused with both numbers", () => {
  expect(() => chat({ max_completion_tokens: 1025 })).toThrow(
    "max_completion_tokens is 1025, and the maximum output tokens of smollm2 are 1024; ask for 1024 or fewer.",
  );
});

test("the default answer length leaves room for the prompt", () => {
  expect(defaultMaxTokens("", 0, model)).toBe(1024);
  expect(defaultMaxTokens("x".repeat(3000), 0, model)).toBe(2048 - 1500);
  expect(defaultMaxTokens("x".repeat(100_000), 0, model)).toBe(1);
});

test("a completion has 16 tokens by default, and one request a prompt", () => {
  const generations = completionGenerations(
    completionRequest.parse({ model: "m", prompt: ["a", "b"], stop: "." }),
    model,
  );
  expect(generations.map(({ text, maxTokens, stopWords }) => ({ text, maxTokens, stopWords }))).toEqual([
    { text: "a", maxTokens: 16, stopWords: ["."] },
    { text: "b", maxTokens: 16, stopWords: ["."] },
  ]);
});

test("a request to TensorRT-LLM states the API's default of every sampling parameter", () => {
  expect(chat({ seed: 3 })).toMatchObject({ temperature: 1, topP: 1, topK: 0, seed: 3 });
  expect(chat({ seed: 3, temperature: 0.5, top_k: 40, frequency_penalty: 1 })).toMatchObject({
    temperature: 0.5,
    topP: 1,
    topK: 40,
    seed: 3,
    frequencyPenalty: 1,
    presencePenalty: 0,
  });
});

test("each prompt without a seed gets a random one", () => {
  const seeds = new Set(Array.from({ length: 20 }, () => chat().seed));
  expect(seeds.size).toBeGreaterThan(10);
  const prompts = Array.from({ length: 16 }, () => "a");
  const generations = completionGenerations(completionRequest.parse({ model: "m", prompt: prompts }), model);
  expect(new Set(generations.map(({ seed }) => seed)).size).toBeGreaterThan(10);
});

describe("images", () => {
  const URL_1 = "data:image/png;base64,iVBORw0KGgo=";
  const URL_2 = "data:image/webp;base64,UklGRgAAAABXRUJQ";
  const vila = {
    ...model,
    profile: requestProfile("multimodal", {
      image: imageProfile("vila", "multimodal", { maxImages: 4, tokensPerImage: 196 }),
    }),
  };
  const parts = (...content: object[]) =>
    chatCompletionRequest.parse({ model: "m", messages: [{ role: "user", content }] }).messages;
  const image = (url: string) => ({ type: "image_url", image_url: { url } });

  test("an image's mark is at its place, and two marks are never adjacent", () => {
    const messages = parts({ type: "text", text: "Compare:" }, image(URL_1), image(URL_2));
    expect(readChat(messages, vila)).toEqual({
      turns: [{ role: "user", content: "Compare:<image>\n<image>" }],
      images: [
        { url: URL_1, param: "messages[0].content[1]" },
        { url: URL_2, param: "messages[0].content[2]" },
      ],
    });
  });

  test("frames of a video are read from their part and use their tokens of the context", () => {
    const url = "data:video/jpeg;base64,/9j/,/9j/,/9j/";
    const video = { type: "video_url", video_url: { url } };
    const text = { type: "text", text: "What happens?" };
    expect(readChat(parts(video, text), vila)).toEqual({
      turns: [{ role: "user", content: "What happens?" }],
      images: [],
      video: url,
    });
    expect(() => readChat(parts(video, video), vila)).toThrow("The messages have 2 videos");
    const frames = { defaultFrames: 2, maxFrames: 4, tokensPerFrame: 200 };
    const limits = { maxImages: 1, tokensPerImage: 729, video: frames };
    const profile = { ...vila.profile, image: imageProfile("llava_onevision", "multimodal", limits) };
    expect(defaultMaxTokens("", 0, { ...vila, profile }, url)).toBe(1024);
    expect(defaultMaxTokens("x".repeat(2000), 0, { ...vila, profile }, url)).toBe(2048 - 1000 - 3 * 200);
  });

  test("images use their tokens of the context", () => {
    expect(defaultMaxTokens("x".repeat(3000), 2, vila)).toBe(2048 - 1500 - 2 * 196);
  });
});

test("tokens that the model does not count are estimated from bytes", () => {
  expect([estimateTokens(""), estimateTokens("12345")]).toEqual([1, 2]);
});

const head = { id: "id-1", created: 1, model: "m" };

const ending: Ending = {
  finishReason: "length",
  promptTokens: 3,
  completionTokens: 2,
  isEstimate: true,
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
  answers: readonly AnswerStream[],
  more: { chat?: boolean; includeUsage?: boolean; usages?: unknown[] } = {},
): Promise<unknown[]> {
  let text = "";
  const stream = eventStream(answers, {
    head,
    format: more.chat === false ? COMPLETION_FORMAT : CHAT_FORMAT,
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

test("a chat stream sends the role, the text, the finish reason, and [DONE]", async () => {
  const chunks = (await lines([answer("Hel", "lo")])) as {
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

test("a chat stream carries usage in a last chunk without choices when asked to", async () => {
  const usages: unknown[] = [];
  const chunks = await lines([answer("a")], { includeUsage: true, usages });
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, estimated: true };
  expect(chunks.slice(-2)).toEqual([
    { ...head, object: "chat.completion.chunk", choices: [], usage },
    "[DONE]",
  ]);
  expect(chunks[0]).toMatchObject({ usage: null });
  expect(usages).toEqual([usage]);
});

test("a chat stream of an empty answer ends with [DONE]", async () => {
  const chunks = await lines([answer()]);
  expect(chunks).toHaveLength(3);
});

test("a chat stream that fails ends with an error event and without [DONE]", async () => {
  const failure = new ApiError("gone", { status: 502, code: "upstream_broken" });
  const chunks = await lines([broken("a", failure)]);
  expect(chunks.at(-1)).toEqual({
    error: { message: "gone", type: "upstream_error", param: null, code: "upstream_broken" },
  });
});

test("several completions in one stream keep their index and their order", async () => {
  const chunks = (await lines([answer("a", "b"), answer("c")], { chat: false })) as {
    choices: { index: number; text: string }[];
  }[];
  const texts = ["", ""];
  for (const { choices } of chunks.slice(0, -1)) for (const { index, text } of choices) texts[index] += text;
  expect(texts).toEqual(["ab", "c"]);
});

test("a chat stream that fails before its first text is an error response", async () => {
  const failure = new ApiError("gone", { status: 502 });
  const nothing = async function* (): AnswerStream {
    yield* [];
    throw failure;
  };
  await expect(lines([nothing()])).rejects.toBe(failure);
});

test("usage adds up, and is marked as estimated when a part of it is", () => {
  const exact = { promptTokens: 1, completionTokens: 1, isEstimate: false };
  expect(usageOf([exact, exact])).toEqual({ prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 });
  expect(usageOf([exact, ending])).toEqual({
    prompt_tokens: 4,
    completion_tokens: 3,
    total_tokens: 7,
    estimated: true,
  });
});

function run(filter: TextFilter, pieces: readonly string[]): string {
  return pieces.map((piece) => filter.push(piece)).join("") + filter.flush();
}

/** A text in pieces. It has few letters, so that stop words occur. */
const piecesOfFewLetters = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 5 }), {
  maxLength: 12,
});

const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 4 });

test("a stop word ends the text before it, also when it comes in pieces", () => {
  const filter = new StopFilter(["<|im_end|>"]);
  expect(["Hel", "lo<|im", "_e", "nd|>more"].map((piece) => filter.push(piece))).toEqual([
    "Hel",
    "lo",
    "",
    "",
  ]);
  expect(filter.isStopped).toBe(true);
  expect(filter.push("still more") + filter.flush()).toBe("");
});

test("the start of an incomplete stop word is kept in the text", () => {
  expect(run(new StopFilter(["<|im_end|>"]), ["a <", "b"])).toBe("a <b");
  expect(run(new StopFilter(["<|im_end|>"]), ["a <|im"])).toBe("a <|im");
});

test("the text up to a stop word is the same for all pieces, and has no stop word", () => {
  fc.assert(
    fc.property(piecesOfFewLetters, fc.array(word, { maxLength: 4 }), (pieces, words) => {
      const text = run(new StopFilter(words), pieces);
      expect(text).toBe(run(new StopFilter(words), [...pieces.join("")]));
      expect(pieces.join("").startsWith(text)).toBe(true);
      expect(words.some((stop) => text.includes(stop))).toBe(false);
      if (!words.some((stop) => pieces.join("").includes(stop))) expect(text).toBe(pieces.join(""));
    }),
  );
});

test("the stop filter holds back no more than a stop word needs", () => {
  fc.assert(
    fc.property(piecesOfFewLetters, word, (pieces, stop) => {
      const filter = new StopFilter([stop]);
      const shown = pieces.map((piece) => filter.push(piece)).join("");
      if (!filter.isStopped) expect(pieces.join("").length - shown.length).toBeLessThan(stop.length);
    }),
  );
});

test("the echo of the prompt is cut off with any pieces", () => {
  fc.assert(
    fc.property(fc.string(), piecesOfFewLetters, fc.nat(20), (prompt, pieces, cut) => {
      const text = prompt + pieces.join("");
      expect(run(new EchoFilter(prompt), [text.slice(0, cut), text.slice(cut)])).toBe(pieces.join(""));
    }),
  );
});

test("an answer without an echo of the prompt stays unchanged", () => {
  expect(run(new EchoFilter("What is ML?"), ["What", " is that", "?"])).toBe("What is that?");
  expect(run(new EchoFilter("What is ML?"), ["Wha"])).toBe("Wha");
});

test("cumulative text becomes the new text of each event", () => {
  const filter = new CumulativeFilter();
  expect(["I", "I am", "I am", "I am here"].map((text) => filter.push(text))).toEqual([
    "I",
    " am",
    "",
    " here",
  ]);
});

test("cumulative text waits for the rest of a character", () => {
  const filter = new CumulativeFilter();
  expect(filter.push("ok \uFFFD\uFFFD")).toBe("ok ");
  expect(filter.push("ok 👍")).toBe("👍");
});

test("cumulative text gives an unfinished character at its end", () => {
  expect(run(new CumulativeFilter(), ["a", "a\uFFFD"])).toBe("a\uFFFD");
});

async function* cutAt(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const places = [...new Set([0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort(
    (a, b) => a - b,
  );
  for (let index = 1; index < places.length; index++) yield bytes.subarray(places[index - 1], places[index]);
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<string[]> {
  const events: string[] = [];
  for await (const data of serverSentData(chunks)) events.push(data);
  return events;
}

test("server-sent events of Triton are the same with any chunks of the stream, also inside a character", async () => {
  const texts = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(texts, fc.array(fc.nat(2000), { maxLength: 12 }), async (parts, cuts) => {
      const data = parts.map((text_output) => JSON.stringify({ text_output }));
      const bytes = Buffer.from(data.map((line) => `data: ${line}\n\n`).join(""));
      expect(await collect(cutAt(bytes, cuts))).toEqual(data.map((line) => Buffer.from(line).toString()));
    }),
  );
});

test("half an event at the end of a stream is dropped", async () => {
  expect(await collect(cutAt(Buffer.from("data: 1\n\ndata: 2"), []))).toEqual(["1"]);
});

describe("tensors", () => {
  /** A response by the protocol's document, independent of the tested code. */
  function answer(outputs: { name: string; datatype: string; shape: number[]; data: Buffer }[]): {
    body: Buffer;
    jsonBytes: number;
  } {
    const header = {
      outputs: outputs.map(({ data, ...output }) => ({
        ...output,
        parameters: { binary_data_size: data.length },
      })),
    };
    const json = Buffer.from(JSON.stringify(header));
    return { body: Buffer.concat([json, ...outputs.map(({ data }) => data)]), jsonBytes: json.length };
  }

  test("a BYTES tensor is written as lengths and UTF-8", () => {
    expect(encodeBytesTensor(["ab", "", "é"]).toString("hex")).toBe(
      "02000000" + "6162" + "00000000" + "02000000" + "c3a9",
    );
  });

  test("a request with any texts has a header that states their size", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" }), { minLength: 1, maxLength: 20 }), (texts) => {
        const { headers, body } = encodeInferRequest([{ name: "text", elements: texts }], ["text_embedding"]);
        const jsonBytes = Number(headers[JSON_LENGTH_HEADER]);
        const header = JSON.parse(body.toString("utf8", 0, jsonBytes));
        expect(header.inputs).toEqual([
          {
            name: "text",
            shape: [texts.length, 1],
            datatype: "BYTES",
            parameters: { binary_data_size: body.length - jsonBytes },
          },
        ]);
        expect(header.outputs).toEqual([{ name: "text_embedding", parameters: { binary_data: true } }]);
        const decoded: string[] = [];
        for (let offset = jsonBytes; offset < body.length; ) {
          const length = body.readUInt32LE(offset);
          decoded.push(body.toString("utf8", offset + 4, offset + 4 + length));
          offset += 4 + length;
        }
        expect(decoded).toEqual(texts.map((text) => Buffer.from(text).toString()));
      }),
    );
  });

  test("every row of an FP32 output is read bit by bit", () => {
    const rows = fc.integer({ min: 1, max: 5 }).chain((columns) =>
      fc.array(fc.array(fc.float({ noNaN: true }), { minLength: columns, maxLength: columns }), {
        minLength: 1,
        maxLength: 8,
      }),
    );
    fc.assert(
      fc.property(
        rows,
        fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 1, maxLength: 8 }),
        (vectors, counts) => {
          const columns = vectors[0]?.length ?? 0;
          const { body, jsonBytes } = answer([
            {
              name: "vector",
              datatype: "FP32",
              shape: [vectors.length, columns],
              data: Buffer.from(new Float32Array(vectors.flat()).buffer),
            },
            {
              name: "count",
              datatype: "INT32",
              shape: [counts.length, 1],
              data: Buffer.from(new Int32Array(counts).buffer),
            },
          ]);
          const tensors = decodeResponse(body, jsonBytes);
          expect(fp32Rows(tensors, "vector", vectors.length, columns).map(fp32Values)).toEqual(vectors);
          expect(int32Sum(tensors, "count", counts.length)).toBe(
            counts.reduce((sum, count) => sum + count, 0),
          );
        },
      ),
    );
  });

  test("a response that is cut off, or whose header has another length, is refused", () => {
    const { body, jsonBytes } = answer([
      { name: "vector", datatype: "FP32", shape: [2, 3], data: Buffer.alloc(24) },
    ]);
    const read = (bytes: Buffer, length: number) => fp32Rows(decodeResponse(bytes, length), "vector", 2, 3);
    for (let length = 0; length < body.length; length++)
      expect(() => read(body.subarray(0, length), jsonBytes)).toThrow();
    for (const length of [Number.NaN, 0, jsonBytes - 1, jsonBytes + 1, body.length + 1])
      expect(() => read(body, length)).toThrow();
  });

  test("a wrong output is reported with the expected and the received shape", () => {
    const { body, jsonBytes } = answer([
      { name: "vector", datatype: "FP32", shape: [1, 4], data: Buffer.alloc(16) },
    ]);
    const tensors = decodeResponse(body, jsonBytes);
    expect(() => fp32Rows(tensors, "vector", 1, 384)).toThrow(
      "expected FP32 [1,384] in 1536 bytes of output vector, got FP32 [1,4] in 16",
    );
    expect(() => int32Sum(tensors, "vector", 1)).toThrow(
      "expected INT32 [1,1] in 4 bytes of output vector, got FP32 [1,4] in 16",
    );
    expect(() => fp32Rows(tensors, "missing", 1, 4)).toThrow("output missing is not in the answer");
  });

  test("an output that came as JSON is refused", () => {
    const json = Buffer.from(
      JSON.stringify({ outputs: [{ name: "vector", datatype: "FP32", shape: [1, 1], data: [1] }] }),
    );
    expect(() => fp32Rows(decodeResponse(json, json.length), "vector", 1, 1)).toThrow("in 4 bytes of output");
  });
});
