import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LANGUAGE_MODELS, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { RELEASE_TAGS } from "../../../../infra/plan/catalogue/releases.ts";
import type { LanguageModel } from "../../../../infra/plan/catalogue/types.ts";
import { engineKey } from "../../../../infra/plan/engine/engine-key.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { unsupportedReason } from "../../../../infra/plan/engine/support.ts";
import { STEP_NAMES } from "../../../../infra/plan/engine/types.ts";
import type { EngineSpec, WeightsSource } from "../../../../infra/plan/spec.ts";
import { engineSpec } from "../model-specs.ts";
import { namedWords } from "./support.ts";

/** Any engine that a release has a recipe for. */
const anySpec: fc.Arbitrary<EngineSpec> = fc
  .constantFrom(...LANGUAGE_MODELS)
  .chain((model) => {
    const row: LanguageModel = languageModels[model];
    const weights: fc.Arbitrary<WeightsSource> = fc.oneof(
      fc.constant<WeightsSource>({
        kind: "hub",
        repository: row.source.repository,
        revision: "a".repeat(40),
      }),
      fc.constant<WeightsSource>({ kind: "modelscope", repository: "someone/weights", revision: "v1/2" }),
      fc.constant<WeightsSource>({ kind: "s3", uri: "s3://bucket/weights", revision: "2025-08" }),
      fc.constant<WeightsSource>({ kind: "folder", path: "/data/weights", revision: "mine" }),
    );
    return fc.record({
      model: fc.constant(model),
      release: fc.constantFrom(...RELEASE_TAGS),
      layout: fc.constantFrom("ngc" as const, "tritonrelease" as const),
      quantization: fc.constantFrom(...row.quantizations),
      tensorParallel: fc.constantFrom(1, 2, 4),
      pipelineParallel: row.pipelineParallel ? fc.constantFrom(1, 2) : fc.constant(1),
      weights,
      limits: fc.record({
        maxBatchSize: fc.integer({ min: 1, max: 64 }),
        maxBeamWidth: fc.constantFrom(1, 4),
      }),
    });
  })
  .map(({ model, ...changes }) => engineSpec(model, changes))
  .filter((spec) => unsupportedReason(spec) === null);

/** Of VILA's globals.py, llava_arch.py and builder.py at the commit of the catalogue. */
const VILA_LINES = [
  "import deepspeed.comm as dist",
  "        #     import deepspeed",
  "from transformers.modeling_utils import ContextManagers, no_init_weights",
  "            no_init_weights(_enable=True),",
  "from .intern_encoder import InternVisionTower",
  "            vision_tower = InternVisionTower(model_name_or_path, config=config, drop_path_rate=0.0)",
];

describe("an engine plan", () => {
  it("of LLaVA-1.5 on 25.07 lies where its key says", () => {
    const plan = enginePlan(engineSpec("llava-1.5-7b"));
    expect(plan.directory).toBe(`/store/engines/llava-1.5-7b/${plan.shortKey}`);
    expect(plan.places).toEqual({
      weights: "/store/weights/llava-1.5-7b/b234b804b114d9e37bb655e11cbbb5f5e971b7a9",
      code: "/store/code",
      checkpoint: `/scratch/checkpoints/${plan.shortKey}`,
      engine: plan.directory,
      llm: `${plan.directory}/llm`,
      vision: `${plan.directory}/vision`,
      goldenImage: "/opt/engine-room/golden/coffee.png",
      scripts: "/app/examples",
    });
    expect(plan.worldSize).toBe(1);
    expect(plan.maxSequenceTokens).toBe(2560);
    expect(plan.visual?.maxMultimodalTokens).toBe(576);
    expect(plan.steps.map((step) => step.name)).toEqual(["download", "convert", "llm", "vision", "check"]);
    expect(plan.steps[1]?.argv).toEqual([
      "python3",
      "/app/examples/models/core/llama/convert_checkpoint.py",
      "--model_dir",
      plan.places.weights,
      "--output_dir",
      plan.places.checkpoint,
      "--dtype",
      "float16",
    ]);
  });

  it("of VILA fetches its source code, and lets the scripts import it", () => {
    const plan = enginePlan(engineSpec("vila1.5-3b"));
    const argvs = plan.steps
      .filter((step) => step.name === "requirements")
      .map((step) => step.argv.join(" "));
    expect(argvs).toEqual([
      "pip install --no-deps s2wrapper @ git+https://github.com/bfshi/scaling_on_scales.git" +
        "@9c008a37540e761f53574b488979db6e49a64312",
      "git init /store/code/VILA-ec7fb2c26492",
      "git -C /store/code/VILA-ec7fb2c26492 fetch --depth 1 https://github.com/Efficient-Large-Model/VILA.git" +
        " ec7fb2c264920bf004fd9fa37f1ec36ea0942db5",
      "git -C /store/code/VILA-ec7fb2c26492 checkout --detach FETCH_HEAD",
      ...["train/sequence_parallel/globals", "model/llava_arch", "model/multimodal_encoder/builder"].map(
        (file) => expect.stringMatching(`^sed -i .* /store/code/VILA-ec7fb2c26492/llava/${file}\\.py$`),
      ),
    ]);
    for (const name of ["convert", "vision", "check"]) {
      expect(plan.steps.find((step) => step.name === name)?.environment).toMatchObject({
        PYTHONPATH: "/store/code/VILA-ec7fb2c26492",
      });
    }
  });

  it.each(["24.11", "25.02", "25.05", "25.07", "26.02"] as const)(
    "of VILA on %s installs neither transformers nor what the index has in sources only",
    (release) => {
      const { steps } = enginePlan(engineSpec("vila1.5-3b", { release }));
      const pip = steps.filter(({ argv }) => argv[0] === "pip").flatMap(({ argv }) => argv);
      expect(pip.slice(0, 4)).toEqual([
        "pip",
        "install",
        "--no-deps",
        expect.stringMatching(/^s2wrapper @ /),
      ]);
      expect(pip.join(" ")).not.toMatch(/requirements|transformers|deepspeed|flash_attn/);
    },
  );

  it("of VILA edits the lines that no image can run, and no others", () => {
    const { places, steps } = enginePlan(engineSpec("vila1.5-3b"));
    const folder = mkdtempSync(join(tmpdir(), "vila-"));
    const edited = steps
      .filter(({ argv }) => argv[0] === "sed")
      .map(({ argv: [program = "", ...words] }) => {
        const file = join(folder, (words.at(-1) ?? "").slice(places.code.length));
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, VILA_LINES.join("\n"));
        const run = () => execFileSync(program, [...words.slice(0, -1), file]);
        run();
        run();
        const left = readFileSync(file, "utf8").split("\n");
        return VILA_LINES.filter((line) => !left.includes(line)).concat(
          left.filter((line) => !VILA_LINES.includes(line)),
        );
      });
    rmSync(folder, { recursive: true });
    expect(edited).toEqual([
      ["import deepspeed.comm as dist", "import torch.distributed as dist"],
      ["            no_init_weights(_enable=True),", "            no_init_weights(),"],
      ["from .intern_encoder import InternVisionTower"],
    ]);
  });

  it("installs a release's own file of packages where none of them are pinned", () => {
    const plan = enginePlan(engineSpec("llava-onevision-qwen2-7b", { release: "25.02" }));
    const file = "/app/all_models/multimodal/requirements-llava-onevision.txt";
    expect(namedWords(plan, "requirements")).toEqual(["pip", "install", "-r", file]);
  });

  it.each(["llava-onevision-qwen2-7b", "llama-3.2-11b-vision", "blip2-opt-2.7b"] as const)(
    "installs nothing for %s on 25.07, whose image has all that it needs",
    (model) => {
      const names = enginePlan(engineSpec(model)).steps.map((step) => step.name);
      expect(names).not.toContain("requirements");
    },
  );

  it("of a release without scripts takes those that this project's image adds", () => {
    const plan = enginePlan(engineSpec("llama-2-7b", { release: "24.05" }));
    expect(plan.steps.map(({ name }) => name)).not.toContain("requirements");
    expect(plan.places.scripts).toBe("/tensorrtllm_backend/tensorrt_llm/examples");
  });

  it("splits a model over GPUs in the converter, and checks it under mpirun", () => {
    const plan = enginePlan(engineSpec("llama-2-7b", { tensorParallel: 2, pipelineParallel: 2 }));
    expect(plan.worldSize).toBe(4);
    expect(namedWords(plan, "convert").slice(-4)).toEqual(["--tp_size", "2", "--pp_size", "2"]);
    expect(namedWords(plan, "llm").join(" ")).not.toMatch(/tp_size|pp_size|world_size/);
    expect(namedWords(plan, "check").slice(0, 5)).toEqual([
      "mpirun",
      "-n",
      "4",
      "--allow-run-as-root",
      "python3",
    ]);
  });

  it("calibrates fp8 with the quantizer", () => {
    const text = enginePlan(engineSpec("llama-2-7b", { quantization: "fp8", tensorParallel: 2 }));
    expect(namedWords(text, "convert").join(" ")).toBe(
      "python3 <scripts>/quantization/quantize.py --model_dir <weights> --output_dir <checkpoint> --dtype float16" +
        " --qformat fp8 --calib_size 512 --tp_size 2",
    );
    expect(namedWords(text, "llm").join(" ")).toContain("--gemm_plugin auto");
    // 0.10 has no choice `auto`; examples/llama/README.md at v0.10.0 builds fp8 with float16.
    const old = enginePlan(engineSpec("llama-2-7b", { quantization: "fp8", release: "24.06" }));
    expect(namedWords(old, "llm").join(" ")).toContain("--gemm_plugin float16");
    const image = enginePlan(engineSpec("llama-3.2-11b-vision", { quantization: "fp8" }));
    expect(namedWords(image, "convert").join(" ")).toContain("--calib_dataset scienceqa");
  });

  it.each([
    ["24.06", "--max_output_len 512", "--use_fused_mlp"],
    ["24.08", "--max_seq_len 2560", "--use_fused_mlp"],
    ["25.02", "--max_seq_len 2560", undefined],
    ["25.05", "--max_seq_len 2560", undefined],
    ["25.07", "--max_seq_len 2560", "--use_fused_mlp=enable"],
  ] as const)("knows the flags of %s", (release, sequence, fusedMlp) => {
    const words = namedWords(enginePlan(engineSpec("llava-1.5-7b", { release })), "llm");
    expect(words.join(" ")).toContain(sequence);
    expect(words.find((word) => word.startsWith("--use_fused_mlp"))).toBe(fusedMlp);
  });

  it.each([
    ["24.03", true],
    ["24.05", true],
    ["24.06", true],
    ["25.04", true],
    ["25.05", false],
    ["26.02", false],
  ] as const)("on %s pages the cache of prompts by a flag: %s", (release, hasFlag) => {
    const plain = enginePlan(engineSpec("llama-2-7b", { release }));
    const paged = enginePlan(engineSpec("llama-2-7b", { release, pagedContext: true }));
    const flags = (words: readonly string[]) => words.join(" ").includes("--use_paged_context_fmha enable");
    expect(flags(namedWords(plain, "llm"))).toBe(false);
    expect(flags(namedWords(paged, "llm"))).toBe(hasFlag);
    expect(plain.key === paged.key).toBe(!hasFlag);
  });

  it("keeps what holds for every engine", () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        const plan = enginePlan(spec);
        expect(enginePlan(structuredClone(spec))).toEqual(plan);
        expect(plan.key).toBe(engineKey(plan.keyFields));
        const kept = plan.steps.filter((step) => step.inKey).map((step) => step.name);
        expect(kept).toEqual(
          spec.row.vision === undefined ? ["convert", "llm"] : ["convert", "llm", "vision"],
        );
        expect(Object.keys(plan.keyFields.steps)).toEqual(kept);
        expect(plan.steps.at(-1)?.name).toBe("check");
        const words = plan.steps.flatMap((step) => step.argv);
        expect(words.every((word) => word !== "" && !word.includes("undefined"))).toBe(true);
        expect(words.join(" ")).not.toMatch(/kv_cache_type|token=|HF_TOKEN/);
        const llm = namedWords(plan, "llm");
        for (const flag of ["--max_batch_size", "--max_input_len", "--gemm_plugin"])
          expect(llm).toContain(flag);
        expect(JSON.stringify(plan.keyFields)).not.toMatch(/\/store|\/scratch|\/app|tensorrtllm_backend/);
        for (const step of plan.steps) expect(STEP_NAMES).toContain(step.name);
      }),
    );
  });
});

describe("a release without a recipe", () => {
  it.each([
    ["llama-2-7b", "26.04", "none", "release 26.04 (TensorRT-LLM 1.2.1) builds no TensorRT engines"],
    [
      "gpt2-medium",
      "24.02",
      "none",
      "release 24.02 (TensorRT-LLM 0.8.0) has no converter for gpt2-medium (recipe gpt)",
    ],
    ["llama-2-7b", "24.05", "fp8", "release 24.05 (TensorRT-LLM 0.9.0) has no verified recipe for fp8"],
    [
      "vila1.5-3b",
      "24.05",
      "none",
      "release 24.05 (TensorRT-LLM 0.9.0) has no verified recipe for the visual engine of vila1.5-3b (model type vila)",
    ],
    [
      "vila1.5-3b",
      "24.10",
      "none",
      "the visual engine of vila1.5-3b is documented from TensorRT-LLM 0.15 on," +
        " and release 24.10 (TensorRT-LLM 0.14.0) is older",
    ],
    [
      "llama-3.2-11b-vision",
      "24.08",
      "none",
      "the visual engine of llama-3.2-11b-vision is documented from TensorRT-LLM 0.15 on," +
        " and release 24.08 (TensorRT-LLM 0.12.0) is older",
    ],
  ] as const)("%s on %s with %s is refused in a sentence", (model, release, quantization, reason) => {
    const spec = engineSpec(model, { release, quantization });
    expect(unsupportedReason(spec)).toBe(reason);
    expect(() => enginePlan(spec)).toThrow(reason);
  });

  it("says nothing where there is one", () => {
    for (const model of LANGUAGE_MODELS) expect(unsupportedReason(engineSpec(model))).toBeNull();
  });
});
