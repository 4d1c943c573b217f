import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { committedProofs, supportMatrix } from "../../../scripts/plan/support-matrix.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import {
  type ModelProof,
  mergedProof,
  PROOF_FOLDER,
  type Proof,
  parseProof,
  proofFileName,
  provesGpu,
  readProofFor,
  readProofs,
  writeProof,
} from "../../../scripts/verify/proof-file.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-proof-"));
afterAll(() => rmSync(folder, { recursive: true }));

const run = { date: "2026-03-01", driver: "575.57.08", commit: "a".repeat(40), isModified: false };

const passed = (name: ModelProof["checks"][number]["name"]): ModelProof["checks"][number] => ({
  name,
  level: "gpu",
  outcome: "passed",
  figures: {},
});

const model: ModelProof = {
  model: "llama-3.2-11b-vision",
  runtime: "engine",
  flavour: "multimodal",
  dtype: "bfloat16",
  quantization: "none",
  tensorParallel: 2,
  pipelineParallel: 1,
  migProfile: null,
  engineKey: "b".repeat(64),
  run,
  checks: (["golden.triton", "golden.gateway", "streamed", "batched", "metrics"] as const).map(passed),
};

const proof: Proof = {
  version: 1,
  gpu: "A10G",
  release: "25.07",
  tensorRtLlm: "0.20.0",
  models: [model],
  encoders: [],
};

const problemsOf = (value: unknown): string => {
  try {
    parseProof(JSON.stringify(value), "x.json");
  } catch (error) {
    return (error as Error).message;
  }
  return "";
};

test(`every file of ${PROOF_FOLDER}/ can be read`, () => {
  expect(readProofs(join(projectRoot, PROOF_FOLDER))).toEqual(committedProofs());
});

describe("a file", () => {
  test("is read as it was written", () => {
    const path = join(folder, "a10g-25.07.json");
    writeProof(path, proof);
    expect(readProofFor(path, "A10G", "25.07")).toEqual(proof);
    expect(() => readProofFor(path, "L4", "25.07")).toThrow("has records of A10G and 25.07");
    expect(readProofFor(join(folder, "missing.json"), "L4", "25.07")).toBeUndefined();
  });

  test("has the name of its GPU and release", () => {
    expect(proofFileName("RTX 3090", "24.12")).toBe("rtx-3090-24.12.json");
    const other = mkdtempSync(join(folder, "named-"));
    writeProof(join(other, "mine.json"), proof);
    expect(() => readProofs(other)).toThrow("name it a10g-25.07.json");
  });

  test("that is none is refused with all that is wrong, each at its path", () => {
    const [check] = model.checks;
    const text = problemsOf({
      ...proof,
      gpu: "B300",
      models: [
        { ...model, hostname: "gpu-7.example.org" },
        {
          ...model,
          quantization: "int8",
          run: { ...run, driver: "/usr/lib/x" },
          checks: [{ ...check, outcome: "skipped" }, check, { ...check, figures: { "10.0.0.1": 1 } }],
        },
      ],
    });
    expect(text).toContain("x.json is no proof file that this version reads");
    expect(text).toMatch(/^ {2}gpu: /m);
    expect(text).toMatch(/^ {2}models\[0\]: Unrecognized key: "hostname"/m);
    expect(text).toMatch(/^ {2}models\[1\]\.run\.driver: /m);
    expect(text).toMatch(/^ {2}models\[1\]\.checks\[0\]\.reason: stands with what was skipped/m);
    expect(text).toMatch(/^ {2}models\[1\]\.checks\[2\]\.figures/m);
  });

  test.each<[string, unknown, RegExp]>([
    [
      "another TensorRT-LLM than the release's",
      { ...proof, tensorRtLlm: "0.19.0" },
      /tensorRtLlm: is 0\.19\.0; 25\.07 has 0\.20\.0/,
    ],
    [
      "a model twice",
      { ...proof, models: [model, { ...model, engineKey: null }] },
      /models\[1\]: is the same as models\[0\]/,
    ],
    [
      "a check twice",
      { ...proof, models: [{ ...model, checks: [passed("metrics"), passed("metrics")] }] },
      /models\[0\]\.checks: has a check twice/,
    ],
    ["no list", [], /\(file\): /],
  ])("with %s is refused", (_what, value, message) => {
    expect(problemsOf(value)).toMatch(message);
  });

  test("that is no JSON is refused", () => {
    const path = join(folder, "cut.json");
    writeFileSync(path, '{"version": 1,');
    expect(() => readProofFor(path, "A10G", "25.07")).toThrow(`${path} is no JSON`);
  });

  test("is not written with what could not be read", () => {
    const wrong = { ...proof, gpu: "mine" } as unknown as Proof;
    expect(() => writeProof(join(folder, "wrong.json"), wrong)).toThrow("gpu");
  });
});

test("a later run replaces its own models and leaves the others", () => {
  const other: ModelProof = { ...model, model: "gpt2-medium" };
  const again: ModelProof = {
    ...model,
    engineKey: "c".repeat(64),
    run: { ...run, date: "2026-04-01" },
    checks: [{ ...passed("golden.triton"), outcome: "failed" }],
  };
  const merged = mergedProof({ ...proof, models: [model, other] }, { ...proof, models: [again] });
  expect(merged.models).toHaveLength(2);
  expect(merged.models).toEqual(expect.arrayContaining([other, again]));
  expect(mergedProof(undefined, proof)).toEqual(proof);
});

test("of two servers of one kind, the one that shows less is kept, wherever it stands", () => {
  const failed: ModelProof = { ...model, checks: [{ ...passed("golden.triton"), outcome: "failed" }] };
  for (const models of [
    [model, failed],
    [failed, model],
  ])
    expect(mergedProof(undefined, { ...proof, models }).models).toEqual([failed]);
});

const unraised = supportMatrix([]);

describe("a record shows a model on a GPU", () => {
  const without = (name: string) => model.checks.filter((check) => check.name !== name);
  const skipped = (name: ModelProof["checks"][number]["name"], reason: "doesNotStream" | "pictureIsTensor") =>
    ({ ...passed(name), outcome: "skipped", reason }) as const;

  test("with every check that it needs", () => {
    expect(provesGpu(model)).toBe(true);
    const excused = [...without("streamed"), skipped("streamed", "doesNotStream")];
    expect(provesGpu({ ...model, checks: excused })).toBe(true);
  });

  test.each(model.checks.map(({ name }) => name))("not without %s", (name) => {
    const records = {
      missing: without(name),
      failed: [...without(name), { ...passed(name), outcome: "failed" as const }],
      "on the CPU": [...without(name), { ...passed(name), level: "cpu" as const }],
      "skipped for another reason": [...without(name), skipped(name, "pictureIsTensor")],
    };
    const models = Object.values(records).map((checks) => ({ ...model, checks }));
    expect(models.filter(provesGpu)).toEqual([]);
    expect(supportMatrix([{ ...proof, models }])).toBe(unraised);
  });

  test("not where a check that it does not need failed", () => {
    const checks = [...model.checks, { ...passed("build"), outcome: "failed" as const }];
    expect(provesGpu({ ...model, checks })).toBe(false);
  });
});

describe("the matrix", () => {
  const lines = (proofs: readonly Proof[]) => {
    const before = new Set(unraised.split("\n"));
    return supportMatrix(proofs)
      .split("\n")
      .filter((line) => !before.has(line));
  };
  const [title = ""] = unraised.split("\n").filter((line) => line.startsWith("| Model | A10G"));
  const cellOf = (line: string | undefined, heading: string) =>
    line?.split("|")[title.split("|").findIndex((cell) => cell.trim().startsWith(`${heading} `))]?.trim();

  test("says at which split it ran, in the cell of its GPU alone", () => {
    const [fit, releases] = lines([proof]);
    expect(cellOf(fit, "A10G")).toBe("no; TP 2; **run on a GPU** (TP 2, 2026-03-01)");
    expect(cellOf(fit, "A10")).toBe("no; TP 2");
    expect(fit?.match(/run on a GPU/g)).toHaveLength(1);
    expect(releases).toContain("| llama-3.2-11b-vision | engine | multimodal |");
    expect(releases).toMatch(/\| 25\.07 on A10G \(2026-03-01\) \|$/);
  });

  test.each<[string, Proof]>([
    ["of another release", { ...proof, release: "25.06" }],
    ["of a quantized engine", { ...proof, models: [{ ...model, quantization: "int8" }] }],
    ["of a part of a GPU", { ...proof, gpu: "H100", models: [{ ...model, migProfile: "3g.40gb" }] }],
  ])("has a record %s in its list, and not in the cell of the whole GPU", (_what, other) => {
    const changed = lines([other]);
    expect(changed.filter((line) => line.includes("**run on a GPU**"))).toEqual([]);
    expect(changed.at(-1)).toContain(
      `| ${other.gpu} | ${other.release} | 575.57.08 | 2026-03-01 | aaaaaaaaaaaa |`,
    );
  });
});
