/** Rows of a stack file in families that the catalogue has no model of: commands of NVIDIA/TensorRT-LLM's examples, and memory. */
import { expect, test } from "vitest";
import { languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import type { Architecture, LanguageModel } from "../../../../infra/plan/catalogue/types.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { engineBytesGiB } from "../../../../infra/plan/engine/engine-size.ts";
import { unsupportedReason } from "../../../../infra/plan/engine/recipes.ts";
import { rankTenant } from "../../../../infra/plan/fit/terms.ts";
import { type EngineChanges, engineSpec, servedModel } from "../model-specs.ts";
import { byFlag, namedWords } from "./support.ts";

function rowOf(recipe: LanguageModel["recipe"], architecture: Architecture, dtype: LanguageModel["dtype"]) {
  return { ...languageModels["llama-2-7b"], recipe, architecture, dtype };
}

// Figures of each config.json; parameters as the hub counts them.
const gemma2b = rowOf(
  "gemma",
  {
    parameters: 2_506_172_416,
    embeddingParameters: 256_000 * 2048,
    layers: 18,
    heads: 8,
    kvHeads: 1,
    headDimension: 256,
    hiddenSize: 2048,
    vocabularySize: 256_000,
  },
  "bfloat16",
);
const falcon40b = rowOf(
  "falcon",
  {
    parameters: 41_303_293_952,
    embeddingParameters: 65_024 * 8192,
    layers: 60,
    heads: 128,
    kvHeads: 8,
    headDimension: 64,
    hiddenSize: 8192,
    vocabularySize: 65_024,
  },
  "bfloat16",
);
const phi3Mini = rowOf(
  "phi",
  {
    parameters: 3_821_079_552,
    embeddingParameters: 2 * 32_064 * 3072,
    layers: 32,
    heads: 32,
    kvHeads: 32,
    headDimension: 96,
    hiddenSize: 3072,
    vocabularySize: 32_064,
  },
  "float16",
);
const mixtral = rowOf(
  "llama",
  {
    parameters: 46_702_792_704,
    embeddingParameters: 2 * 32_000 * 4096,
    layers: 32,
    heads: 32,
    kvHeads: 8,
    headDimension: 128,
    hiddenSize: 4096,
    vocabularySize: 32_000,
    experts: { perToken: 2, width: 14_336 },
  },
  "float16",
);

const specOf = (row: LanguageModel, changes: EngineChanges = {}) =>
  engineSpec("llama-2-7b", { row, ...changes });
const commandOf = (row: LanguageModel, changes: EngineChanges) =>
  byFlag(namedWords(enginePlan(specOf(row, changes)), "convert"));

test.each([
  [
    "gemma/README.md at v0.16.0: Gemma 2B in bfloat16",
    gemma2b,
    { release: "24.12" },
    "gemma/convert_checkpoint.py --ckpt-type hf --model-dir <weights> --dtype bfloat16 --output-model-dir <checkpoint>",
  ],
  [
    "the same on two GPUs with 8 bits, where the examples lie elsewhere",
    gemma2b,
    { release: "25.07", tensorParallel: 2, quantization: "int8" },
    "models/core/gemma/convert_checkpoint.py --ckpt-type hf --model-dir <weights> --dtype bfloat16 --output-model-dir <checkpoint> --world-size 2 --use-weight-only-with-precision int8",
  ],
  [
    "falcon/README.md at v0.16.0: 40B-instruct on four GPUs",
    falcon40b,
    { release: "24.12", tensorParallel: 2, pipelineParallel: 2 },
    "falcon/convert_checkpoint.py --model_dir <weights> --dtype bfloat16 --output_dir <checkpoint> --tp_size 2 --pp_size 2",
  ],
  [
    "the same where the examples lie elsewhere",
    falcon40b,
    { release: "25.07", tensorParallel: 2 },
    "models/contrib/falcon/convert_checkpoint.py --model_dir <weights> --dtype bfloat16 --output_dir <checkpoint> --tp_size 2",
  ],
  [
    "phi/README.md at v0.16.0",
    phi3Mini,
    { release: "24.12" },
    "phi/convert_checkpoint.py --model_dir <weights> --output_dir <checkpoint> --dtype float16",
  ],
  [
    "mixtral/README.md at v0.16.0: 8x7B on two GPUs; --moe_tp_size is --tp_size by default",
    mixtral,
    { release: "24.12", tensorParallel: 2 },
    "llama/convert_checkpoint.py --model_dir <weights> --output_dir <checkpoint> --dtype float16 --tp_size 2",
  ],
  [
    "mixtral/README.md at v0.16.0: fp8",
    mixtral,
    { release: "24.12", tensorParallel: 2, quantization: "fp8" },
    "quantization/quantize.py --model_dir <weights> --dtype float16 --qformat fp8 --output_dir <checkpoint> --calib_size 512 --tp_size 2",
  ],
  [
    "gemma/README.md at v0.16.0: fp8 by quantize.py, whose flags are the same for all",
    gemma2b,
    { release: "24.12", quantization: "fp8" },
    "quantization/quantize.py --model_dir <weights> --dtype bfloat16 --qformat fp8 --output_dir <checkpoint> --calib_size 512",
  ],
] as const)("the converter is called as in %s", (_document, row, changes, command) => {
  expect(commandOf(row, changes)).toEqual(byFlag(`python3 <scripts>/${command}`.split(" ")));
});

test.each([
  ["gemma", "24.03", "24.04"],
  ["phi", "24.06", "24.07"],
] as const)("%s has no converter on %s, and one on %s", (recipe, without, since) => {
  const row = { ...gemma2b, recipe };
  expect(unsupportedReason(specOf(row, { release: without }))).toContain(`recipe ${recipe}`);
  expect(unsupportedReason(specOf(row, { release: since }))).toBeNull();
});

const inMiB = (gib: number) => gib * 1024;

// NVIDIA/TensorRT-LLM issue 2043 ("its weight consumes ~87GB") and, in int4 by the converter on four GPUs, issue 1596
// ("Loaded engine size: 5878 MiB"); Gemma: bytes of its file on the hub.
test.each([
  ["Mixtral 8x7B in float16", specOf(mixtral), inMiB(87)],
  ["Mixtral 8x7B in int4 on 4 GPUs", specOf(mixtral, { quantization: "int4", tensorParallel: 4 }), 5878],
  ["Gemma 2B, whose output head is its embedding", specOf(gemma2b), 5_012_367_872 / 2 ** 20],
])("weights of a rank of %s are within 3 percent of the published", (_name, spec, publishedMiB) => {
  expect(Math.abs(inMiB(engineBytesGiB(spec).llmPerRankGiB) / publishedMiB - 1)).toBeLessThan(0.03);
});

// Mixtral: 65,536 values, issue 2043; Phi-3 mini: "384 kB per token", turboderp-org/exllamav2 issue 425; the others by config.json.
test.each([
  ["Mixtral 8x7B", mixtral, 1, 65_536 * 2],
  ["Mixtral 8x7B on 4 GPUs", mixtral, 4, 32_768],
  ["Phi-3 mini", phi3Mini, 1, 384 * 1024],
  ["Gemma 2B on 2 GPUs, both with its one head", gemma2b, 2, 18_432],
  ["Falcon 40B on 2 GPUs", falcon40b, 2, 61_440],
] as const)("a token of %s takes its bytes of the KV cache", (_name, row, tensorParallel, bytes) => {
  const { terms } = rankTenant(servedModel(specOf(row, { tensorParallel })), true);
  const cache = terms.find(({ what }) => what === "kvCache");
  expect(cache?.arithmetic).toContain(`× ${bytes.toLocaleString("en-US")} bytes`);
});

test("experts have a workspace, which tensor parallelism divides", () => {
  const workspace = (tensorParallel: number) =>
    rankTenant(servedModel(specOf(mixtral, { tensorParallel })), true).terms.find(({ arithmetic }) =>
      arithmetic.startsWith("experts"),
    );
  expect(workspace(1)).toMatchObject({
    what: "activations",
    gib: 1.563,
    arithmetic: "experts: 8,192 tokens × 2 experts × (2 × 4,096 + 3 × 14,336 ÷ 1) × 2 bytes",
  });
  expect(workspace(4)?.gib).toBe(0.578);
});
