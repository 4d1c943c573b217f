import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { stackFileValues } from "../infra/plan/kubernetes/stacks.ts";
import { type CommandRun, planExample } from "../scripts/plan/run-plan.ts";

const recorded = join(projectRoot, "test/recorded/plans");
const examples = readdirSync(join(projectRoot, "examples")).map((file) => file.replace(/\.yaml$/, ""));

/** With UPDATE_RECORDED=1 the files are written instead; the test then shows the difference in Git. */
const isUpdating = process.env.UPDATE_RECORDED === "1";

function expectRecorded(file: string, text: string): void {
  const path = join(recorded, file);
  if (isUpdating) writeFileSync(path, text);
  const known = readFileSync(path, "utf8");
  expect(text, `${file} changed; UPDATE_RECORDED=1 npx vitest run test/examples writes it anew`).toBe(known);
}

test("there is an example for each of the five walkthroughs, and one of a machine on AWS", () => {
  expect(examples.toSorted()).toEqual([
    "ec2",
    "gpt2-medium-encoders",
    "llama-2-7b-chat-kubernetes",
    "llama-2-7b-tutorial",
    "llava-1.5",
    "multimodal-guide",
  ]);
});

test("docs/walkthroughs.md names every example, and docs/aws.md that of one machine", () => {
  const text = ["walkthroughs.md", "aws.md"]
    .map((file) => readFileSync(join(projectRoot, "docs", file), "utf8"))
    .join("");
  expect(examples.filter((example) => !text.includes(`../examples/${example}.yaml`))).toEqual([]);
});

describe.each(examples)("%s", (example) => {
  let report: CommandRun;
  beforeAll(async () => {
    if (isUpdating) mkdirSync(recorded, { recursive: true });
    report = await planExample(example);
  });

  test("plans without a problem", () => {
    expect(report).toMatchObject({ exitCode: 0, stderr: "" });
  });

  test("prints a report of 100 columns without escape codes", () => {
    // A command is on one line, to be copied.
    const text = report.stdout.replace(/^Next: .*/m, "");
    const wide = text.split("\n").filter((line) => line.length > 100);
    expect(wide).toEqual([]);
    expect(report.stdout).not.toContain("\u001b");
  });

  test("prints the recorded report", () => {
    expectRecorded(`${example}.txt`, report.stdout);
  });

  test("prints the recorded JSON", async () => {
    const { exitCode, stdout } = await planExample(example, "--json");
    expect(exitCode).toBe(0);
    expectRecorded(`${example}.json`, stdout);
  });

  test("prints the recorded commands of every model", async () => {
    const { plan } = JSON.parse((await planExample(example, "--json")).stdout) as {
      plan: { models: { name: string }[]; encoders: object | null };
    };
    const names = [...plan.models.map(({ name }) => name), ...(plan.encoders === null ? [] : ["encoders"])];
    for (const name of names) {
      const { exitCode, stdout } = await planExample(example, "--explain", name);
      expect(exitCode).toBe(0);
      expectRecorded(`${example}.${name}.sh`, stdout);
    }
  });
});

// The documents name pip's TensorRT-LLM 0.8.0, and the guide of 0.9.
describe.each([
  ["llama-2-7b-chat-kubernetes", "24.02"],
  ["llama-2-7b-chat-kubernetes", "24.03"],
  ["llama-2-7b-tutorial", "24.04"],
  ["llama-2-7b-tutorial", "24.05"],
])("the models of %s on the document's own release, %s", (example, release) => {
  const gpu = { name: "gpu", instanceType: "g5.12xlarge" };
  const aws = {
    ...{ platform: "aws", account: "111122223333", region: "us-east-1" },
    hub: { tokenSecretArn: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf" },
  };
  test.each([
    [
      "docker",
      { platform: "docker", host: { instanceType: "g5.12xlarge" }, hub: { tokenFile: "/etc/token" } },
    ],
    [
      "kubernetes",
      { platform: "kubernetes", pools: [gpu], hub: { tokenSecret: { name: "hub", key: "token" } } },
    ],
    ["ec2", { ...aws, compute: "ec2", pools: [gpu] }],
    [
      "eks",
      {
        ...{ ...aws, access: { apiCidrs: ["203.0.113.7/32"] } },
        pools: [gpu, { name: "cpu", instanceType: "m7i.2xlarge" }],
      },
    ],
  ])("plan on %s", (_, place) => {
    const { models } = stackFileValues(`examples/${example}.yaml`) as {
      models: readonly { gpuIndices?: object }[];
    };
    const { plan } = checkedPlan({
      ...place,
      ...{ release, encoders: false, engines: { whenFull: "stopServer" } },
      models: models.map(({ gpuIndices: _numbers, ...model }) => model),
    });
    if (!("tier" in plan) || plan.tier !== "gpu") throw new Error("The stack has no GPU.");
    const [first] = plan.models;
    expect(first?.engine?.places.scripts).toBe("/tensorrtllm_backend/tensorrt_llm/examples");
    expect(first?.repository.fillTemplate).toBe("/tensorrtllm_backend/tools/fill_template.py");
  });
});
