import { describe, expect, it } from "vitest";
import { gatewayConfigSchema } from "../../../containers/services/gateway/src/config.ts";
import {
  chatGeneration,
  chatTurns,
  completionGenerations,
  defaultMaxTokens,
} from "../../../containers/services/gateway/src/openai/generation.ts";
import {
  chatCompletionRequest,
  completionRequest,
} from "../../../containers/services/gateway/src/openai/schemas.ts";
import { ChatTemplate } from "../../../containers/services/gateway/src/text/chat-template.ts";
import { estimateTokens } from "../../../containers/services/gateway/src/text/token-count.ts";
import { readOutput, sampling } from "../../../containers/services/gateway/src/triton/generate.ts";
import { CHAT, CHATML, configOf } from "./support.ts";

const [model] = gatewayConfigSchema.parse(configOf({ encoders: 1, model: 2 })).models;
if (model === undefined) throw new Error("the test's configuration has a model");

const chat = (more: object = {}) =>
  chatGeneration(chatCompletionRequest.parse({ ...CHAT, ...more }), "prompt", model);

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
    expect(chatTurns(messages, "m")).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "ab", name: "bob" },
    ]);
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
    expect(defaultMaxTokens("", model)).toBe(1024);
    expect(defaultMaxTokens("x".repeat(3000), model)).toBe(2048 - 1500);
    expect(defaultMaxTokens("x".repeat(100_000), model)).toBe(1);
  });

  it("is 16 for completions, one request a prompt", () => {
    const generations = completionGenerations(
      completionRequest.parse({ model: "m", prompt: ["a", "b"], stop: "." }),
      model,
    );
    expect(generations.map(({ prompt, maxTokens, stopWords }) => ({ prompt, maxTokens, stopWords }))).toEqual(
      [
        { prompt: "a", maxTokens: 16, stopWords: ["."] },
        { prompt: "b", maxTokens: 16, stopWords: ["."] },
      ],
    );
  });
});

describe("sampling", () => {
  it("is greedy at temperature 0, whatever else was asked for", () => {
    expect(sampling(chat({ temperature: 0, top_p: 0.5, seed: 3 }), "seed")).toEqual({ top_k: 1 });
  });

  it("says every number, with the API's defaults, because TensorRT-LLM's own are greedy", () => {
    expect(sampling(chat({ seed: 3 }), "seed")).toEqual({ temperature: 1, top_p: 1, top_k: 0, seed: 3 });
    expect(
      sampling(chat({ seed: 3, temperature: 0.5, top_k: 40, frequency_penalty: 1 }), "random_seed"),
    ).toEqual({
      temperature: 0.5,
      top_p: 1,
      top_k: 40,
      random_seed: 3,
      frequency_penalty: 1,
    });
  });

  it("takes another seed each time when none was given", () => {
    const seeds = new Set(Array.from({ length: 20 }, () => sampling(chat(), "seed").seed));
    expect(seeds.size).toBeGreaterThan(10);
  });
});

describe("Triton's answer", () => {
  it("has text, and token counts where the model gives them", () => {
    expect(readOutput({ text_output: "a", num_input_tokens: 3, num_output_tokens: [4] })).toEqual({
      text: "a",
      promptTokens: 3,
      completionTokens: 4,
    });
    expect(readOutput({ text_output: ["a", "b"] })).toEqual({
      text: "a",
      promptTokens: undefined,
      completionTokens: undefined,
    });
    expect(() => readOutput({})).toThrow("no text_output");
  });

  it("is counted by its bytes where it does not, and says so", () => {
    expect(estimateTokens(["", "12345"])).toEqual({ count: 1 + 2, isEstimate: true });
  });
});
