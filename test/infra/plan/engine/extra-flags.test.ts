import fc from "fast-check";
import { expect, test } from "vitest";
import { buildFlags, type FlagKind } from "../../../../infra/plan/catalogue/build-flags.ts";
import { type LanguageModelName, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { RELEASE_TAGS } from "../../../../infra/plan/catalogue/releases.ts";
import { type LanguageModel, QUANTIZATIONS, RECIPES } from "../../../../infra/plan/catalogue/types.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { explainKeyChange } from "../../../../infra/plan/engine/explain-key-change.ts";
import { flagProgram, withExtraFlags } from "../../../../infra/plan/engine/extra-flags.ts";
import { splitsIntoStages, unsupportedReason } from "../../../../infra/plan/engine/recipes.ts";
import type { EngineSpec } from "../../../../infra/plan/spec.ts";
import { type EngineChanges, engineSpec } from "../model-specs.ts";
import { namedWords } from "./support.ts";

const words = (model: LanguageModelName, step: "convert" | "llm" | "vision", changes: EngineChanges) =>
  namedWords(enginePlan(engineSpec(model, changes)), step).join(" ");

const LLAMA = "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm>";

test("flags of the Llama 2 tutorial replace the plan's own on 24.05, whose values are the tutorial's", () => {
  const limits = { maxBatchSize: 4 };
  const tutorial = words("llama-2-7b", "llm", { release: "24.05", limits });
  const own = {
    remove_input_padding: "enable",
    gpt_attention_plugin: "float16",
    context_fmha: "enable",
    gemm_plugin: "float16",
    paged_kv_cache: "enable",
  };
  expect(words("llama-2-7b", "llm", { release: "24.05", limits, extraFlags: { builder: own } })).toBe(
    tutorial,
  );
  const changed = { ...own, gpt_attention_plugin: "bfloat16", context_fmha: "disable" };
  expect(words("llama-2-7b", "llm", { release: "24.05", limits, extraFlags: { builder: changed } })).toBe(
    tutorial
      .replace("--gpt_attention_plugin float16", "--gpt_attention_plugin bfloat16")
      .replace("--context_fmha enable", "--context_fmha disable"),
  );
});

test.each([
  [
    "the chat guide (24.02)",
    "llama-2-7b-chat",
    "24.02",
    { remove_input_padding: "enable", context_fmha: "enable", use_fused_mlp: true, logits_dtype: "float16" },
    `${LLAMA} --gemm_plugin float16 --max_batch_size 4 --max_input_len 2048 --max_output_len 512 --context_fmha enable --logits_dtype float16 --remove_input_padding enable --use_fused_mlp`,
  ],
  [
    "the LLaVA-1.5 walkthrough (25.07)",
    "llava-1.5-7b",
    "25.07",
    { use_fused_mlp: "disable", gpt_attention_plugin: "auto" },
    `${LLAMA} --gemm_plugin float16 --use_fused_mlp disable --max_batch_size 1 --max_input_len 2048 --max_seq_len 2560 --max_multimodal_len 576 --gpt_attention_plugin auto`,
  ],
  [
    "the multimodal guide (25.02)",
    "llava-onevision-qwen2-7b",
    "25.02",
    { paged_kv_cache: "enable", logits_dtype: "float32", context_fmha: "enable", use_fused_mlp: "enable" },
    `${LLAMA} --gemm_plugin float16 --max_batch_size 1 --max_input_len 7500 --max_seq_len 7600 --max_multimodal_len 7300 --context_fmha enable --logits_dtype float32 --paged_kv_cache enable --use_fused_mlp enable`,
  ],
  [
    "the GPT-2 guide (25.07)",
    "gpt2-medium",
    "25.07",
    { gpt_attention_plugin: "float16", remove_input_padding: "enable", paged_kv_cache: "enable" },
    `${LLAMA} --gemm_plugin float16 --max_batch_size 4 --max_input_len 768 --max_seq_len 1024 --gpt_attention_plugin float16 --paged_kv_cache enable --remove_input_padding enable`,
  ],
] as const)("trtllm-build of %s has a user's own flags", (_document, model, release, builder, command) => {
  expect(words(model, "llm", { release, extraFlags: { builder } })).toBe(command);
});

test("converter, quantizer and the builder of the visual engine have a user's own flags", () => {
  expect(
    words("gpt2-medium", "convert", { extraFlags: { converter: { smoothquant: 0.5, per_token: true } } }),
  ).toMatch(/--dtype float16 --per_token --smoothquant 0\.5$/);
  expect(
    words("llama-2-7b", "convert", { quantization: "fp8", extraFlags: { converter: { calib_size: -1 } } }),
  ).toMatch(/--qformat fp8 --calib_size -1$/);
  expect(words("llava-1.5-7b", "vision", { extraFlags: { vision: { max_hw_dims: 1024 } } })).toMatch(
    /--max_batch_size 1 --max_hw_dims 1024$/,
  );
  const builder = { lora_target_modules: ["attn_q", "attn_v"], max_lora_rank: 8 };
  expect(words("llama-2-7b", "llm", { extraFlags: { builder } })).toMatch(
    / --lora_target_modules attn_q attn_v --max_lora_rank 8$/,
  );
});

test("another flag is another engine, whatever the order in the stack file, and its reason names the flag", () => {
  const plan = (builder?: Record<string, string>) =>
    enginePlan(engineSpec("gpt2-medium", builder === undefined ? {} : { extraFlags: { builder } }));
  const [none, one, two] = [
    plan(),
    plan({ context_fmha: "disable", logits_dtype: "float16" }),
    plan({ logits_dtype: "float16", context_fmha: "disable" }),
  ];
  expect(one.key).toBe(two.key);
  expect(one.key).not.toBe(none.key);
  expect(explainKeyChange(none.keyFields, one.keyFields).map(({ sentence }) => sentence)).toEqual([
    "engine gpt2-medium: rebuild - llm --context_fmha disable (new)",
    "engine gpt2-medium: rebuild - llm --logits_dtype float16 (new)",
  ]);
});

test("a command has each flag once, and every flag of the user with its value", () => {
  const flags = fc.dictionary(
    fc.constantFrom("a", "b", "c", "d"),
    fc.oneof(
      fc.constant(true as const),
      fc.integer(),
      fc.constantFrom("x", "y"),
      fc.array(fc.constantFrom("x", "y"), { minLength: 1 }),
    ),
  );
  fc.assert(
    fc.property(flags, (own) => {
      const before = ["program", "word", "--b", "1", "--c=2", "--e"];
      const after = withExtraFlags(before, own);
      for (const [name, value] of Object.entries(own)) {
        const at = after.indexOf(`--${name}`);
        expect(after.filter((word) => word === `--${name}` || word.startsWith(`--${name}=`))).toHaveLength(1);
        const words = value === true ? [] : [value].flat().map(String);
        expect(after.slice(at + 1, at + 1 + words.length)).toEqual(words);
      }
      const isOwn = (flag: string) => Object.hasOwn(own, flag);
      expect(after.slice(0, 2)).toEqual(["program", "word"]);
      expect(after.includes("1")).toBe(!isOwn("b") || own.b === 1);
      expect(after.includes("--c=2")).toBe(!isOwn("c"));
      expect(after).toContain("--e");
    }),
  );
});

test("the parsers of every release know all flags that the plan passes, with or without a value", () => {
  const stages = { convert: "converter", llm: "builder", vision: "vision" } as const;
  const rows: readonly (readonly [string, LanguageModel])[] = [
    ...Object.entries(languageModels),
    ...RECIPES.map((recipe) => [recipe, { ...languageModels["llama-2-7b"], recipe }] as const),
  ];
  const strange = RELEASE_TAGS.flatMap((release) =>
    rows.flatMap(([model, row]) =>
      QUANTIZATIONS.flatMap((quantization) => {
        const spec: EngineSpec = engineSpec("gpt2-medium", {
          row,
          release,
          quantization,
          pagedContext: true,
          tensorParallel: 2,
          pipelineParallel: splitsIntoStages(row.recipe) ? 2 : 1,
          limits: { maxBeamWidth: 2, maxNumTokens: 8192 },
        });
        if (unsupportedReason(spec) !== null) return [];
        return enginePlan(spec).steps.flatMap(({ name, argv }) => {
          const section = stages[name as keyof typeof stages];
          if (section === undefined) return [];
          const { flags, between } = buildFlags(flagProgram(section, spec).program, spec.release.tensorRtLlm);
          return argv.flatMap((word, index) => {
            const [, flag = "", inline] = /^--([\w-]+)(=.*)?$/.exec(word) ?? [];
            if (flag === "") return [];
            const next = inline?.slice(1) ?? argv[index + 1] ?? "--";
            const suits: Record<FlagKind, boolean> = {
              switch: next.startsWith("--"),
              toggle: next === "enable" || next === "disable",
              value: !next.startsWith("--"),
              list: !next.startsWith("--"),
            };
            const known = [flags, ...(between === undefined ? [] : [between.after])];
            return known.every(
              (set) => suits[set.get(flag) ?? expect.fail(`${release} ${model} ${name} ${word}`)],
            )
              ? []
              : [`${release} ${model} ${name} ${word}`];
          });
        });
      }),
    ),
  );
  expect(strange).toEqual([]);
});

test.each([
  ["trtllm-build", "0.9.0", "use_fused_mlp", "switch"],
  ["trtllm-build", "0.13.0", "use_fused_mlp", "toggle"],
  ["trtllm-build", "0.11.0", "strongly_typed", undefined],
  ["trtllm-build", "0.16.0", "auto_parallel", "value"],
  ["llama", "0.8.0", "fp8_kv_cache", "switch"],
  ["llama", "0.9.0", "fp8_kv_cache", undefined],
  ["llama", "0.12.0", "fp8_kv_cache", "switch"],
  ["gpt", "0.8.0", "smoothquant", undefined],
  ["llama", "0.8.0", "lora_target_modules", "list"],
  ["trtllm-build", "0.16.0", "lora_dir", "list"],
] as const)("%s of TensorRT-LLM %s has --%s as %s", (program, version, flag, kind) => {
  const { flags, between } = buildFlags(program, version);
  expect([between, flags.get(flag)]).toEqual([undefined, kind]);
});

test("a version without read flags is between 0.16.0 and the branch main", () => {
  const { flags, between } = buildFlags("trtllm-build", "0.20.0");
  expect(between?.before).toBe("0.16.0");
  expect([flags.get("auto_parallel"), between?.after.get("auto_parallel")]).toEqual(["value", undefined]);
  expect([flags.get("dora_plugin"), between?.after.get("dora_plugin")]).toEqual([undefined, "toggle"]);
});
