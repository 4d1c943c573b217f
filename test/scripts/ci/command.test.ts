import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { strToU8, zipSync } from "fflate";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import { openLockPullRequest } from "../../../scripts/ci/lock-pull-request.ts";
import { outputsSummary } from "../../../scripts/ci/outputs-summary.ts";
import {
  endedStacks,
  matrixStacks,
  previewStackFile,
  previewStackName,
  requireDeployedFiles,
} from "../../../scripts/ci/stacks.ts";
import { markdownComment } from "../../../scripts/diff/print.ts";
import type { StackDiff } from "../../../scripts/diff/types.ts";
import { projectRoot, readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";
import { readPlan } from "../../../scripts/program/targets.ts";
import { imageLock } from "../../harness/image-lock.ts";
import { change, head, stackDiff } from "../diff/diffs.ts";
import { type CommandRun, runCommand } from "../plan/run-plan.ts";
import { useFakePulumi } from "../stack/fake-pulumi.ts";
import { FakeGitHub, type FakePull } from "./fake-github.ts";

let fake: FakeGitHub;

let folder: string;

beforeEach(async () => {
  fake = await FakeGitHub.start();
  folder = mkdtempSync(join(tmpdir(), "engine-room-ci-"));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await fake.stop();
  rmSync(folder, { recursive: true });
});

function ci(...args: readonly string[]): Promise<CommandRun> {
  for (const [name, value] of Object.entries({ ...fake.environment, INIT_CWD: folder }))
    vi.stubEnv(name, value);
  return runCommand("ci", ...args);
}

function file(name: string, content: unknown): string {
  writeFileSync(join(folder, name), JSON.stringify(content));
  return name;
}

const outputs = {
  endpoints: {
    gateway: "http://gateway",
    mongo: null,
    vector: null,
    encoders: null,
    models: {},
    gatewayReach: "cluster",
    reach: "cluster",
  },
  notes: [],
  cost: "more than is read",
};

test("`ci matrix` prints one line of a step's output", async () => {
  const { exitCode, stdout } = await ci("matrix", "--for", "preview");
  expect([exitCode, stdout]).toEqual([0, 'stacks=["dev","kind","local","onprem","prod"]\n']);
});

test("`ci matrix` prints the same as a process", () => {
  const argv = ["scripts/cli.mjs", "ci", "matrix", "--for", "deployed", "--deployed", "onprem"];
  const stdout = execFileSync(process.execPath, argv, { cwd: projectRoot, encoding: "utf8" });
  expect(stdout).toBe('stacks=["onprem"]\n');
});

test("`ci diff-summary` converts the JSON of a difference to Markdown", async () => {
  const diff = stackDiff({ resources: [change()] });
  const { exitCode, stdout } = await ci("diff-summary", "--diff", file("diff.json", diff));
  expect([exitCode, stdout]).toEqual([0, markdownComment([diff])]);
  const { exitCode: refused, stderr } = await ci(
    "diff-summary",
    "--diff",
    file("diff.json", { ...diff, more: 1 }),
  );
  expect(refused).toBe(1);
  expect(stderr).toContain("diff.json is not what `npx engine-room diff` writes.");
});

describe("`ci diff-policies`", () => {
  const violation = {
    policy: "p",
    level: "mandatory",
    resource: "Ingress a/b",
    reason: "R.",
    fix: "F.",
  } as const;
  const problem = { path: "models[0].model", value: '"x"', reason: "Unknown value.", fix: "Write y." };
  const failed = { failure: "It is\nbroken." };
  const base = stackDiff().base;
  const unchecked = (level: "mandatory" | "advisory") => ({ uncheckedPolicies: [{ policy: "q", level }] });

  test.each<[string, Partial<StackDiff>, string]>([
    [
      "breaks a mandatory policy that the base keeps",
      { violations: [{ ...violation, isNew: true }] },
      "The change breaks the mandatory policy p by Ingress a/b: R. F.",
    ],
    [
      "breaks a mandatory policy, and its base could not be rendered",
      { base: { ...base, ...failed }, violations: [{ ...violation, isNew: null }] },
      "The stack breaks the mandatory policy p by Ingress a/b: R. F. The base could not be rendered, so whether it breaks the policy too is unknown: run the check again, or fix the violation.",
    ],
    [
      "has a problem that the base does not have",
      { head: head({ problems: [problem] }) },
      'The stack file has a new problem: models[0].model = "x": Unknown value. Write y.',
    ],
    [
      "has another problem than the base",
      { head: head({ problems: [problem] }), base: { ...base, problems: [{ ...problem, value: '"z"' }] } },
      "The stack file has a new problem:",
    ],
    [
      "can't be rendered, and its base can",
      { head: head(failed) },
      "The stack can't be rendered, and the base can: It is broken.",
    ],
    [
      "is new and can't be rendered",
      { head: head(failed), base: { ...base, hasStack: false, failure: "The stack is new." } },
      "The stack can't be rendered: It is broken.",
    ],
    [
      "has mandatory policies that nobody could check, as its base",
      { head: head(failed), base: { ...base, ...failed }, ...unchecked("mandatory") },
      "1 mandatory policy can't be checked, for the stack has no resources to look at: q. It is broken.",
    ],
  ])("fails if a stack %s", async (_title, changes, sentence) => {
    const { exitCode, stderr } = await ci("diff-policies", "--diff", file("diff.json", stackDiff(changes)));
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`The change of the stack dev is refused for 1 reason:\n${sentence}`);
  });

  test.each<[string, Partial<StackDiff>]>([
    ["breaks what the base breaks", { violations: [{ ...violation, isNew: false }] }],
    ["breaks an advisory policy", { violations: [{ ...violation, level: "advisory", isNew: true }] }],
    [
      "has the problem that the base has",
      { head: head({ problems: [problem] }), base: { ...base, problems: [problem] } },
    ],
    ["has no problem any more", { base: { ...base, problems: [problem] } }],
    [
      "fails as the base does",
      { head: head(failed), base: { ...base, ...failed }, ...unchecked("advisory") },
    ],
  ])("passes if a stack %s", async (_title, changes) => {
    const { exitCode } = await ci("diff-policies", "--diff", file("diff.json", stackDiff(changes)));
    expect(exitCode).toBe(0);
  });
});

test("`ci require-images` fails for a stack without digests, with the pull request that brings them, and not on this machine", async () => {
  const { exitCode, stderr } = await ci("require-images", "--stack", "onprem");
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(
    /^The stack onprem is not deployed .* has no digest of this content for services, trtllm, /,
  );
  expect(stderr).toContain("a pull request of the branch images-lock: merge it");
  expect(stderr).toContain("`npx engine-room images --stack onprem --push`");
  expect((await ci("require-images", "--stack", "local")).exitCode).toBe(0);
  const folder = mkdtempSync(join(tmpdir(), "engine-room-lock-"));
  try {
    const plan = readPlan(stackReference("onprem"));
    if (plan.platform !== "kubernetes") throw new Error("onprem is a stack in a cluster.");
    writeFileSync(join(folder, "lock.json"), imageLock(plan));
    vi.stubEnv("ENGINE_ROOM_IMAGE_LOCK", join(folder, "lock.json"));
    expect((await ci("require-images", "--stack", "onprem")).exitCode).toBe(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("`ci preview-comment` writes a comment from the event's file", async () => {
  const sha = "e".repeat(40);
  const repository = { id: 1 };
  fake.pulls = [
    {
      number: 3,
      state: "open",
      labels: [],
      head: { label: "bob:x", sha, repo: repository },
      base: { ref: "main", repo: repository },
    },
  ];
  fake.artifacts = [
    {
      id: 1,
      name: "preview-dev",
      expired: false,
      zip: Buffer.from(zipSync({ "diff.json": strToU8(JSON.stringify(stackDiff())) })),
    },
  ];
  const run = {
    id: 1,
    event: "pull_request",
    conclusion: "success",
    html_url: "https://github.example/1",
    head_sha: sha,
    head_branch: "x",
  };
  const event = file("event.json", {
    repository,
    workflow_run: { ...run, head_repository: { id: 1, owner: { login: "bob" } } },
  });
  const { exitCode, stdout } = await ci("preview-comment", "--event", event);
  expect([exitCode, stdout]).toEqual([
    0,
    "The comment of #3 is created, with previews of: dev; without one: kind, local, onprem, prod.\n",
  ]);
  const [{ body } = { body: "" }] = fake.comments.get(3) ?? [];
  expect(body).toContain("- **no preview of `prod`**: the run left none.");
  expect(body).toContain("- `dev`: **nothing changes**");
});

test("`ci preview-stack-comment` reports that the stack of a pull request is up, has failed or has ended", async () => {
  await ci("preview-stack-comment", "--pull-request", "9", "--outputs", file("outputs.json", outputs));
  const [{ body } = { body: "" }] = fake.comments.get(9) ?? [];
  expect(body).toContain("- Gateway: `http://gateway`\n");
  expect(body).toContain(
    "$ npx engine-room ci preview-stack-file --pull-request 9\n$ npx engine-room connect --stack pr-9\n",
  );
  const run = "https://github.example/room/actions/runs/1";
  await ci("preview-stack-comment", "--pull-request", "9", "--failed", "ab".repeat(20), "--run", run);
  expect(fake.comments.get(9)?.map((one) => one.body)).toEqual([
    expect.stringMatching(
      /^<!-- .* -->\nThe stack `pr-9` did not come up at `abababababab`, .*\[the run\]\(https:/,
    ),
  ]);
  await ci("preview-stack-comment", "--pull-request", "9");
  expect(fake.comments.get(9)?.map(({ body }) => body)).toEqual([
    "<!-- engine-room: preview-stack -->\nThe stack `pr-9` has ended; nothing of it is left.\n",
  ]);
});

test("`ci preview-stack-file` writes the stack file of a pull request", async () => {
  const path = join(projectRoot, "Pulumi.pr-999999999.yaml");
  try {
    expect((await ci("preview-stack-file", "--pull-request", "999999999")).stdout).toBe(
      "stack=pr-999999999\n",
    );
    expect(readFileSync(path, "utf8")).toContain("engine-room-cpu-pr-999999999");
  } finally {
    rmSync(path, { force: true });
  }
});

test("`ci` lists ended stacks, summarises outputs and reports drift in an issue", async () => {
  const { stdout, stderr } = await ci(
    "ended-stacks",
    "--stacks",
    file("stacks.json", [{ name: "pr-4" }]),
    "--hours",
    "48",
  );
  expect(stdout).toBe('stacks=[{"stack":"pr-4","pullRequest":4}]\n');
  expect(stderr).toBe("pr-4: its pull request is gone\n");
  expect((await ci("summary", "--stack", "onprem", "--outputs", file("o.json", outputs))).stdout).toContain(
    "### Stack `onprem`",
  );
  const preview = file("preview.json", { steps: [{ op: "delete", urn: "urn:pulumi:a::b::c:d:E::f" }] });
  expect((await ci("drift", "--stack", "onprem", "--preview", preview)).stdout).toContain("Issue: opened.");
});

test("`ci preview-errors` fails with the errors of a preview, and prints nothing for a preview without errors", async () => {
  const diagnostics = [{ severity: "error", message: "error: No such region." }];
  const failed = await ci("preview-errors", "--preview", file("p.json", { diagnostics, changeSummary: {} }));
  expect([failed.exitCode, failed.stderr]).toEqual([
    1,
    expect.stringContaining("\n  error: No such region.\n"),
  ]);
  const made = await ci("preview-errors", "--preview", file("p.json", { changeSummary: { same: 1 } }));
  expect([made.exitCode, made.stdout, made.stderr]).toEqual([0, "", ""]);
});

test("`ci expire-issue` opens an issue for a failure, and closes it after a success", async () => {
  const report = (result: string, run: string) => ci("expire-issue", "--result", result, "--run", run);
  expect((await report("failure", "https://github.com/room/runs/1")).stdout).toBe("Issue: opened.\n");
  expect((await report("failure", "https://github.com/room/runs/2")).stdout).toBe("Issue: updated.\n");
  expect(fake.issues).toMatchObject([
    { labels: ["expire"], state: "open", body: expect.stringContaining("runs/2") },
  ]);
  expect((await report("success", "https://github.com/room/runs/3")).stdout).toBe("Issue: closed.\n");
  expect(fake.issues).toMatchObject([{ state: "closed" }]);
});

test("`ci expire-issue` closes its issue of another title, and no issue that a person opened", async () => {
  const issue = { body: "", labels: ["expire"], state: "open" };
  const login = "github-actions[bot]";
  fake.issues.push(
    { ...issue, number: 1, title: "Shall stacks expire?", user: { login: "ada" } },
    { ...issue, number: 2, title: "A stack whose time is over was not ended", user: { login } },
  );
  const { stdout } = await ci(
    "expire-issue",
    "--result",
    "success",
    "--run",
    "https://github.com/room/runs/4",
  );
  expect(stdout).toBe("Issue: closed.\n");
  expect(fake.issues.map(({ state }) => state)).toEqual(["open", "closed"]);
});

test.each([
  [["dance"], 2, 'Unknown task "dance". Choose from matrix, '],
  [["matrix"], 2, "matrix needs --for."],
  [["drift", "--preview", "preview.json"], 2, "drift needs --stack."],
  [["matrix", "--for", "fun"], 2, 'Unknown --for "fun". Choose from preview, state-preview, deployed.'],
  [["ended-stacks", "--stacks", "x", "--hours", "soon"], 2, '--hours takes a number above 0, not "soon".'],
  [["expire-issue", "--result", "cancelled", "--run", "x"], 1, 'success or failure, not "cancelled"'],
  [["summary", "--stack", "dev", "--outputs", "nowhere.json"], 1, "There is no file "],
  [["preview-stack-file", "--pull-request", "../x"], 1, "not the number of a pull request"],
])("`ci` refuses %j with exit code %i: %s", async (args, exitCode, sentence) => {
  const result = await ci(...args);
  expect(result.exitCode).toBe(exitCode);
  expect(result.stderr).toContain(sentence);
  expect(existsSync(join(projectRoot, "Pulumi.pr-..", "x.yaml"))).toBe(false);
});

test("`ci` refuses a file of another form without printing its content", async () => {
  const { exitCode, stderr } = await ci(
    "summary",
    "--stack",
    "x",
    "--outputs",
    file("o.json", { secret: "hunter2" }),
  );
  expect(exitCode).toBe(1);
  expect(stderr).toContain("o.json has unexpected content");
  expect(stderr).not.toContain("hunter2");
});

test("a matrix previews all stacks with a file, and deploys those that the repository names", () => {
  const files = ["dev", "kind", "local", "onprem", "own", "pr-12", "prod"];
  expect(matrixStacks("preview", "", files)).toEqual(["dev", "kind", "local", "onprem", "own", "prod"]);
  expect(matrixStacks("deployed", " prod,\ndev own prod", files)).toEqual(["dev", "own", "prod"]);
  expect(matrixStacks("deployed", "", files)).toEqual([]);
  expect(matrixStacks("preview", "")).toEqual(["dev", "kind", "local", "onprem", "prod"]);
});

test("a matrix of previews against the state has the deployed stacks that a change keeps, and refuses none", () => {
  const files = ["dev", "kind", "pr-3", "prod"];
  expect(matrixStacks("state-preview", "prod gone kind pr-3 dev", files)).toEqual(["dev", "prod"]);
  expect(matrixStacks("state-preview", "", files)).toEqual([]);
});

test("a change may not delete or rename the file of a deployed stack", () => {
  const base = ["dev", "onprem", "prod"];
  expect(() => requireDeployedFiles("prod dev,onprem", base, ["dev", "production"])).toThrow(
    /^This change deletes Pulumi\.onprem\.yaml, of a deployed stack: .*\nThis change deletes Pulumi\.prod\.yaml, of a deployed stack: end the stack \(`npx engine-room down --stack prod`\) and take it out of DEPLOYED_STACKS first\.$/,
  );
});

test("a change may delete the file of a stack that is not deployed, and leave a deployed stack without a file", () => {
  expect(() => requireDeployedFiles("dev later", ["dev", "prod"], ["dev"])).not.toThrow();
  expect(() => requireDeployedFiles("", ["dev", "prod"], [])).not.toThrow();
});

test("a fork, where the deployed stacks are unknown, may not delete the file of a stack that can be deployed", () => {
  const base = ["dev", "kind", "prod"];
  expect(() => requireDeployedFiles("*", base, ["dev", "kind"])).toThrow(
    /^This change deletes Pulumi\.prod\.yaml, and GitHub does not tell a fork's pull request whether the stack is deployed: /,
  );
  expect(() => requireDeployedFiles("*", base, ["dev", "prod"])).not.toThrow();
});

test("`ci deployed-files` compares the existing files with the base's files in Git", async () => {
  const base = "Pulumi.dev.yaml\nPulumi.gone.yaml\nPulumi.yaml\nREADME.md";
  const { exitCode, stderr } = await ci("deployed-files", "--deployed", "dev gone", "--base-files", base);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("This change deletes Pulumi.gone.yaml,")]);
  expect((await ci("deployed-files", "--deployed", "dev", "--base-files", base)).exitCode).toBe(0);
  expect((await ci("deployed-files", "--deployed", "", "--base-files", base)).exitCode).toBe(0);
});

describe("`ci approved-preview`", () => {
  const commit = "ab".repeat(20);
  const base = { ...stackDiff().base, commit };
  const update = {
    kind: "update",
    result: "succeeded",
    endTime: "2026-11-28T11:00:00Z",
    config: {},
    environment: { "git.head": commit },
  };
  const type = "aws:eks/nodeGroup:NodeGroup";
  const urn = `urn:pulumi:kind::engine-room::${type}::nodes`;
  const approve = (op: string, diff: Partial<StackDiff> = {}) => {
    const steps = [{ op, urn, newState: { type, custom: true, inputs: {} } }];
    const preview = file("preview.json", { steps, changeSummary: { [op]: 1 } });
    const compared = file("diff.json", stackDiff({ base, ...diff }));
    return ci("approved-preview", "--stack", "kind", "--preview", preview, "--diff", compared);
  };

  beforeEach(() => {
    useFakePulumi(folder).keep(["kind"]);
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state/pulumi");
    vi.stubEnv("FAKE_HISTORY", JSON.stringify([update]));
  });

  test("prints nothing if nothing has changed since the last `up`, so that no approval is needed", async () => {
    const { exitCode, stdout } = await approve("same");
    expect([exitCode, stdout]).toEqual([0, ""]);
  });

  test.each<[string, string, Partial<StackDiff>, Readonly<Record<string, string>>]>([
    ["with a change in its preview", "create", {}, {}],
    ["that was never up", "create", {}, { FAKE_HISTORY: "[]" }],
    [
      "whose last `up` failed",
      "same",
      {},
      { FAKE_HISTORY: JSON.stringify([{ ...update, result: "failed" }]) },
    ],
    ["that is compared with another commit", "same", { base: { ...base, commit: "cd".repeat(20) } }, {}],
    [
      "with another key in its file",
      "same",
      { settings: [{ path: "guard.ttlHours", kind: "delete", before: "8" }] },
      {},
    ],
    [
      "with a node group that was not created",
      "same",
      {},
      {
        FAKE_STATE: JSON.stringify({
          deployment: { resources: [{ type, urn, outputs: { status: "CREATE_FAILED" } }] },
        }),
      },
    ],
  ])("prints the changes of a stack %s", async (_title, op, diff, environment) => {
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const { exitCode, stdout } = await approve(op, diff);
    expect([exitCode, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ stack: "kind" })]);
  });
});

test("a matrix refuses stacks without a file, and stacks that are never deployed", () => {
  expect(() => matrixStacks("deployed", "onprem z")).toThrow(
    "There is no Pulumi.z.yaml to deploy; there are stack files of dev, kind, local, onprem, prod.",
  );
  expect(() => matrixStacks("deployed", "kind")).toThrow(
    "The stack kind is not deployed: it is for a cluster on a developer's own machine.",
  );
  expect(() => matrixStacks("deployed", "Stack-end", ["Stack-end"])).toThrow(
    "The stack Stack-end is not deployed: its environment preview-Stack-end is that of stacks of pull requests; give the stack another name.",
  );
  expect(matrixStacks("state-preview", "dev stack", ["dev", "stack"])).toEqual(["dev"]);
});

const template = readFileSync(join(projectRoot, "Pulumi.kind.yaml"), "utf8");

test("the stack of a pull request is planned from its file, in its own namespace", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-pr-"));
  try {
    const configFile = join(folder, "Pulumi.pr-12.yaml");
    writeFileSync(configFile, previewStackFile(template, "pr-12", "ghcr.io/room"));
    const { values } = readStackFile({ name: "pr-12", configFile });
    const { plan } = checkedPlan(fromRuntimeConfig(values));
    expect(plan).toMatchObject({
      platform: "kubernetes",
      tier: "cpu",
      cluster: { namespace: { isCreated: true }, retained: [] },
    });
    expect(values["engine-room:namespace"]).toBe("engine-room-cpu-pr-12");
    expect(JSON.parse(values["engine-room:images"] ?? "")).toEqual({ registry: "ghcr.io/room" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the stack of a pull request keeps the template's values, and its registry if none is given", () => {
  const file = parse(previewStackFile(template, "pr-1", ""));
  const { config } = parse(template);
  expect(file.config).toEqual({
    ...config,
    "engine-room:namespace": "engine-room-cpu-pr-1",
    "engine-room:createNamespace": true,
    "engine-room:retain": [],
    "engine-room:priorityClasses": "none",
  });
});

test.each(["0", "-1", "1; rm", "1e3", "", "12345678901", "../1"])(
  "%j is not the number of a pull request",
  (number) => {
    expect(() => previewStackName(number)).toThrow("not the number of a pull request");
  },
);

describe("ended stacks of pull requests", () => {
  const now = Date.parse("2026-08-01T12:00:00Z");
  const label = { name: "preview-stack" };
  const pull = (number: number, state: string, labels: FakePull["labels"]): FakePull => ({
    number,
    state,
    labels,
    head: { label: "a:b", sha: "", repo: null },
    base: { ref: "main", repo: { id: 1 } },
  });
  const ended = (...stacks: { name: string; lastUpdate?: string }[]) =>
    endedStacks(fake.client(), stacks, { hours: 48, now });

  test("old stacks are destroyed, and stacks whose pull request is closed, deleted or without the label", async () => {
    fake.pulls = [
      pull(1, "open", [label]),
      pull(2, "closed", [label]),
      pull(3, "open", [{ name: "bug" }]),
      pull(5, "open", [label]),
      pull(6, "open", [label]),
    ];
    const fresh = "2026-07-30T12:00:00.000Z";
    const result = await ended(
      { name: "pr-1", lastUpdate: fresh },
      { name: "pr-2", lastUpdate: fresh },
      { name: "room/engine-room/pr-3", lastUpdate: fresh },
      { name: "pr-4", lastUpdate: fresh },
      { name: "pr-5", lastUpdate: "2026-07-30T11:00:00Z" },
      { name: "pr-6" },
    );
    expect(result).toEqual([
      { stack: "pr-2", pullRequest: 2, reason: "its pull request is closed" },
      { stack: "pr-3", pullRequest: 3, reason: "the label preview-stack is gone" },
      { stack: "pr-4", pullRequest: 4, reason: "its pull request is gone" },
      { stack: "pr-5", pullRequest: 5, reason: "its last update was 49.0 hours ago, and it has 48" },
    ]);
  });

  test("the project's own stacks are never destroyed like those of pull requests", async () => {
    expect(await ended({ name: "onprem" }, { name: "pr-x" }, { name: "pr-01" }, { name: "apr-1" })).toEqual(
      [],
    );
  });

  test("no stack is destroyed while GitHub does not respond", async () => {
    fake.outage = 502;
    await expect(ended({ name: "pr-1" })).rejects.toThrow("GitHub answers 502");
  });
});

describe("a pull request of the lock file", () => {
  const lock = (images: object) => Buffer.from(JSON.stringify({ version: 1, images }));
  const digest = `registry.example.org/room/services@sha256:${"a".repeat(64)}`;
  const fresh = lock({ services: { contentHash: "b".repeat(64), reference: digest } });
  const open = (file: Buffer) => openLockPullRequest(fake.client(), file);

  test("a new lock file is pushed to a branch at main's commit, and opens a pull request", async () => {
    expect(await open(fresh)).toBe("Opened #77.");
    expect(fake.changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /git/refs",
      "PUT /contents/images.lock.json",
      "POST /pulls",
    ]);
    expect(fake.changes[0]?.body).toEqual({ ref: "refs/heads/images-lock", sha: "a".repeat(40) });
    expect(fake.changes[1]?.body).toMatchObject({
      branch: "images-lock",
      content: fresh.toString("base64"),
      sha: "b".repeat(40),
    });
    expect(fake.changes[2]?.body).toMatchObject({ head: "images-lock", base: "main" });
  });

  test("an existing branch of the lock file is moved, and its pull request stays open", async () => {
    fake.branches.set("images-lock", "c".repeat(40));
    fake.pulls = [
      {
        number: 8,
        state: "open",
        labels: [],
        head: { label: "room:images-lock", sha: "", repo: null },
        base: { ref: "main", repo: { id: 1 } },
      },
    ];
    expect(await open(fresh)).toBe("Updated #8.");
    expect(fake.changes[0]).toMatchObject({
      method: "PATCH",
      path: "/git/refs/heads/images-lock",
      body: { force: true },
    });
  });

  test("a lock file that main has already changes nothing", async () => {
    fake.files.set("main:images.lock.json", fresh);
    expect(await open(fresh)).toContain("Nothing to do");
    expect(fake.changes).toEqual([]);
  });

  test("a lock file that lacks an image of main's is refused with the image's name", async () => {
    const services = { contentHash: "b".repeat(64), reference: digest };
    fake.files.set("main:images.lock.json", lock({ services, "triton-26.06": services, ui: services }));
    await expect(open(fresh)).rejects.toThrow(
      "images.lock.json lacks digests that main has, of triton-26.06, ui: ",
    );
    expect(fake.changes).toEqual([]);
    fake.files.set("main:images.lock.json", lock({}));
    expect(await open(fresh)).toBe("Opened #77.");
  });

  test.each([
    ["no image", lock({})],
    ["text that is no JSON", Buffer.from("<html>")],
    [
      "a tag in place of a digest",
      lock({ services: { contentHash: "b".repeat(64), reference: "registry/services:latest" } }),
    ],
    ["another version", Buffer.from('{"version":2,"images":{}}')],
    ["too many bytes", Buffer.alloc(2 ** 20 + 1, " ")],
  ])("a lock file with %s is refused", async (_title, file) => {
    await expect(open(file)).rejects.toThrow("images.lock.json");
    expect(fake.changes).toEqual([]);
  });
});

test("a summary of outputs has a point for each endpoint", () => {
  const triton = { http: "http://t:8000", grpc: "t:8001", metrics: "http://t:8002/metrics" };
  const outputs = {
    endpoints: {
      gateway: "http://gateway:8080",
      mongo: null,
      vector: "http://vector:6333",
      encoders: null,
      models: { "a|b": { ...triton, generate: "http://t:8000/`x|y\nz" } },
      gatewayReach: "cluster",
      reach: "cluster",
    },
    notes: ["seeded\nweights"],
  };
  expect(outputsSummary("onprem", outputs)).toBe(
    [
      "### Stack `onprem`",
      "",
      "- Gateway: `http://gateway:8080`",
      "- `a|b`, generate: ``http://t:8000/`x|y\\nz``",
      "- `a|b`, gRPC: `t:8001`",
      "- Vectors: `http://vector:6333`",
      "",
      "Reached from within the cluster; `npx engine-room connect` brings them to another machine.",
      "",
      "> seeded weights",
      "",
    ].join("\n"),
  );
});
