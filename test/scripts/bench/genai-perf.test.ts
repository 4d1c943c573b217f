import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { figuresOf, genaiPerfScript, genaiPerfTable } from "../../../scripts/bench/genai-perf.ts";
import { genaiPerfJob } from "../../../scripts/bench/genai-perf-job.ts";
import { localRun } from "../../../scripts/bench/genai-perf-local.ts";
import { clusterTarget, dockerTarget } from "../../../scripts/program/targets.ts";
import { EC2_STACK } from "../../harness/aws/stacks.ts";
import { projectStackValues, stackFileText, writtenStackFile } from "../../harness/stack-files.ts";
import { account, running } from "../aws/account.ts";
import { startFakeAws, stubCredentials } from "../aws/fake-aws.ts";
import { STACK as CLUSTER, fakeKubectl } from "../cluster/fake-kubectl.ts";
import { runCommand } from "../plan/run-plan.ts";

type Values = Readonly<Record<string, unknown>>;

const folder = mkdtempSync(join(tmpdir(), "engine-room-genai-perf-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

const TUTORIAL = projectStackValues("examples/llama-2-7b-tutorial.yaml");
const LOCAL = projectStackValues("Pulumi.local.yaml");
const LLMAPI = {
  ...TUTORIAL,
  release: "25.12",
  models: [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi", gpuIndices: [0] }],
};

const CPU_ON_DOCKER = { platform: "docker", tier: "cpu", models: LOCAL.models };

function cpuPlan(values: Values) {
  const { plan } = checkedPlan(values);
  return plan.tier === "cpu" ? plan : expect.fail("a stack on GPUs");
}

function stackFile(values: Values): string {
  const file = join(folder, "stack.yaml");
  writeFileSync(file, stackFileText(values));
  return file;
}

const bench = (values: Values, ...options: readonly string[]) =>
  runCommand("bench", "--stack", "it", "--config-file", stackFile(values), ...options);

/** Options of Triton's Llama-2 tutorial: `genai-perf -m ensemble … --num-prompts 100 --random-seed 123 --concurrency 1`. */
const AS_THE_TUTORIAL = ["--concurrency", "1", "--prompts", "100", "--seed", "123"];

describe("the command that is run", () => {
  test.each<readonly [string, Values, readonly string[]]>([
    ["llama-2-7b-tutorial", TUTORIAL, ["--model", "llama-2-7b", ...AS_THE_TUTORIAL]],
    ["docker-24.11", { ...TUTORIAL, release: "24.11" }, ["--model", "llama-2-7b"]],
    ["docker-llmapi", LLMAPI, ["--model", "chat", "--output-tokens", "20"]],
    [
      "llama-2-7b-chat-kubernetes",
      projectStackValues("examples/llama-2-7b-chat-kubernetes.yaml"),
      ["--model", "llama-2-7b-chat", "--input-tokens", "500"],
    ],
  ])("the command of %s is as recorded", async (name, values, options) => {
    const { exitCode, stdout, stderr } = await bench(values, ...options, "--explain");
    expect([exitCode, stderr]).toEqual([0, ""]);
    await expect(stdout).toMatchFileSnapshot(`../../recorded/bench/${name}.txt`);
  });

  test("the command of this machine is as recorded", async () => {
    const { explained } = localRun(cpuPlan(LOCAL), {
      model: "smollm2",
      load: { concurrency: 2, requests: 6, inputTokens: 20, outputTokens: 16, seed: 0 },
      tokenizer: undefined,
      gateway: "http://127.0.0.1:8080",
    });
    await expect(explained).toMatchFileSnapshot("../../recorded/bench/local.txt");
  });

  test.each<readonly [string, Values, RegExp]>([
    [
      "on a Docker host",
      CPU_ON_DOCKER,
      /^The stack it is not up; .*\nThe printed request has the planned address\.\n$/,
    ],
    [
      "in a cluster",
      projectStackValues("Pulumi.kind.yaml"),
      /^`npx engine-room connect --stack it` opens the printed address; .*\n$/,
    ],
  ])(
    "the command of a stack on CPUs %s is that of this machine, without a stack that is up",
    async (_, values, note) => {
      vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
      const load = ["--concurrency", "2", "--prompts", "6", "--input-tokens", "20", "--output-tokens", "16"];
      const { exitCode, stdout, stderr } = await bench(values, "--model", "smollm2", ...load, "--explain");
      expect(exitCode, stderr).toBe(0);
      expect(stderr).toMatch(note);
      await expect(stdout).toMatchFileSnapshot("../../recorded/bench/local.txt");
    },
  );

  test("a server whose volumes GenAI-Perf's container gets has no secret", () => {
    const { plan } = checkedPlan(TUTORIAL);
    if (plan.platform !== "docker") expect.fail("no stack of a Docker host");
    const { containers } = dockerTarget(plan, "it").stack;
    const servers = containers.filter(({ container }) => container.role === "triton");
    expect(servers.map(({ secretFiles }) => secretFiles)).toEqual([{}, {}]);
    expect(JSON.stringify(servers)).not.toContain("hub-token");
    expect(JSON.stringify(containers)).toContain("hub-token");
  });
});

/** Figures of GenAI-Perf 0.0.16 and perf_analyzer 2.60.0 against a local stack's gateway, without some statistics. */
const FIGURES = {
  request_throughput: { unit: "requests/sec", avg: 1.6513 },
  time_to_first_token: { unit: "ms", avg: 513.61, p50: 513.95, p90: 729.21, p99: 860 },
};
const CSV =
  "Metric,avg,min\nTime To First Token (ms),513.61,275.57\n\nMetric,Value\nRequest Throughput (per sec),1.65\n";
const JSON_FILE = JSON.stringify({ ...FIGURES, input_config: { model_names: ["smollm2"] }, telemetry: null });
const LOG = `[INFO] profiling\n\n@@figures\n${JSON_FILE}\n@@csv\n${CSV}`;

/** Installs a program that records its arguments, one a line, and prints a log. */
function program(name: string, log: string, exitCode = 0): void {
  writeFileSync(join(folder, "log"), log);
  const script = `#!/bin/sh\nprintf '%s\\n' "$@" > ${folder}/words\ncat ${folder}/log\nexit ${exitCode}\n`;
  writeFileSync(join(folder, name), script, { mode: 0o755 });
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
}

const words = () => readFileSync(join(folder, "words"), "utf8").trimEnd().split("\n");

describe("a run", () => {
  const out = join(folder, "out.json");
  const csv = join(folder, "out.csv");

  test("a run on a Docker host prints the table and keeps JSON and CSV", async () => {
    program("docker", LOG);
    const options = ["--model", "llama-2-7b", "--out", out, "--csv", csv];
    const { exitCode, stdout } = await bench(TUTORIAL, ...options);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^time_to_first_token \(ms\) +513\.61 +513\.95 +729\.21 +860\.00$/m);
    expect(words().slice(0, 5)).toEqual(["run", "--rm", "--init", "--network", "container:it-llama-2-7b"]);
    expect(JSON.parse(readFileSync(out, "utf8"))).toEqual({
      model: "llama-2-7b",
      release: "25.07",
      engineKey: expect.stringMatching(/^[0-9a-f]{64}$/),
      image: "nvcr.io/nvidia/tritonserver:25.07-py3-sdk",
      load: { concurrency: 8, requests: 100, inputTokens: 200, outputTokens: 100, seed: 0 },
      figures: FIGURES,
    });
    expect(readFileSync(csv, "utf8")).toBe(CSV);
  });

  test("a run on EC2 is as recorded, and is read from a session, whose terminal ends lines with two characters", async () => {
    stubCredentials();
    const machine = { type: "g5.xlarge", zone: "us-east-1a", state: "running" };
    const aws = await startFakeAws(account({ "ec2:DescribeInstances": () => running([machine]) }));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
    try {
      program("session-manager-plugin", "");
      program("aws", `Starting session\r\n${LOG.replaceAll("\n", "\r\n")}\r\nExiting session\r\n`);
      const { exitCode, stdout } = await bench(EC2_STACK, "--model", "gpt2-medium");
      expect([exitCode, stdout]).toEqual([0, expect.stringContaining("request_throughput")]);
      const { command } = JSON.parse(words().at(-1) ?? "");
      const { stdout: explained } = await bench(EC2_STACK, "--model", "gpt2-medium", "--explain");
      await expect(explained).toMatchFileSnapshot("../../recorded/bench/ec2.txt");
      expect(command).toEqual([explained.trimEnd().replaceAll(" \\\n  ", " ")]);
    } finally {
      await aws.close();
    }
  });

  test("a run that fails or has no figures is reported with its last lines", async () => {
    program("docker", "Traceback\nOSError: no tokenizer\n", 1);
    expect((await bench(TUTORIAL, "--model", "llama-2-7b")).stderr).toContain(
      "GenAI-Perf ended with exit code 1; its last lines:\nTraceback | OSError: no tokenizer",
    );
    expect(() => figuresOf("Traceback\nOSError")).toThrow("no figures; its last lines:\nTraceback | OSError");
  });

  test("the script prints the files of any release, in any folder", async () => {
    const artifacts = join(folder, "artifacts", "m-triton-tensorrtllm-concurrency8");
    mkdirSync(artifacts, { recursive: true });
    writeFileSync(join(artifacts, "profile_export_genai_perf.json"), JSON_FILE);
    writeFileSync(join(artifacts, "profile_export_genai_perf.csv"), CSV);
    writeFileSync(join(artifacts, "inputs.json"), "{}");
    program("genai-perf", "table\n");
    const { commandRun } = await import("../../../scripts/bench/genai-perf.ts");
    const argv = ["sh", "-ec", genaiPerfScript(join(folder, "artifacts")), "genai-perf", "profile", "a b"];
    const log = await commandRun({} as never, "", async () => argv).run();
    expect(words()).toEqual(["profile", "a b"]);
    expect(figuresOf(log)).toEqual({ figures: FIGURES, csv: CSV });
    expect(genaiPerfTable(FIGURES)[1]).toMatch(/^request_throughput \(requests\/sec\) +1\.65$/);
  });
});

describe("the Job", () => {
  const load = { concurrency: 8, requests: 100, inputTokens: 200, outputTokens: 100, seed: 0 };
  const GPT = { name: "gpt", model: "gpt2-medium" };
  const { plan } = checkedPlan({ ...CLUSTER, models: [GPT] });
  if (plan.platform !== "kubernetes" || plan.tier !== "gpu") throw new Error("not GPUs in a cluster");
  const target = { ...clusterTarget(plan, "fake"), plan };

  test("the Job has the labels by which the network policies let it reach Triton and the gateway", () => {
    const { template } = genaiPerfJob(target, "gpt", load, "x").spec;
    const bench = target.stack.policies.find(({ role }) => role === "bench") ?? expect.fail();
    expect(template.metadata.labels).toMatchObject(bench.policy.spec?.podSelector?.matchLabels ?? {});
    expect(bench.policy.spec?.podSelector?.matchLabels).toHaveProperty(["app.kubernetes.io/component"]);
  });

  const condition = (type: string, message = "") => ({
    status: { conditions: [{ type, status: "True", message }] },
  });

  async function benched(answers: Values | string, ...options: readonly string[]) {
    const kubectl = fakeKubectl();
    try {
      if (typeof answers === "string") kubectl.says(answers);
      else kubectl.answers(answers);
      const file = writtenStackFile(kubectl.folder, { ...CLUSTER, models: [GPT] });
      const output = await kubectl.runFor(file, "bench", "--model", "gpt", ...options);
      return { ...output, inputs: kubectl.inputs(), calls: kubectl.calls() };
    } finally {
      await kubectl.remove();
    }
  }

  test("the Job is created, read and deleted, and its figures are kept", async () => {
    const out = join(folder, "job.json");
    const { code, text, inputs, calls } = await benched(
      {
        "create --namespace engine-room --filename -": "job.batch/bench created\n",
        "get --namespace engine-room --output json job/bench-gpt-": condition("Complete"),
        "logs --namespace engine-room --tail -1 job/bench-gpt-": LOG,
        "delete --namespace engine-room --wait=false --ignore-not-found job/bench-gpt-": "",
      },
      ...["--out", out],
    );
    expect(code, text).toBe(0);
    const { kind, metadata } = JSON.parse(inputs[0] ?? "{}") as { kind: string; metadata: { name: string } };
    expect(kind).toBe("Job");
    expect(calls.at(-1)?.at(-1)).toBe(`job/${metadata.name}`);
    expect(JSON.parse(readFileSync(out, "utf8"))).toMatchObject({ model: "gpt", figures: FIGURES });
  });

  test("a Job that fails is deleted, and its last lines are shown", async () => {
    const failed = condition("Failed", "Job has reached the specified backoff limit");
    const answers = { create: "", get: failed, logs: "connection refused\n", delete: "" };
    const { code, text, calls } = await benched(answers);
    expect(code).toBe(1);
    expect(text).toMatch(/backoff limit\nconnection refused/);
    expect(calls.at(-1)).toContain("delete");
  });

  test("no Job is made for a stack on CPUs: GenAI-Perf of this machine asks the forwarded gateway", async () => {
    program("genai-perf", LOG);
    program("perf_analyzer", LOG);
    const kubectl = fakeKubectl();
    try {
      kubectl.targets({ "engine-room/gateway:8080": 1 });
      const file = writtenStackFile(kubectl.folder, {
        ...{ platform: "kubernetes", tier: "cpu", context: "fake", namespace: "engine-room" },
        ...{ images: { registry: "registry.example.org/x" }, models: LOCAL.models },
      });
      const { code, text } = await kubectl.runFor(file, "bench", "--model", "smollm2");
      expect(code, text).toBe(0);
      expect(text).toContain("time_to_first_token (ms)");
      expect(words()[words().indexOf("--url") + 1]).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
      expect(kubectl.pids("gateway")).toHaveLength(1);
    } finally {
      await kubectl.remove();
    }
  });

  test("a Job that an unreachable cluster does not accept is an error in the project's own words", async () => {
    const words =
      'error: error validating "STDIN": error validating data: failed to download openapi: Get "http://localhost:8080/openapi/v2?timeout=20s": dial tcp [::1]:8080: connect: connection refused; if you choose to ignore these errors, turn validation off with --validate=false';
    const { code, text } = await benched(words);
    expect(code).toBe(1);
    expect(text).toMatch(
      /^kubectl has no access to the cluster of the context fake\. .*refused.*\nTry `kubectl version`; .*\n$/,
    );
    expect(text).not.toContain("validation off");
  });
});

describe("a benchmark that can't run is refused before anything runs:", () => {
  const keys = [{ name: "a", sha256: "0".repeat(64) }];
  const llava = { name: "llava", model: "llava-1.5-7b", flavour: "multimodal" };

  test.each<readonly [string, Values, readonly string[], string | RegExp]>([
    [
      "an unknown model",
      TUTORIAL,
      ["--model", "gpt"],
      'no model "gpt". Choose from llama-2-7b, llama-2-7b-cli.',
    ],
    [
      "a release whose GenAI-Perf asks the hub",
      { ...TUTORIAL, release: "24.08" },
      ["--model", "llama-2-7b"],
      "24.09 and newer, and the stack has 24.08",
    ],
    [
      "a model that needs a picture",
      { ...TUTORIAL, models: [{ ...llava, gpuIndices: [0] }] },
      ["--model", "llava"],
      "llava answers nothing without a picture",
    ],
    [
      "a gateway with keys",
      { ...LLMAPI, gateway: { apiKeys: keys } },
      ["--model", "chat"],
      "would show it in the arguments of perf_analyzer",
    ],
    ["an unknown model on CPUs", CPU_ON_DOCKER, ["--model", "smollm"], "Did you mean smollm2?"],
    [
      "fewer prompts than requests at a time",
      TUTORIAL,
      ["--model", "llama-2-7b", "--prompts", "4"],
      "--prompts is 4, and --concurrency 8",
    ],
    [
      "several loads",
      TUTORIAL,
      ["--model", "llama-2-7b", "--concurrency", "1,2"],
      '--concurrency is "1,2"; it must be a whole number',
    ],
    [
      "numbers that are none, all together",
      TUTORIAL,
      ["--model", "llama-2-7b", "--seed", "-1", "--prompts", "0"],
      /--prompts is "0".*\n.*--seed is "-1"/,
    ],
    [
      "longer prompts than the engine takes",
      TUTORIAL,
      ["--model", "llama-2-7b", "--input-tokens", "999999"],
      "--input-tokens is 999999, and llama-2-7b takes",
    ],
    [
      "a tokenizer for a container",
      TUTORIAL,
      ["--model", "llama-2-7b", "--tokenizer", "/t"],
      "--tokenizer is for stacks on CPUs",
    ],
    [
      "options of a sweep",
      TUTORIAL,
      ["--model", "llama-2-7b", "--svg", "x.svg"],
      "--svg is for `npx engine-room bench sweep`.",
    ],
    [
      "options of GenAI-Perf without a model",
      TUTORIAL,
      ["--seed", "1"],
      "--seed is for `npx engine-room bench --model NAME`.",
    ],
  ])("%s", async (_, values, options, sentence) => {
    program("docker", "never");
    rmSync(join(folder, "words"), { force: true });
    const { exitCode, stderr } = await bench(values, ...options);
    expect(exitCode).toBeGreaterThan(0);
    expect(stderr).toMatch(sentence);
    expect(() => words()).toThrow("ENOENT");
  });

  test("this machine without GenAI-Perf, or whose perf_analyzer has no program", async () => {
    vi.stubEnv("PATH", folder);
    for (const name of ["genai-perf", "perf_analyzer"]) rmSync(join(folder, name), { force: true });
    const run = localRun(cpuPlan(LOCAL), {
      model: "smollm2",
      load: { concurrency: 1, requests: 1, inputTokens: 20, outputTokens: 16, seed: 0 },
      tokenizer: "/tokenizer",
      gateway: "http://127.0.0.1:8080",
    });
    await expect(run.run()).rejects.toThrow("no genai-perf on PATH");
    writeFileSync(join(folder, "genai-perf"), "#!/bin/sh\n", { mode: 0o755 });
    await expect(run.run()).rejects.toThrow("perf_analyzer, which it runs, is not");
  });
});
