import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { endpointTable } from "../../scripts/stack/endpoint-table.ts";
import { npmCommands, parseNpmCommand } from "../harness/npm-commands.ts";
import { expectPart } from "../harness/recorded-part.ts";
import { stackFileValues } from "../infra/plan/kubernetes/stacks.ts";
import { type CommandRun, planExample, runCommand } from "../scripts/plan/run-plan.ts";
import { stackFileSchema } from "./stack-file/json-schema.ts";
import { describedKinds, kindTable, stackFilePages } from "./stack-file/reference.ts";

describe("docs/stack-file", () => {
  test.each(Object.keys(stackFilePages()))("docs/stack-file/%s.md has its keys of every schema", (page) => {
    const lines = stackFilePages()[page] ?? [];
    expectPart(`docs/stack-file/${page}.md`, "keys", lines, "test/docs/documents.test.ts");
  });

  test("docs/stack-file/README.md has every kind of stack", () => {
    expectPart("docs/stack-file/README.md", "kinds", kindTable(), "test/docs/documents.test.ts");
  });

  test("every key of a stack file has a sentence", () => {
    const silent = describedKinds().flatMap(({ keys }) => keys.filter(({ sentence }) => sentence === ""));
    expect([...new Set(silent.map(({ path }) => path))]).toEqual([]);
  });

  test("docs/stack-file.schema.json has the schemas of every kind of stack", () => {
    const file = join(projectRoot, "docs/stack-file.schema.json");
    const text = stackFileSchema();
    if (isUpdating) writeFileSync(file, text);
    expect(readFileSync(file, "utf8"), "UPDATE_RECORDED=1 npx vitest run test/docs renews it").toBe(text);
  });
});

const FILES = readdirSync(projectRoot)
  .concat(["docs", "examples"].flatMap((folder) => filesBelow(folder)))
  .filter((name) => /\.(?:md|yaml)$/.test(name));

function filesBelow(folder: string): string[] {
  return readdirSync(join(projectRoot, folder), { recursive: true, encoding: "utf8" }).map((name) =>
    join(folder, name),
  );
}

/** Code blocks of a document, or the whole stack file. A command in prose may lack required options. */
function codeOf(file: string): string {
  const text = readFileSync(join(projectRoot, file), "utf8");
  if (file.endsWith(".yaml")) return text;
  return [...text.matchAll(/^ *```.*\n([\s\S]*?)^ *```$/gm)].map(([, code = ""]) => code).join("\n");
}

/** Blocks of code of a language, each with its document. */
const blocksOf = (language: string) =>
  FILES.filter((file) => file.endsWith(".md")).flatMap((file) =>
    [
      ...readFileSync(join(projectRoot, file), "utf8").matchAll(
        new RegExp(`^( *)\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\`$`, "gm"),
      ),
    ].map(
      ([, indent = "", code = ""]) => [file, code.replaceAll(new RegExp(`^${indent}`, "gm"), "")] as const,
    ),
  );

test.each([
  ...blocksOf("sh").map(([file, code]) => [file, "sh", "bash", ["-n"], code] as const),
  ...blocksOf("python").map(
    ([file, code]) =>
      [file, "python", "python3", ["-c", "import ast, sys; ast.parse(sys.stdin.read())"], code] as const,
  ),
  ...blocksOf("json").map(
    ([file, code]) => [file, "json", "node", ["-e", "JSON.parse(fs.readFileSync(0))"], code] as const,
  ),
])("%s has code that its interpreter can read: %s (%#)", (_file, _language, program, args, code) => {
  const { status, stderr } = spawnSync(program, args, { input: code, encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});

const yamlBlocks = blocksOf("yaml");

const stackFiles = yamlBlocks.filter(([, code]) =>
  /^config:\n(?: *#.*\n)* {2}engine-room:platform:/m.test(code),
);

test("documents have at least ten whole stack files", () =>
  expect(stackFiles.length).toBeGreaterThanOrEqual(10));

test.each(stackFiles)("%s has a stack file that can be planned (%#)", async (_file, code) => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-documents-"));
  try {
    const file = join(folder, "Pulumi.example.yaml");
    writeFileSync(file, code);
    const { exitCode, stderr } = await runCommand("plan", "--stack", "example", "--config-file", file);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.each(yamlBlocks.filter(([, code]) => !code.startsWith("config:")))(
  "%s has keys of a stack file that exist (%#)",
  (_file, code) => {
    const top = Object.keys(parse(code) as object);
    const known = new Set(
      describedKinds().flatMap(({ keys }) => keys.map(({ path }) => path.split(/[.[]/)[0])),
    );
    const unknown = top.filter(
      (key) => key.startsWith("engine-room:") && !known.has(key.slice("engine-room:".length)),
    );
    expect(top.length).toBeGreaterThan(0);
    expect(unknown).toEqual([]);
  },
);

const typed = FILES.toSorted().flatMap((file) =>
  npmCommands(codeOf(file).replaceAll(" … ", " ")).map(
    (command) => [file, [command.script, ...command.args].join(" "), command] as const,
  ),
);

test("documents have more than 60 command lines", () => expect(typed.length).toBeGreaterThan(60));

test.each(typed)("%s has a valid command line: npx engine-room %s", async (_file, _words, command) => {
  await expect(parseNpmCommand(command)).resolves.toBeDefined();
});

/** A stand-in has such a name, is a program, writes a program, has a part with such a name, or is an HTTP server. */
const IS_CALLED_SO = /fake|stand[-_]in|nvidia-image|cpu_backends/;

const IS_PROGRAM = /^#!/;

const WRITES_A_PROGRAM = /#!\/.*(?:chmod|mode: 0o7)|#!\$\{.*mode: 0o7/s;

const CALLS_ITS_OWN_SO = /\bclass Fake\w|\bfunction fake[A-Z]|\bconst (?:FAKE_|fake[A-Z])/;

const IS_A_SERVER = /"node:http".*(?:createServer|createHttpServer)|BaseHTTPRequestHandler\)/s;

const proof = readFileSync(join(projectRoot, "docs/proof.md"), "utf8");

const section = proof.split(/^## Stand-ins$/m)[1] ?? "";

const rows = section.split("\n").filter((line) => line.startsWith("| `"));

/** Files, and folders with a slash at their end. */
const named = rows.flatMap((row) => {
  const [, first = ""] = row.split(" | ", 1)[0]?.split("| ") ?? [];
  return [...first.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
});

test("every row of the table of stand-ins has four cells", () => {
  expect(rows.length).toBeGreaterThan(20);
  for (const row of rows) expect(row.split(" | ")).toHaveLength(4);
});

test("every file and folder of the table of stand-ins exists", () => {
  const missing = named.filter((path) => {
    const file = join(projectRoot, path);
    return !existsSync(file) || statSync(file).isDirectory() !== path.endsWith("/");
  });
  expect(missing).toEqual([]);
});

test("every stand-in of the tests is in the table of docs/proof.md", () => {
  const { stdout } = spawnSync("git", ["ls-files", "--", "test", "containers/*/tests/**"], {
    cwd: projectRoot,
    encoding: "utf8",
  });
  const files = stdout.split("\n").filter((path) => existsSync(join(projectRoot, path)) && isStandIn(path));
  expect(files.length).toBeGreaterThan(40);
  expect(files.filter((path) => !isNamed(path))).toEqual([]);
});

function isStandIn(path: string): boolean {
  if (path === "" || path === "test/docs/documents.test.ts") return false;
  if (IS_CALLED_SO.test(path)) return true;
  const text = readFileSync(join(projectRoot, path), "utf8");
  return [IS_PROGRAM, WRITES_A_PROGRAM, CALLS_ITS_OWN_SO, IS_A_SERVER].some((rule) => rule.test(text));
}

function isNamed(path: string): boolean {
  return named.some((one) => one === path || (one.endsWith("/") && path.startsWith(one)));
}

const recorded = join(projectRoot, "test/recorded/plans");

const examples = readdirSync(join(projectRoot, "examples")).flatMap(
  (file) => /^(.*)\.yaml$/.exec(file)?.[1] ?? [],
);

/** With UPDATE_RECORDED=1 the files are written instead; Git then shows the difference. */
const isUpdating = process.env.UPDATE_RECORDED === "1";

function expectRecorded(file: string, text: string): void {
  const path = join(recorded, file);
  if (isUpdating) writeFileSync(path, text);
  const known = readFileSync(path, "utf8");
  expect(text, `${file} changed; UPDATE_RECORDED=1 npx vitest run test/docs renews it`).toBe(known);
}

test("each of the five walkthroughs has an example, and so has a machine on AWS", () => {
  expect(examples.toSorted()).toEqual([
    "ec2",
    "gpt2-medium-encoders",
    "llama-2-7b-chat-kubernetes",
    "llama-2-7b-tutorial",
    "llava-1.5",
    "multimodal-guide",
  ]);
});

test("docs/walkthroughs/README.md and docs/platforms/aws.md name every example", () => {
  const text = ["walkthroughs/README.md", "platforms/aws.md"]
    .map((file) => readFileSync(join(projectRoot, "docs", file), "utf8"))
    .join("");
  expect(examples.filter((example) => !text.includes(`../examples/${example}.yaml`))).toEqual([]);
});

test("README.md has the plan and the picture of its stack file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-readme-"));
  const file = join(folder, "Pulumi.llava.yaml");
  const [, text = ""] =
    /^```yaml\n([\s\S]*?)^```$/m.exec(readFileSync(join(projectRoot, "README.md"), "utf8")) ?? [];
  writeFileSync(file, text);
  const plan = ["plan", "--stack", "llava", "--config-file", file];
  try {
    for (const [part, language, options] of [
      ["plan of llava", "", []],
      ["picture of llava", "mermaid", ["--format", "mermaid"]],
    ] as const) {
      const { stdout } = await runCommand(...plan, ...options);
      const printed = stdout.replaceAll(` --config-file ${file}`, "").replaceAll(file, "Pulumi.llava.yaml");
      const lines = [`\`\`\`${language}`, ...printed.trimEnd().split("\n"), "```"];
      expectPart("README.md", part, lines, "test/docs/documents.test.ts");
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("README.md has the endpoints of a local stack as the table of `npm start` prints them", () => {
  const text = readFileSync(join(projectRoot, "README.md"), "utf8");
  const addressOf = (pattern: RegExp) => pattern.exec(text)?.[1] ?? "";
  const [encoderGrpc = "", modelGrpc = ""] = [...text.matchAll(/^ +(\S+) +gRPC$/gm)].map(([, at]) => at);
  const [encoderMetrics = "", modelMetrics = ""] = [...text.matchAll(/^ +(\S+) +metrics$/gm)].map(
    ([, at]) => at,
  );
  const generate = addressOf(/^ +smollm2 +(\S+)/m);
  const table = endpointTable({
    endpoints: {
      gateway: addressOf(/^ +gateway +(\S+)/m),
      gatewayReach: "host",
      gatewayDnsName: null,
      mongo: addressOf(/^ +mongo +(\S+)/m),
      vector: addressOf(/^ +vector +(\S+)/m),
      encoders: { http: addressOf(/^ +encoders +(\S+)/m), grpc: encoderGrpc, metrics: encoderMetrics },
      models: { smollm2: { http: "", grpc: modelGrpc, metrics: modelMetrics, generate } },
      reach: "host",
    },
    models: [
      { name: "smollm2", model: "smollm2-135m-instruct", release: "", engineKey: null, nodePool: "host" },
    ],
    release: "",
    engineStore: "",
    cost: { hourlyUsd: 0, monthlyUsd: 0, buildUsd: 0, pricesAsOf: null, withoutPrice: [] },
    notes: [addressOf(/^ +Note: (.+)$/m)],
  });
  expect(text).toContain(`\n${table}`);
});

test("README.md has 150 lines at most", () => {
  expect(
    readFileSync(join(projectRoot, "README.md"), "utf8").trimEnd().split("\n").length,
  ).toBeLessThanOrEqual(150);
});

describe.each(examples)("%s", (example) => {
  let report: CommandRun;
  let full: CommandRun;
  beforeAll(async () => {
    if (isUpdating) mkdirSync(recorded, { recursive: true });
    report = await planExample(example);
    full = await planExample(example, "--full");
  });

  test(`the example ${example} plans without a problem`, () => {
    expect(report).toMatchObject({ exitCode: 0, stderr: "" });
  });

  test(`the reports of ${example} keep to 100 columns, without escape codes`, () => {
    for (const { stdout } of [report, full]) {
      // A command is on one line, to be copied.
      const text = stdout.replaceAll(/^(Next|All details): .*/gm, "");
      expect(text.split("\n").filter((line) => line.length > 100)).toEqual([]);
      expect(stdout).not.toContain("\u001b");
    }
  });

  test(`the short and the full report of ${example} are as recorded`, () => {
    expectRecorded(`${example}.txt`, report.stdout);
    expectRecorded(`${example}.full.txt`, full.stdout);
  });

  test(`the picture of ${example} is as recorded`, async () => {
    const { stdout } = await planExample(example, "--format", "mermaid");
    expectRecorded(`${example}.mmd`, stdout);
  });

  test(`the JSON of ${example} is as recorded`, async () => {
    const { exitCode, stdout } = await planExample(example, "--json");
    expect(exitCode).toBe(0);
    expectRecorded(`${example}.json`, stdout);
  });

  test(`the commands of every model of ${example} are as recorded`, async () => {
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
])("%s on %s", (example, release) => {
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
  ])(`the models of ${example} plan on %s with the document's own release ${release}`, (_, place) => {
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

test("each promise of SECURITY.md names an existing test", () => {
  const lines = readFileSync(join(projectRoot, "SECURITY.md"), "utf8").split("\n");
  const promises = lines.filter((line) => line.startsWith("| ")).slice(1);
  expect(promises.length).toBeGreaterThan(10);
  const missing = promises.filter((line) => {
    const [, file = "", title = ""] = / \| `([^`]+)`: (.+) \|$/.exec(line) ?? [];
    return (
      !existsSync(join(projectRoot, file)) || !readFileSync(join(projectRoot, file), "utf8").includes(title)
    );
  });
  expect(missing).toEqual([]);
});
