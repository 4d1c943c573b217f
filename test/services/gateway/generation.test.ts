import { imageProfile, requestProfile } from "@engine-room/triton-requests";
import { describe, expect, it } from "vitest";
import { gatewayConfigSchema } from "../../../containers/services/gateway/src/config.ts";
import {
  chatGeneration,
  completionGenerations,
  defaultMaxTokens,
  readChat,
} from "../../../containers/services/gateway/src/openai/generation.ts";
import {
  chatCompletionRequest,
  completionRequest,
} from "../../../containers/services/gateway/src/openai/schemas.ts";
import { ChatTemplate } from "../../../containers/services/gateway/src/text/chat-template.ts";
import { estimateTokens } from "../../../containers/services/gateway/src/text/token-count.ts";
import { CHAT, CHATML, configOf } from "./support.ts";

const [model] = gatewayConfigSchema.parse(configOf({ encoders: 1, model: 2 })).models;
if (model === undefined) throw new Error("the test's configuration has a model");

const chat = (more: object = {}) =>
  chatGeneration(chatCompletionRequest.parse({ ...CHAT, ...more }), "prompt", [], model);

describe("chat template", () => {
  it("ends where the assistant begins to speak", () => {
    expect(new ChatTemplate(CHATML, "", "").render([{ role: "user", content: "Hi" }])).toBe(
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("knows the special tokens that templates name", () => {
    expect(
      new ChatTemplate(
        "{{ bos_token }}{{ messages[0]['content'] | trim }}{{ eos_token }}",
        "<s>",
        "</s>",
      ).render([{ role: "user", content: " a " }]),
    ).toBe("<s>a</s>");
  });

  it("turns a template's refusal into a 400 about the messages", () => {
    const template = new ChatTemplate("{{ raise_exception('roles must alternate') }}", "", "");
    expect(() => template.render([])).toThrow(
      expect.objectContaining({
        message: expect.stringContaining("roles must alternate"),
        details: expect.objectContaining({ status: 400, param: "messages" }),
      }),
    );
  });

  it("takes text parts, and 'developer' as 'system'", () => {
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
});

describe("answer length", () => {
  it("is what was asked for, by either name", () => {
    expect(chat({ max_tokens: 7 }).maxTokens).toBe(7);
    expect(chat({ max_tokens: 7, max_completion_tokens: 9 }).maxTokens).toBe(9);
  });

  it("is refused above the model's limit, with both numbers", () => {
    expect(() => chat({ max_completion_tokens: 1025 })).toThrow(
      "max_completion_tokens is 1025, and smollm2 generates 1024 tokens at most; ask for 1024 or fewer.",
    );
  });

  it("leaves room for the prompt when nothing was asked for", () => {
    expect(defaultMaxTokens("", 0, model)).toBe(1024);
    expect(defaultMaxTokens("x".repeat(3000), 0, model)).toBe(2048 - 1500);
    expect(defaultMaxTokens("x".repeat(100_000), 0, model)).toBe(1);
  });

  it("is 16 for completions, one request a prompt", () => {
    const generations = completionGenerations(
      completionRequest.parse({ model: "m", prompt: ["a", "b"], stop: "." }),
      model,
    );
    expect(generations.map(({ text, maxTokens, stopWords }) => ({ text, maxTokens, stopWords }))).toEqual([
      { text: "a", maxTokens: 16, stopWords: ["."] },
      { text: "b", maxTokens: 16, stopWords: ["."] },
    ]);
  });
});

describe("sampling", () => {
  it("says every number, with the API's defaults, because TensorRT-LLM's own are greedy", () => {
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

  it("takes another seed each time when none was given, for each prompt its own", () => {
    const seeds = new Set(Array.from({ length: 20 }, () => chat().seed));
    expect(seeds.size).toBeGreaterThan(10);
    const prompts = Array.from({ length: 16 }, () => "a");
    const generations = completionGenerations(
      completionRequest.parse({ model: "m", prompt: prompts }),
      model,
    );
    expect(new Set(generations.map(({ seed }) => seed)).size).toBeGreaterThan(10);
  });
});

describe("images in a chat", () => {
  const URL_1 = "data:image/png;base64,iVBORw0KGgo=";
  const URL_2 = "data:image/webp;base64,UklGRgAAAABXRUJQ";
  const vila = {
    ...model,
    profile: requestProfile("multimodal", {
      image: {
        ...imageProfile("vila", "multimodal", { maxImages: 4, tokensPerImage: 196 }),
        accepts: ["dataUrl" as const],
      },
    }),
  };
  const parts = (...content: object[]) =>
    chatCompletionRequest.parse({ model: "m", messages: [{ role: "user", content }] }).messages;
  const image = (url: string) => ({ type: "image_url", image_url: { url } });

  it("leave their mark where they stand, never side by side", () => {
    const messages = parts({ type: "text", text: "Compare:" }, image(URL_1), image(URL_2));
    expect(readChat(messages, vila)).toEqual({
      turns: [{ role: "user", content: "Compare:<image>\n<image>" }],
      images: [URL_1, URL_2],
    });
  });

  it("take their tokens of the context", () => {
    expect(defaultMaxTokens("x".repeat(3000), 2, vila)).toBe(2048 - 1500 - 2 * 196);
  });

  it("are named in the refusal where the server takes them in another form", () => {
    const pixels = {
      ...model,
      profile: requestProfile("multimodal", {
        image: imageProfile("llava", "multimodal", { maxImages: 1, tokensPerImage: 576 }),
      }),
    };
    expect(() => readChat(parts(image(URL_1)), pixels)).toThrow("takes images as processedPixels only");
  });
});

describe("tokens that the model does not count", () => {
  it("are estimated from bytes, and marked so", () => {
    expect(estimateTokens(["", "12345"])).toEqual({ count: 1 + 2, isEstimate: true });
  });
});
