import { describe, expect, it } from "vitest";
import { RELEASE_TAGS, releases } from "../../../../infra/plan/catalogue/releases.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { goldenQuestion } from "../../../../infra/plan/engine/golden-question.ts";
import { imageFolders } from "../../../../infra/plan/engine/image-folders.ts";
import { recipeTables } from "../../../../infra/plan/engine/recipes/index.ts";
import { compareVersions, valueAt } from "../../../../infra/plan/engine/version.ts";
import { engineSpec } from "../model-specs.ts";
import { namedWords } from "./support.ts";

const withEngines = RELEASE_TAGS.filter((tag) => releases[tag].recipes !== null);

describe("recipe tables", () => {
  it.each(withEngines)("build Llama 2 on %s with its own range's script and sequence flag", (tag) => {
    const { recipes, tensorRtLlm } = releases[tag];
    if (recipes === null) throw new Error("a release with engines");
    const table = recipeTables[recipes];
    expect(table.range).toBe(recipes);
    const plan = enginePlan(engineSpec("llama-2-7b", { release: tag }));
    expect(namedWords(plan, "convert")[1]).toBe(`<scripts>/${table.converters.llama}`);
    // Removed with 0.12, deprecated since 0.11 brought its successor.
    const flag = compareVersions(tensorRtLlm, "0.11") < 0 ? "--max_output_len" : "--max_seq_len";
    expect(namedWords(plan, "llm")).toContain(flag);
  });

  it("never leave a version of their range without a sequence flag", () => {
    for (const tag of withEngines) {
      const { recipes, tensorRtLlm } = releases[tag];
      if (recipes === null) continue;
      expect(valueAt(recipeTables[recipes].sequenceFlag, tensorRtLlm)).toBeDefined();
    }
  });

  it("build every model of the multimodal guide from 25.02 on", () => {
    const models = [
      "blip2-opt-2.7b",
      "llava-1.5-7b",
      "vila1.5-3b",
      "llava-onevision-qwen2-7b",
      "llama-3.2-11b-vision",
    ] as const;
    for (const tag of withEngines.slice(withEngines.indexOf("25.02"))) {
      for (const model of models) {
        const plan = enginePlan(engineSpec(model, { release: tag }));
        const builder =
          compareVersions(releases[tag].tensorRtLlm, "0.19") < 0 ? "build_visual" : "build_multimodal";
        expect(namedWords(plan, "vision")[1]).toContain(`multimodal/${builder}_engine.py`);
        expect(namedWords(plan, "check")).toContain("--image_path=<goldenImage>");
      }
    }
  });
});

describe("the golden question", () => {
  it.each([
    ["24.05", "Which city is this?", false],
    ["24.07", "Which city is this?", false],
    ["24.08", "What is shown in this picture?", true],
    ["25.07", "What is shown in this picture?", true],
  ] as const)("of LLaVA on %s is %s", (tag, question, hasPicture) => {
    const spec = engineSpec("llava-1.5-7b", { release: tag });
    expect(goldenQuestion(spec).prompt).toBe(question);
    const words = namedWords(enginePlan(spec), "check");
    expect(words).toContain(`\n ${question}`);
    expect(words.includes("--image_path=<goldenImage>")).toBe(hasPicture);
  });

  it("of a text model is its own on every release", () => {
    const spec = engineSpec("llama-2-7b", { release: "24.02" });
    expect(goldenQuestion(spec)).toBe(spec.row.golden);
  });
});

describe("folders of an image", () => {
  it.each([
    ["25.07", "ngc", "/app/examples", "/app/all_models"],
    ["25.07", "tritonrelease", "/app/tensorrt_llm/examples", "/app/tensorrt_llm/triton_backend/all_models"],
    ["25.05", "ngc", "/app/examples", "/app/all_models"],
    ["24.05", "ngc", "/tensorrtllm_backend/tensorrt_llm/examples", "/tensorrtllm_backend/all_models"],
  ] as const)("%s, layout %s", (tag, layout, examples, allModels) => {
    expect(imageFolders(releases[tag], layout)).toMatchObject({ examples, allModels });
  });
});

describe("versions", () => {
  it.each([
    ["0.9.0", "0.10.0", -1],
    ["0.17.0.post1", "0.17.0", 0],
    ["1.0.3.2510", "1.0.0", 1],
    ["0.20", "0.20.0", 0],
    ["1.1.0", "0.21.0", 1],
  ])("%s against %s", (a, b, sign) => {
    expect(Math.sign(compareVersions(a, b))).toBe(sign);
    // Adding 0 turns -0 into 0.
    expect(Math.sign(compareVersions(b, a)) + 0).toBe(-sign + 0);
  });

  it("find what holds at a version, and nothing before the first entry", () => {
    const table = [
      { since: "0.10", value: "old" },
      { since: "0.13", value: "new" },
    ];
    expect(
      ["0.9.0", "0.10.0", "0.12.0", "0.13.0", "1.0.0"].map((version) => valueAt(table, version)),
    ).toEqual([undefined, "old", "old", "new", "new"]);
  });
});
