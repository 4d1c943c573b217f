import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { DockerGpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { SKIP_REASONS, Skipped } from "../../../scripts/ask/golden.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { readPlan } from "../../../scripts/program/targets.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { saveState } from "../../../scripts/tryout/state.ts";
import { hasSeries, holdsOne, runCheck } from "../../../scripts/verify/check.ts";
import { dot, maxDifference, nearestTexts } from "../../../scripts/verify/encoders.ts";
import {
  type ModelProof,
  mergedProof,
  PROOF_FOLDER,
  type Proof,
  parseProof,
  proofFileName,
  provesGpu,
  readProofFor,
  writeProof,
} from "../../../scripts/verify/proof.ts";
import { comparison, startSeconds } from "../../../scripts/verify/times.ts";
import { committedProofs, readProofs, supportMatrix } from "../../docs/support-matrix/matrix.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { times } from "../../harness/thorough.ts";
import { type CommandRun, runCommand } from "../plan/run-plan.ts";
import { fakeHost } from "./fake-host.ts";
import { type FakeStack, type Fault, startFakeStack } from "./fake-stack.ts";

describe("npx engine-room verify", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-verify-"));

  const stacks: string[] = [];

  let servers: FakeStack;

  beforeAll(async () => {
    servers = await startFakeStack(["gpt2-medium", "llava", "onevision", "blip2"]);
  });

  afterEach(() => {
    servers.fault = undefined;
    vi.unstubAllEnvs();
  });

  afterAll(async () => {
    await servers.close();
    rmSync(folder, { recursive: true, maxRetries: 5 });
    for (const name of stacks)
      rmSync(stackPaths(name).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Name that the command gives a file of proof/. */
  const A10G = "a10g-25.07.json";

  const exampleFile = (example: string) => join(projectRoot, "examples", `${example}.yaml`);

  function planOf(file: string): DockerGpuPlan {
    const plan = readPlan(stackReference("test", file));
    if (plan.tier !== "gpu" || plan.platform !== "docker") throw new Error(`${file} has no GPU on Docker`);
    return plan;
  }

  /** Runs `npx engine-room verify` on an example or a stack file, with fake servers and a fake host. */
  async function verify(
    example: string,
    {
      gpu = "NVIDIA A10G",
      out = join(mkdtempSync(join(folder, "proof-")), A10G),
    }: { gpu?: string | null; out?: string },
  ): Promise<CommandRun & { readonly out: string }> {
    const name = `test-verify-${process.pid}-${stacks.length}`;
    stacks.push(name);
    const file = isAbsolute(example) ? example : exampleFile(example);
    const plan = planOf(file);
    const { encoders, ...endpoints } = servers.endpoints;
    saveState(stackPaths(name).tryoutState, {
      pending: [],
      resources: [
        {
          urn: `urn:pulumi:${name}::engine-room::pulumi:pulumi:Stack::engine-room-${name}`,
          custom: false,
          type: "pulumi:pulumi:Stack",
          outputs: { endpoints: { ...endpoints, encoders: plan.encoders === null ? null : encoders } },
        },
      ],
    });
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    vi.stubEnv("ENGINE_ROOM_API_KEY", undefined);
    vi.stubEnv("PATH", `${fakeHost(folder, name, plan, gpu)}:${process.env.PATH}`);
    const run = await runCommand("verify", "--stack", name, "--config-file", file, "--out", out);
    return { ...run, out };
  }

  const proofAt = (path: string): Proof => parseProof(readFileSync(path, "utf8"), path);

  /** Result for a stack without a fault, once for all tests. */
  let faultless: ReturnType<typeof verify> | undefined;

  function faultlessRun(): ReturnType<typeof verify> {
    faultless ??= verify("gpt2-medium-encoders", {});
    return faultless;
  }

  /** Copies the record of such a run. */
  async function earlierRecord(): Promise<string> {
    const out = join(mkdtempSync(join(folder, "proof-")), A10G);
    copyFileSync((await faultlessRun()).out, out);
    return out;
  }

  test("a stack that answers correctly is recorded, and marked in the support matrix", async () => {
    const { exitCode, stdout, stderr, out } = await faultlessRun();
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("Verified: 14 passed, 0 failed, 0 skipped.");

    const proof = proofAt(out);
    expect(proof).toMatchObject({ version: 1, gpu: "A10G", release: "25.07", tensorRtLlm: "0.20.0" });
    expect(proof.models).toMatchObject([{ model: "gpt2-medium", run: { driver: "575.57.08" } }]);
    expect(proof.models[0]?.checks.map(({ name, level, outcome }) => [name, level, outcome])).toEqual(
      ["golden.triton", "golden.gateway", "streamed", "batched", "metrics", "build", "start"].map((name) => [
        name,
        "gpu",
        "passed",
      ]),
    );
    const figures = (name: string) => proof.models[0]?.checks.find((check) => check.name === name)?.figures;
    // 36 s + 0.66 GiB × 6.5 s are estimated, and 1 s of copy and 6 s of load.
    expect(figures("build")).toMatchObject({ llmSeconds: 44.6, llmRatio: 1.115 });
    expect(figures("build")).not.toHaveProperty("downloadSeconds");
    expect(figures("start")).toEqual({ startSeconds: 12.5, startRatio: 1.786 });
    expect(proof.encoders[0]?.checks.find(({ name }) => name === "build")?.figures).toEqual({
      exportSeconds: 12,
      trtexecSeconds: 91.5,
    });
    // The bundled picture, and the two pictures in documents of the stack.
    expect(proof.encoders[0]?.checks.find(({ name }) => name === "captions")?.figures).toEqual({
      pictures: 3,
      captions: 6,
    });

    const { date } = proof.models[0]?.run ?? expect.fail();
    const raised = supportMatrix(readProofs(join(out, "..")));
    const [was, is] = [supportMatrix([]), raised].map((text) => text.split("\n"));
    const changed = (is ?? []).filter((line) => !was?.includes(line));
    expect(changed[0]).toMatch(`| gpt2-medium | fits; **run on a GPU** (${date}) | fits | fits |`);
    expect(changed[1]).toContain(`| 25.07 on A10G (${date}) |`);
    expect(changed.filter((line) => line.startsWith("| gpt2-medium | engine | gpt |"))).toEqual([]);
    expect(changed.at(-1)).toContain("| encoders, int8 | A10G | 25.07 | 575.57.08 |");
  });

  test("a record has no address, answer or name of the machine", async () => {
    const { out } = await faultlessRun();
    const text = readFileSync(out, "utf8");
    expect(text).not.toMatch(/127\.0\.0\.1|http|\/|chef|test-verify|docker/i);
  });

  test("a second stack is added to an existing record", async () => {
    const { exitCode, stdout, out } = await verify("llava-1.5", { out: await earlierRecord() });
    expect(exitCode).toBe(0);
    expect(stdout).toContain("Verified: 7 passed, 0 failed, 0 skipped.");
    const proof = proofAt(out);
    expect(proof.models.map(({ model }) => model)).toEqual(["gpt2-medium", "llava-1.5-7b"]);
    expect(proof.encoders).toHaveLength(1);
    const matrix = supportMatrix(readProofs(join(out, "..")));
    expect(matrix).toMatch(/^\| llava-1\.5-7b \| fits; \*\*run on a GPU\*\*/m);
    expect(matrix).toMatch(/^\| gpt2-medium \| fits; \*\*run on a GPU\*\*/m);
  });

  const file = join(folder, "pictures.yaml");
  const config = {
    platform: "docker",
    release: "25.07",
    host: { instanceType: "g6e.4xlarge", diskGiB: 300 },
    encoders: false,
    models: [
      { name: "onevision", model: "llava-onevision-qwen2-7b" },
      { name: "blip2", model: "blip2-opt-2.7b" },
    ],
  };
  writeFileSync(file, stackFileText(config));

  test("a picture is sent to Triton and to the gateway, with any image processor of the model", async () => {
    const out = join(mkdtempSync(join(folder, "proof-")), "l40s-25.07.json");
    const { stdout } = await verify(file, { gpu: "NVIDIA L40S", out });
    expect(stdout).toMatch(/^ok +onevision +golden question at Triton .*“a cup of coffee”$/m);
    expect(stdout).toMatch(/^ok +onevision +golden question at the gateway .*“a cup of coffee”$/m);
    expect(stdout).toMatch(/^ok +blip2 +golden question at Triton .*“a cup of coffee”$/m);
    expect(stdout).toMatch(/^ok +blip2 +golden question at the gateway .*“a cup of coffee”$/m);
    const matrix = supportMatrix(readProofs(join(out, "..")));
    expect(matrix).toMatch(/^\| llava-onevision-qwen2-7b .*\*\*run on a GPU\*\*/m);
    expect(matrix).toMatch(/^\| blip2-opt-2\.7b .*\*\*run on a GPU\*\*/m);
  });

  const faults: Readonly<Record<Fault, RegExp>> = {
    "wrong answer": /FAILED +gpt2-medium +golden question at Triton .*does not hold “chef”/,
    "other words in a stream":
      /FAILED +gpt2-medium +streamed .*streamed “before moving”, whole “chef before moving”/,
    "other answers in a batch": /FAILED +gpt2-medium +asked at once .*among 4 “other”/,
    "a metric without waiting requests":
      /FAILED +gpt2-medium +names of metrics .*1 of \d+ series are missing: nv_trt_llm_request_metrics\{.*"waiting"\}/,
    "other vectors of texts":
      /FAILED +encoders +published similarities .*from the published one, more than 0\.1/,
    "other vectors in a batch": /FAILED +encoders +a batch equals .*1\.0e-1 from that of a single request/,
    "pictures mixed up": /FAILED +encoders +captions .*sample-cat is nearest to the caption of sample-/,
    "error of the gateway": /FAILED +gpt2-medium +golden question at the gateway .*503/,
  };
  test.each(Object.entries(faults))(
    "%s fails its check, and marks nothing in the support matrix",
    async (fault, line) => {
      servers.fault = fault as Fault;
      const { exitCode, stdout, out } = await verify("gpt2-medium-encoders", {});
      expect(exitCode).toBe(1);
      expect(stdout).toMatch(line);
      expect(stdout).toMatch(/^NOT verified: \d+ passed, [1-9]\d* failed, 0 skipped\.$/m);

      const proof = proofAt(out);
      const failed = [...proof.models, ...proof.encoders].flatMap(({ checks }) =>
        checks.filter(({ outcome }) => outcome === "failed"),
      );
      expect(failed.length).toBeGreaterThan(0);
      expect(readFileSync(out, "utf8")).not.toMatch(/10\.1\.2\.3|do not know/);
      const [matrix, subject] = [
        supportMatrix([proof]),
        line.source.includes("encoders") ? "encoders" : "model",
      ];
      if (subject === "model") expect(matrix).not.toContain("| gpt2-medium | fits; **run on a GPU**");
      else expect(matrix).not.toContain("| encoders, int8 |");
    },
  );

  test("a failed run removes the mark of an earlier one", async () => {
    const out = await earlierRecord();
    expect(supportMatrix([proofAt(out)])).toContain("gpt2-medium | fits; **run on a GPU**");
    servers.fault = "wrong answer";
    await verify("gpt2-medium-encoders", { out });
    expect(proofAt(out).models).toHaveLength(1);
    expect(supportMatrix([proofAt(out)])).not.toContain("gpt2-medium | fits; **run on a GPU**");
  });

  const gpus = {
    "no GPU": null,
    "another GPU than the plan's": "NVIDIA L4",
    "an unknown GPU": "NVIDIA X1",
  };
  test.each(Object.entries(gpus))("a host with %s writes no proof file", async (_name, gpu) => {
    const { exitCode, stdout, out } = await verify("llava-1.5", { gpu });
    expect(exitCode).toBe(0);
    expect(stdout).toContain(
      gpu === null
        ? "No proof file was written: nvidia-smi shows no GPU of the host (No devices were found)."
        : `No proof file was written: the host has ${gpu}, and the plan is for A10G.`,
    );
    expect(existsSync(out)).toBe(false);
  });

  test("a file of another form is refused before any request", async () => {
    const out = join(folder, "other.json");
    writeFileSync(out, '{"version": 1, "host": "gpu.example.org"}');
    const before = servers.asked.length;
    const { exitCode, stderr } = await verify("llava-1.5", { out });
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`${out} is not a proof file that this version reads`);
    expect(stderr).toContain('Unrecognized key: "host"');
    expect(stderr).toMatch(/^ {2}gpu: /m);
    expect(servers.asked).toHaveLength(before);
  });
});

describe("a proof file", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-proof-"));

  afterAll(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

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
    expect(() => committedProofs()).not.toThrow();
  });

  test("a proof file is read as it was written", () => {
    const path = join(folder, "a10g-25.07.json");
    writeProof(path, proof);
    expect(readProofFor(path, "A10G", "25.07")).toEqual(proof);
    expect(() => readProofFor(path, "L4", "25.07")).toThrow("has records of A10G and 25.07");
    expect(readProofFor(join(folder, "missing.json"), "L4", "25.07")).toBeUndefined();
  });

  test("a proof file has the name of its GPU and release", () => {
    expect(proofFileName("RTX 3090", "24.12")).toBe("rtx-3090-24.12.json");
    const other = mkdtempSync(join(folder, "named-"));
    writeProof(join(other, "mine.json"), proof);
    expect(() => readProofs(other)).toThrow("name it a10g-25.07.json");
  });

  test("an invalid proof file is refused with every mistake at its path", () => {
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
          checks: [
            { ...check, reason: "on gpu-7" },
            { ...check, figures: { "10.0.0.1": 1 } },
          ],
        },
      ],
    });
    expect(text).toContain("x.json is not a proof file that this version reads");
    expect(text).toMatch(/^ {2}gpu: /m);
    expect(text).toMatch(/^ {2}models\[0\]: Unrecognized key: "hostname"/m);
    expect(text).toMatch(/^ {2}models\[1\]\.run\.driver: /m);
    expect(text).toMatch(/^ {2}models\[1\]\.checks\[0\]\.reason: /m);
    expect(text).toMatch(/^ {2}models\[1\]\.checks\[1\]\.figures/m);
  });

  test("a proof file that is a list is refused", () => {
    expect(problemsOf([])).toMatch(/^ {2}\(file\): /m);
  });

  test("a proof file that is not JSON is refused", () => {
    const path = join(folder, "cut.json");
    writeFileSync(path, '{"version": 1,');
    expect(() => readProofFor(path, "A10G", "25.07")).toThrow(`${path} is not JSON`);
  });

  test("a proof that could not be read is not written", () => {
    const wrong = { ...proof, gpu: "mine" } as unknown as Proof;
    expect(() => writeProof(join(folder, "wrong.json"), wrong)).toThrow("gpu");
  });

  test("a later run replaces its own models and keeps the others", () => {
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

  test("of two servers with the same model, the server that proves less is recorded, in any order", () => {
    const failed: ModelProof = { ...model, checks: [{ ...passed("golden.triton"), outcome: "failed" }] };
    for (const models of [
      [model, failed],
      [failed, model],
    ])
      expect(mergedProof(undefined, { ...proof, models }).models).toEqual([failed]);
  });

  const unraised = supportMatrix([]);

  const without = (name: string) => model.checks.filter((check) => check.name !== name);
  const skipped = (name: ModelProof["checks"][number]["name"], reason: "doesNotStream" | "pictureIsTensor") =>
    ({ ...passed(name), outcome: "skipped", reason }) as const;

  test("a record with every required check proves a model on a GPU", () => {
    expect(provesGpu(model)).toBe(true);
    const excused = [...without("streamed"), skipped("streamed", "doesNotStream")];
    expect(provesGpu({ ...model, checks: excused })).toBe(true);
  });

  test.each(model.checks.map(({ name }) => name))("a record without %s proves nothing", (name) => {
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

  test("a record with any failed check proves nothing", () => {
    const checks = [...model.checks, { ...passed("build"), outcome: "failed" as const }];
    expect(provesGpu({ ...model, checks })).toBe(false);
  });

  const lines = (proofs: readonly Proof[]) => {
    const before = new Set(unraised.split("\n"));
    return supportMatrix(proofs)
      .split("\n")
      .filter((line) => !before.has(line));
  };
  const [title = ""] = unraised.split("\n").filter((line) => line.startsWith("| Model | A10G"));
  const cellOf = (line: string | undefined, heading: string) =>
    line?.split("|")[title.split("|").findIndex((cell) => cell.trim().startsWith(`${heading} `))]?.trim();

  test("the support matrix has the tensor parallelism of a model's run, only in the cell of its GPU", () => {
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
  ])(
    "the support matrix lists a record %s, and does not change the cell of the whole GPU",
    (_what, other) => {
      const changed = lines([other]);
      expect(changed.filter((line) => line.includes("**run on a GPU**"))).toEqual([]);
      expect(changed.at(-1)).toContain(
        `| ${other.gpu} | ${other.release} | 575.57.08 | 2026-03-01 | aaaaaaaaaaaa |`,
      );
    },
  );
});

test("a series is found on a page of Prometheus by its name and labels", () => {
  const page = [
    "# TYPE nv_inference_count counter",
    'nv_inference_count{model="ensemble",version="1"} 12',
    "nv_cpu_utilization 0.25",
  ].join("\n");
  const has = (name: string, labels: Record<string, string>) => hasSeries(page, { name, labels });
  expect(has("nv_inference_count", { version: "1", model: "ensemble" })).toBe(true);
  expect(has("nv_inference_count", { model: "other" })).toBe(false);
  expect(has("nv_inference_count", { el: "ensemble" })).toBe(false);
  expect(has("nv_inference", {})).toBe(false);
  expect(has("nv_cpu_utilization", {})).toBe(true);
});

test("the nearest text has the largest dot product", () => {
  expect(dot([0.6, 0.8], [0.8, 0.6])).toBeCloseTo(0.96);
  expect(
    nearestTexts(
      [
        [0, 1],
        [1, 0],
      ],
      [
        [0.9, 0.1],
        [0.1, 0.9],
      ],
    ),
  ).toEqual([1, 0]);
});

test("the largest difference of vectors is found at any place", () => {
  const rows = fc.array(
    fc.array(fc.float({ noNaN: true, min: -1, max: 1 }), { minLength: 3, maxLength: 3 }),
    {
      minLength: 1,
    },
  );
  fc.assert(
    fc.property(rows, fc.nat(), fc.nat(2), (vectors, row, column) => {
      const other = vectors.map((vector) => [...vector]);
      const changed = other[row % other.length] ?? [];
      changed[column] = (changed[column] ?? 0) + 3;
      expect(maxDifference(vectors, vectors)).toBe(0);
      expect(maxDifference(vectors, other)).toBeCloseTo(3, 5);
    }),
    { numRuns: times(100, 2000) },
  );
});

test("vectors with NaN or of another length never match", () => {
  expect(maxDifference([[1, Number.NaN]], [[1, 0]])).toBeNaN();
  expect(maxDifference([[1]], [[1, 2]])).toBeNaN();
  expect(maxDifference([[1]], [])).toBeNaN();
});

const started = "2026-01-01T00:00:00.250000000Z";
const serves = (time: string) => `${time} I0101 1 http_server.cc:4755] Started HTTPService at 0.0.0.0:8000`;

test("a start ends at the first line that says so", () => {
  const log = `${started} loading\n${serves("2026-01-01T00:01:40.750000000Z")}\n${serves("2026-01-01T00:09:00Z")}\n`;
  expect(startSeconds(started, log)).toBe(100.5);
});

test("a start has no time if its line is missing, or from an earlier start", () => {
  expect(startSeconds(started, "2026-01-01T00:09:00Z a request\n")).toBeNull();
  expect(startSeconds(started, serves("2025-12-31T23:59:59Z"))).toBeNull();
  expect(startSeconds(started, "Started HTTPService at 0.0.0.0:8000")).toBeNull();
});

test("times are compared if there is an estimate, and left out if nothing was done", () => {
  expect(comparison({ download: 0, llm: 90, requirements: 4 }, { download: 140, llm: 60 })).toEqual({
    text: "llm 90.0 s (1.50 × the estimate), requirements 4.0 s",
    figures: { llmSeconds: 90, llmRatio: 1.5, requirementsSeconds: 4 },
  });
});

test("a word is found in an answer in upper or lower case", () => {
  expect(holdsOne("It is PARIS.", { answerContains: ["London", "paris"] })).toBe(true);
  expect(holdsOne("It is Rome.", { answerContains: ["London", "paris"] })).toBe(false);
});

const run = (work: () => Promise<{ text: string; figures?: Record<string, number> }>) =>
  runCheck({ name: "start", level: "gpu", run: work });

test("a passed check has its figures, to four digits", async () => {
  expect(await run(async () => ({ text: "fine", figures: { startSeconds: 12.345678 } }))).toEqual({
    record: { name: "start", level: "gpu", outcome: "passed", figures: { startSeconds: 12.35 } },
    text: "fine",
  });
});

test("a skipped check gives the reason", async () => {
  const { record, text } = await run(async () => {
    throw new Skipped("noEngine");
  });
  expect(record).toMatchObject({ outcome: "skipped", reason: "noEngine" });
  expect(text).toBe(SKIP_REASONS.noEngine);
});

test("the record of a failed check has no error text", async () => {
  const { record, text } = await run(() => {
    throw new Error("fetch failed", { cause: new Error("connect ECONNREFUSED 10.0.0.1:8000") });
  });
  expect(record).toEqual({ name: "start", level: "gpu", outcome: "failed", figures: {} });
  expect(text).toBe("fetch failed: connect ECONNREFUSED 10.0.0.1:8000");
});
