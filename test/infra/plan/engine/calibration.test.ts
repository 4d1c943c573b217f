/** Quantizations that quantize.py calibrates, with the arguments of TensorRT-LLM's documents and tests. */
import { expect, test } from "vitest";
import { calibrationOf, QUANTIZATIONS } from "../../../../infra/plan/catalogue/types.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { engineBytesGiB } from "../../../../infra/plan/engine/engine-size.ts";
import { explainKeyChange } from "../../../../infra/plan/engine/explain-key-change.ts";
import { unsupportedReason } from "../../../../infra/plan/engine/recipes.ts";
import { type EngineChanges, engineSpec } from "../model-specs.ts";
import { byFlag, namedWords } from "./support.ts";

const QUANTIZE = "python3 <scripts>/quantization/quantize.py --model_dir <weights> --output_dir <checkpoint>";

test.each([
  [
    "the GPT guide's fp8 (24.12)",
    "gpt2-medium",
    { release: "24.12", quantization: "fp8" },
    "--dtype float16 --qformat fp8 --calib_size 512",
  ],
  [
    "SmoothQuant of GPT-2",
    "gpt2-medium",
    { quantization: "int8_sq" },
    "--dtype float16 --qformat int8_sq --calib_size 512",
  ],
  [
    "the Llama guide's AWQ (24.12)",
    "llama-2-7b",
    { release: "24.12", quantization: "int4_awq" },
    "--dtype float16 --qformat int4_awq --calib_size 32",
  ],
  [
    "the quantization guide's AWQ on four GPUs",
    "llama-2-7b",
    { quantization: "int4_awq", tensorParallel: 4 },
    "--dtype float16 --qformat int4_awq --calib_size 32 --awq_block_size 64 --tp_size 4",
  ],
  [
    "a data set and a number of the user",
    "llama-2-7b",
    { quantization: "int8_sq", calibration: { dataset: "abisee/cnn_dailymail", samples: 64 } },
    "--dtype float16 --qformat int8_sq --calib_size 64 --calib_dataset abisee/cnn_dailymail",
  ],
  [
    "a folder of the user",
    "llama-2-7b",
    { quantization: "fp8", calibration: { folder: { path: "/store/calibration/support", revision: "1" } } },
    "--dtype float16 --qformat fp8 --calib_size 512 --calib_dataset <calibration>",
  ],
] as const)("quantize.py is called as in %s", (_document, model, changes: EngineChanges, words) => {
  const command = `${QUANTIZE} ${words}`;
  expect(byFlag(namedWords(enginePlan(engineSpec(model, changes)), "convert"))).toEqual(
    byFlag(command.split(" ")),
  );
});

test("an engine is built again for another label of the samples, and not for another folder", () => {
  const keyFields = (path: string, revision: string) =>
    enginePlan(engineSpec("llama-2-7b", { quantization: "fp8", calibration: { folder: { path, revision } } }))
      .keyFields;
  const first = keyFields("/store/a", "first");
  expect(keyFields("/store/b", "first")).toEqual(first);
  expect(explainKeyChange(first, keyFields("/store/a", "second")).map(({ sentence }) => sentence)).toEqual([
    "engine llama-2-7b: rebuild - calibration samples first → second",
  ]);
});

test("no release before 0.10 calibrates", () => {
  for (const quantization of QUANTIZATIONS) {
    const reason = unsupportedReason(engineSpec("llama-2-7b", { release: "24.05", quantization }));
    expect(reason === null).toBe(calibrationOf(quantization) === null);
  }
});

test("weights have a byte with SmoothQuant and half a byte with AWQ, with a scale for 64 weights", () => {
  const bytes = (quantization: "int8" | "int8_sq" | "int4_awq") =>
    engineBytesGiB(engineSpec("llama-2-7b", { quantization })).layersGiB * 2 ** 30;
  expect(bytes("int8_sq")).toBe(bytes("int8"));
  expect(bytes("int4_awq")).toBe(6_476_271_616 * (1 / 2 + 2 / 64));
});
