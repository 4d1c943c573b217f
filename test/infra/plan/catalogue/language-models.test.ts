import { Template } from "@huggingface/jinja";
import { describe, expect, it } from "vitest";
import { LANGUAGE_MODELS, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import type { LanguageModel } from "../../../../infra/plan/catalogue/types.ts";

const rows: readonly (readonly [string, LanguageModel])[] = Object.entries(languageModels);

describe("the catalogue of language models", () => {
  it("holds the models of the walkthroughs", () => {
    expect([...LANGUAGE_MODELS].sort()).toEqual([
      "blip2-opt-2.7b",
      "gpt2-medium",
      "llama-2-7b",
      "llama-2-7b-chat",
      "llama-3.2-11b-vision",
      "llava-1.5-7b",
      "llava-onevision-qwen2-7b",
      "vila1.5-3b",
    ]);
  });

  it.each(rows)("%s: source is pinned and fetches one format of the weights", (_name, { source }) => {
    expect(source.revision).toMatch(/^[0-9a-f]{40}$/);
    expect(source.include.some((pattern) => pattern.endsWith(".safetensors"))).toBe(true);
    expect(source.include.every((pattern) => !/\.(bin|pt|h5|msgpack|onnx)$/.test(pattern))).toBe(true);
  });

  it.each(rows)("%s: download is as large as the parameters in their stored format", (_name, row) => {
    const bytes = row.source.storedDtype === "float32" ? 4 : 2;
    const gb = ((row.architecture.parameters + (row.vision?.parameters ?? 0)) * bytes) / 1e9;
    // gpt2-medium stores its attention masks besides: 24 layers × 1024² × 4 bytes.
    const buffersGB = row.recipe === "gpt" ? (24 * 1024 ** 2 * 4) / 1e9 : 0;
    expect(row.source.downloadGB).toBeCloseTo(gb + buffersGB, 0.5);
  });

  it.each(rows)("%s: architecture adds up", (_name, { architecture }) => {
    expect(architecture.headDimension * architecture.heads).toBe(architecture.hiddenSize);
    expect(architecture.heads % architecture.kvHeads).toBe(0);
    expect(architecture.embeddingParameters).toBeLessThan(architecture.parameters);
    expect(architecture.embeddingParameters).toBeGreaterThanOrEqual(
      architecture.vocabularySize * architecture.hiddenSize,
    );
    expect(architecture.kvLayers ?? architecture.layers).toBeLessThanOrEqual(architecture.layers);
  });

  it.each(rows)("%s: default limits keep to what the model was trained for", (_name, row) => {
    const { limits } = row;
    expect(limits.maxInputTokens + limits.maxOutputTokens).toBeLessThanOrEqual(row.trainedContextTokens);
    expect(limits.maxImagesPerRequest).toBe(row.vision?.maxImagesPerRequest ?? 0);
  });

  it.each(rows)("%s: flavours fit the runtimes and the kind of model", (_name, row) => {
    expect(row.flavours.includes("llmapi")).toBe(row.runtimes.includes("llmapi"));
    expect(row.flavours.includes("multimodal")).toBe(row.vision !== undefined);
    expect(row.imagePrompt?.includes("{question}") ?? false).toBe(row.vision !== undefined);
    expect(row.golden.image !== undefined).toBe(row.vision !== undefined);
  });

  it.each(rows)("%s: an echo of the golden prompt is no golden answer", (_name, { golden }) => {
    expect(golden.answerContains.length).toBeGreaterThan(0);
    for (const word of golden.answerContains) {
      expect(golden.prompt.toLowerCase()).not.toContain(word.toLowerCase());
    }
  });

  /** Figures of heads, layers and KV heads: 2 (keys and values) × layers × KV heads × dimension × 2 bytes. */
  it.each([
    ["gpt2-medium", 98_304],
    ["llama-2-7b", 524_288],
    ["llama-2-7b-chat", 524_288],
    ["llava-1.5-7b", 524_288],
    ["blip2-opt-2.7b", 327_680],
    ["vila1.5-3b", 327_680],
    ["llava-onevision-qwen2-7b", 57_344],
    ["llama-3.2-11b-vision", 131_072],
  ] as const)("%s keeps %d bytes of KV cache a token", (name, bytes) => {
    const { architecture } = languageModels[name];
    const layers = architecture.kvLayers ?? architecture.layers;
    expect(2 * layers * architecture.kvHeads * architecture.headDimension * 2).toBe(bytes);
  });
});

describe("chat templates", () => {
  const render = (name: keyof typeof languageModels, messages: readonly object[]) =>
    new Template(languageModels[name].chat?.template ?? "").render({
      messages,
      add_generation_prompt: true,
      bos_token: "",
      eos_token: "",
    });
  const turns = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello!" },
    { role: "user", content: "Who are you?" },
  ];

  it("Llama 2 marks turns and system prompt as it was trained to", () => {
    expect(render("llama-2-7b-chat", [{ role: "system", content: "Be brief." }, ...turns])).toBe(
      "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Who are you? [/INST]",
    );
  });

  it("LLaVA-1.5 names the speakers", () => {
    expect(render("llava-1.5-7b", turns)).toBe("USER: Hi ASSISTANT: Hello! USER: Who are you? ASSISTANT:");
  });

  it("OneVision writes ChatML", () => {
    expect(render("llava-onevision-qwen2-7b", turns.slice(0, 1))).toBe(
      "<|im_start|>user \nHi<|im_end|><|im_start|>assistant\n",
    );
  });
});
