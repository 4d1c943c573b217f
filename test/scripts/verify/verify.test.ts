import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { DockerGpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { supportMatrix } from "../../../scripts/plan/support-matrix.ts";
import { readPlan } from "../../../scripts/program/docker-target.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/backend.ts";
import { saveState } from "../../../scripts/tryout/state.ts";
import { type Proof, parseProof, readProofs } from "../../../scripts/verify/proof-file.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { type CommandRun, runCommand } from "../plan/run-plan.ts";
import { fakeHost } from "./fake-host.ts";
import { type FakeStack, type Fault, startFakeStack } from "./fake-stack.ts";

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
  rmSync(folder, { recursive: true });
  for (const name of stacks) rmSync(stackPaths(name).directory, { recursive: true, force: true });
});

/** A file of proof/, named as the command would. */
const A10G = "a10g-25.07.json";

const exampleFile = (example: string) => join(projectRoot, "examples", `${example}.yaml`);

function planOf(file: string): DockerGpuPlan {
  const plan = readPlan(stackReference("test", file));
  if (plan.tier !== "gpu" || plan.platform !== "docker") throw new Error(`${file} has no GPU on Docker`);
  return plan;
}

/** `npm run verify` on an example, or the stack of a file, that is up, with its servers and its host as fakes. */
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
  saveState(
    stackPaths(name).tryoutState,
    [
      {
        urn: `urn:pulumi:${name}::engine-room::pulumi:pulumi:Stack::engine-room-${name}`,
        custom: false,
        type: "pulumi:pulumi:Stack",
        outputs: { endpoints: { ...endpoints, encoders: plan.encoders === null ? null : encoders } },
      },
    ],
    [],
  );
  vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
  vi.stubEnv("ENGINE_ROOM_API_KEY", undefined);
  vi.stubEnv("PATH", `${fakeHost(folder, name, plan, gpu)}:${process.env.PATH}`);
  const run = await runCommand("verify", "--stack", name, "--config-file", file, "--out", out);
  return { ...run, out };
}

const proofAt = (path: string): Proof => parseProof(readFileSync(path, "utf8"), path);

describe("a stack that answers as it should", () => {
  test("is recorded, and raises the matrix", async () => {
    const { exitCode, stdout, stderr, out } = await verify("gpt2-medium-encoders", {});
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
    // The bundled picture, and the two that are documents of the stack.
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

  test("has nothing of the machine in its record", async () => {
    const { out } = await verify("gpt2-medium-encoders", {});
    const text = readFileSync(out, "utf8");
    expect(text).not.toMatch(/127\.0\.0\.1|http|\/|chef|test-verify|docker/i);
  });

  test("is added to what was recorded", async () => {
    const first = await verify("gpt2-medium-encoders", {});
    const { exitCode, stdout, out } = await verify("llava-1.5", { out: first.out });
    expect(exitCode).toBe(0);
    expect(stdout).toContain("Verified: 7 passed, 0 failed, 0 skipped.");
    const proof = proofAt(out);
    expect(proof.models.map(({ model }) => model)).toEqual(["gpt2-medium", "llava-1.5-7b"]);
    expect(proof.encoders).toHaveLength(1);
    const matrix = supportMatrix(readProofs(join(out, "..")));
    expect(matrix).toMatch(/^\| llava-1\.5-7b \| fits; \*\*run on a GPU\*\*/m);
    expect(matrix).toMatch(/^\| gpt2-medium \| fits; \*\*run on a GPU\*\*/m);
  });
});

describe("a picture", () => {
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

  test("goes to Triton and to the gateway, and where it can't, nothing is claimed", async () => {
    const out = join(mkdtempSync(join(folder, "proof-")), "l40s-25.07.json");
    const { stdout } = await verify(file, { gpu: "NVIDIA L40S", out });
    expect(stdout).toMatch(/^ok +onevision +golden question at Triton .*“a cup of coffee”$/m);
    expect(stdout).toMatch(/^ok +onevision +golden question at the gateway .*“a cup of coffee”$/m);
    expect(stdout).toMatch(/^skipped +blip2 +golden question at Triton .*takes pictures as tensors/m);
    const matrix = supportMatrix(readProofs(join(out, "..")));
    expect(matrix).toMatch(/^\| llava-onevision-qwen2-7b .*\*\*run on a GPU\*\*/m);
    expect(matrix).not.toMatch(/^\| blip2-opt-2\.7b .*\*\*run on a GPU\*\*/m);
  });
});

describe("a stack that does not", () => {
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
  test.each(Object.entries(faults))("%s", async (fault, line) => {
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
  });

  test("takes back what an earlier run had raised", async () => {
    const { out } = await verify("gpt2-medium-encoders", {});
    expect(supportMatrix([proofAt(out)])).toContain("gpt2-medium | fits; **run on a GPU**");
    servers.fault = "wrong answer";
    await verify("gpt2-medium-encoders", { out });
    expect(proofAt(out).models).toHaveLength(1);
    expect(supportMatrix([proofAt(out)])).not.toContain("gpt2-medium | fits; **run on a GPU**");
  });
});

describe("nothing is recorded", () => {
  const faults = {
    "no GPU": null,
    "another GPU than the plan's": "NVIDIA L4",
    "an unknown GPU": "NVIDIA X1",
  };
  test.each(Object.entries(faults))("%s", async (_name, gpu) => {
    const { exitCode, stdout, out } = await verify("llava-1.5", { gpu });
    expect(exitCode).toBe(0);
    expect(stdout).toContain(
      gpu === null
        ? "No proof file was written: nvidia-smi shows no GPU of the host (No devices were found)."
        : `No proof file was written: the host has ${gpu}, and the plan is for A10G.`,
    );
    expect(existsSync(out)).toBe(false);
  });

  test("where the file can't take it, and nothing is asked", async () => {
    const out = join(folder, "other.json");
    writeFileSync(out, '{"version": 1, "host": "gpu.example.org"}');
    const before = servers.asked.length;
    const { exitCode, stderr } = await verify("llava-1.5", { out });
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`${out} is no proof file that this version reads`);
    expect(stderr).toContain('Unrecognized key: "host"');
    expect(stderr).toMatch(/^ {2}gpu: /m);
    expect(servers.asked).toHaveLength(before);
  });
});
