import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { visionModels } from "../../../infra/plan/catalogue/vision-models.ts";
import { processorConfig } from "../../../infra/plan/container-specs.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { lockedPython } from "../../../scripts/testing/python.ts";

const PICTURES = join(projectRoot, "containers/python/engine_room/encoder_builder/samples/images-1");
const EDGES = { "blip2-opt-2.7b": 224, "llava-1.5-7b": 336, "vila1.5-3b": 384 } as const;
/** Models of the recorded stack. */
const NAMES = { "blip2-opt-2.7b": "blip2", "llava-1.5-7b": "llava", "vila1.5-3b": "vila" } as const;

/** The file of the model's preprocessing for a server of the multimodal guide. */
function plannedFile(name: string): unknown {
  const file = join(projectRoot, "test/recorded/server-specs", `multimodal-guide.${name}.json`);
  const { repository } = JSON.parse(readFileSync(file, "utf8")) as {
    repository: { models: { name: string; files?: Record<string, string> }[] };
  };
  const model = repository.models.find((one) => one.name === "preprocessing");
  return JSON.parse(model?.files?.["1/preprocess.json"] ?? "null");
}

/** The samples have more than so many squares of 28 pixels; the planned limit is larger than all of them. */
const SCALED = { tokenEdgePixels: 28, maxTokens: 100 };

test("pixels of 20 pictures are those of the image processors of transformers", {
  timeout: 300_000,
}, async () => {
  const models = Object.keys(EDGES) as (keyof typeof EDGES)[];
  const plan = Object.fromEntries(
    models.map((model) => {
      const { file: _, ...processor } = processorConfig(visionModels[model].vision.imageProcessor);
      return [model, { preprocess: plannedFile(NAMES[model]), processor }];
    }),
  );
  const scaled = { preprocess: SCALED, processor: { image_processor_type: "Qwen2VLImageProcessor" } };
  const python = await lockedPython([join(import.meta.dirname, "requirements.lock")], () => undefined);
  const folder = mkdtempSync(join(tmpdir(), "image-processors-"));
  const file = join(folder, "plan.json");
  writeFileSync(file, JSON.stringify({ ...plan, scaled }));
  const output = execFileSync(python, [join(import.meta.dirname, "compare.py"), file, PICTURES], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  rmSync(folder, { recursive: true });
  const results = JSON.parse(output) as Record<
    string,
    { pictures: string[]; shape: number[]; largestDifference: number }
  >;
  for (const model of models) {
    const { pictures, shape, largestDifference } = results[model] ?? expect.fail(model);
    expect(new Set(pictures).size).toBe(20);
    expect(shape).toEqual([3, EDGES[model], EDGES[model]]);
    expect(largestDifference, model).toBeLessThan(1e-6);
  }
  const { pictures, shape, largestDifference } = results.scaled ?? expect.fail("scaled");
  expect(new Set(pictures).size).toBe(20);
  // 4 patches a token, each of 2 frames × 3 channels × 14 × 14 pixels; an image is both frames.
  expect(shape[0]).toBeLessThanOrEqual(4 * SCALED.maxTokens);
  expect(shape[1]).toBe(2 * 3 * 14 * 14);
  expect(largestDifference).toBe(0);
});
