import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { planExample, runCommand } from "./run-plan.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-plan-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** `plan` of a stack file with these values. */
function planValues(values: Readonly<Record<string, unknown>>, ...options: readonly string[]) {
  const file = writtenStackFile(folder, values);
  return runCommand("plan", "--stack", "test", "--config-file", file, ...options);
}

const docker = {
  platform: "docker",
  host: { instanceType: "g5.4xlarge", diskGiB: 250 },
  engines: { whenFull: "stopServer" },
  models: [{ name: "llava", model: "llava-1.5-7b" }],
};

/** Two mistakes of different kinds: one that the catalogue knows, one that the machine does. */
const wrong = {
  ...docker,
  models: [
    { name: "llava", model: "llava-1.5-7b", quantization: "fp8" },
    { name: "chat", model: "llama-2-7b-chat", tensorParallel: 3 },
  ],
};

describe("a stack file with problems", () => {
  test("ends with exit code 1 and all of them, each with its fix", async () => {
    const { exitCode, stdout, stderr } = await planValues(wrong);
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain("models[0].quantization");
    expect(stderr).toContain("models[1].tensorParallel");
    const [heading = ""] = stderr.split("\n");
    const count = Number(/^(\d+) problems/.exec(heading)?.[1]);
    expect(stderr.match(/^ {5}Fix: /gm)).toHaveLength(count);
  });

  test("gives --json the same problems as an object", async () => {
    const text = await planValues(wrong);
    const { exitCode, stdout, stderr } = await planValues(wrong, "--json");
    expect(exitCode).toBe(1);
    expect(stderr).toBe("");
    const { problems } = JSON.parse(stdout) as { problems: { path: string; fix: string }[] };
    for (const { path, fix } of problems) {
      expect(text.stderr).toContain(path);
      expect(text.stderr).toContain(fix);
    }
  });

  test("gives --json those that the schema finds, too", async () => {
    const { exitCode, stdout } = await planValues({ ...docker, models: [] }, "--json");
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ problems: [{ path: "models" }] });
  });

  test("that is missing is a problem, not an exception", async () => {
    const { exitCode, stderr } = await runCommand("plan", "--config-file", join(folder, "none.yaml"));
    expect(exitCode).toBe(1);
    expect(stderr).toContain("--config-file");
  });
});

describe("a stack on the CPUs of a Docker host", () => {
  const cpu = {
    platform: "docker",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  };

  test("is planned like one on this machine", async () => {
    const { exitCode, stdout } = await planValues(cpu);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("Stack test: platform docker, tier cpu, ");
    const { platform: _platform, tier: _tier, ...local } = cpu;
    const here = await planValues({ platform: "local", ...local });
    expect(stdout).toMatch(/\n\nNext: npm run preflight -- .*\n$/);
    const planned = stdout.replace(/\nNext: .*\n$/, "");
    expect(planned.split("\n").slice(1)).toEqual(here.stdout.split("\n").slice(1));
  });

  test("has its ports and databases in the JSON, and no engine to explain", async () => {
    const { stdout } = await planValues({ ...cpu, databases: "container" }, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      plan: {
        tier: "cpu",
        models: [{ ports: { http: 8000, grpc: 8001, metrics: 8002 } }],
        databases: { kind: "container", ports: { mongo: 27_017, vector: 6333 } },
      },
    });
    await expect(planValues(cpu, "--explain", "smollm2")).resolves.toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("builds no engine"),
    });
  });
});

describe("a stack in a cluster", () => {
  const scaled = {
    platform: "kubernetes",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", replicas: 2, minReplicas: 0 }],
    encoders: { replicas: 3, minReplicas: 1 },
    schedule: { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin" },
  };
  const section = async (values: Readonly<Record<string, unknown>>) => {
    const { exitCode, stdout } = await planValues(values);
    expect(exitCode).toBe(0);
    const lines = stdout.split("\n");
    const from = lines.indexOf("Numbers of servers, and who watches");
    return lines.slice(from + 1, lines.indexOf("", from) - lines.length);
  };

  test("says which servers follow the load, and by which series", async () => {
    expect((await section({ ...scaled, monitoring: "prometheus-operator" })).slice(0, -1)).toEqual([
      "  AUTOSCALER  SERVERS  EACH TAKES  OF THE SUM OF",
      "  smollm2      0 to 2           4  gateway_pending_requests of gateway",
      "  encoders     1 to 3           4  nv_inference_pending_request_count of encoders",
      '  smollm2: 1 at least from "0 8 * * 1-5" to "0 20 * * 1-5" in Europe/Berlin.',
    ]);
  });

  test("says what is monitored, or that nobody watches", async () => {
    expect((await section({ ...scaled, monitoring: "prometheus-operator" })).at(-1)).toMatch(
      /^ {2}Prometheus' operator gets 5 monitors and \d\d alerts, Grafana 3 dashboards\.$/,
    );
    const { models: _models, encoders: _encoders, schedule: _schedule, ...rest } = scaled;
    const models = [{ name: "smollm2", model: "smollm2-135m-instruct" }];
    expect(await section({ ...rest, models })).toEqual([
      "  Every server always has its replicas: none has minReplicas.",
      "  Nobody watches: monitoring is none.",
    ]);
  });

  test("warns of autoscalers that have nothing to go by", async () => {
    const { stdout } = await planValues(scaled);
    expect(stdout).toContain('monitoring = "none"');
    expect(stdout.replaceAll(/\s+/g, " ")).toContain("and what sleeps would never wake.");
    const { stdout: awake } = await planValues({
      ...scaled,
      models: scaled.models.map(({ minReplicas: _, ...m }) => m),
      schedule: undefined,
    });
    expect(awake.replaceAll(/\s+/g, " ")).toContain("the number of encoders would stay as it is.");
  });
});

describe("the command line", () => {
  test.each([
    [["--json", "--explain", "llava"], "Choose one of --json and --explain"],
    [["--check"], "--check belongs to --support-matrix"],
    [["--jsno"], "Unknown option '--jsno'"],
    [["llava"], "Unexpected argument 'llava'"],
  ])("%j is wrong, with exit code 2", async (options, sentence) => {
    const { exitCode, stderr } = await planExample("llava-1.5", ...options);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(sentence);
  });

  test("--explain of a mistyped model names the nearest", async () => {
    const { exitCode, stdout, stderr } = await planExample("multimodal-guide", "--explain", "villa");
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain('no model "villa". Did you mean vila?');
  });

  test("--explain of no model at all lists them", async () => {
    const { exitCode, stderr } = await planExample("multimodal-guide", "--explain", "gemma-something");
    expect(exitCode).toBe(1);
    expect(stderr).toContain("Here are blip2, llava, vila, onevision, mllama");
  });
});

describe("a local stack", () => {
  test("has a plan too: models, encoders, no cost", async () => {
    const { exitCode, stdout } = await runCommand("plan", "--stack", "local");
    expect(exitCode).toBe(0);
    expect(stdout).toContain("smollm2-135m-instruct");
    expect(stdout).toContain("$0.00 an hour");
  });

  test("has JSON, the same at every run", async () => {
    const first = await runCommand("plan", "--stack", "local", "--json");
    expect(JSON.parse(first.stdout)).toMatchObject({
      plan: { platform: "local", cost: { hourlyUsd: 0 } },
      warnings: [],
    });
    expect(await runCommand("plan", "--stack", "local", "--json")).toEqual(first);
  });

  test("has no commands to explain, since it builds nothing", async () => {
    const { exitCode, stderr } = await runCommand("plan", "--stack", "local", "--explain", "smollm2");
    expect(exitCode).toBe(1);
    expect(stderr).toContain("builds no engine");
  });
});
