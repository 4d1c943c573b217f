/** `npm run ci` as a job types it. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { markdownComment } from "../../../scripts/diff/report/markdown.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { makeZip } from "../catalogue/zip-fixture.ts";
import { change, stackDiff } from "../diff/report/diffs.ts";
import { FakeGitHub } from "./fake-github.ts";

let fake: FakeGitHub;
let folder: string;
beforeEach(async () => {
  fake = await FakeGitHub.start();
  folder = mkdtempSync(join(tmpdir(), "engine-room-ci-"));
});
afterEach(async () => {
  await fake.stop();
  rmSync(folder, { recursive: true });
});

function ci(...args: readonly string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["scripts/cli.mjs", "ci", ...args], {
      cwd: projectRoot,
      env: { ...process.env, ...fake.environment, INIT_CWD: folder },
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (data: Buffer) => {
      stdout += data;
    });
    child.stderr.on("data", (data: Buffer) => {
      stderr += data;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
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

test("a matrix is one line of a step's output", async () => {
  const { code, stdout } = await ci("matrix", "--for", "preview");
  expect([code, stdout]).toEqual([0, 'stacks=["dev","kind","local","onprem","prod"]\n']);
  expect((await ci("matrix", "--for", "deployed", "--deployed", "onprem")).stdout).toBe(
    'stacks=["onprem"]\n',
  );
});

test("a difference that was written as JSON becomes the Markdown of the same difference", async () => {
  const diff = stackDiff({ resources: [change()] });
  const { code, stdout } = await ci("diff-summary", "--diff", file("diff.json", diff));
  expect([code, stdout]).toEqual([0, markdownComment([diff])]);
  const { code: refused, stderr } = await ci(
    "diff-summary",
    "--diff",
    file("diff.json", { ...diff, more: 1 }),
  );
  expect(refused).toBe(1);
  expect(stderr).toContain("diff.json is not what `npm run diff` writes.");
});

test("a change that breaks a mandatory policy fails, and one that only finds it broken does not", async () => {
  const violation = {
    policy: "p",
    level: "mandatory",
    resource: "Ingress a/b",
    reason: "R.",
    fix: "F.",
  } as const;
  const judge = (one: object) =>
    ci(
      "diff-policies",
      "--diff",
      file("diff.json", stackDiff({ violations: [{ ...violation, isNew: true, ...one }] })),
    );
  const broken = await judge({});
  expect([broken.code, broken.stderr]).toEqual([
    1,
    expect.stringContaining("breaks 1 mandatory policy of the stack dev:\np by Ingress a/b: R. F."),
  ]);
  for (const one of [{ isNew: false }, { isNew: null }, { level: "advisory" }])
    expect((await judge(one)).code).toBe(0);
});

test("a preview becomes a comment, from the event's file", async () => {
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
      zip: makeZip([{ name: "diff.json", content: JSON.stringify(stackDiff()), deflated: true }]),
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
  const { code, stdout } = await ci("preview-comment", "--event", event);
  expect([code, stdout]).toEqual([0, "The comment of #3 is created, with previews of: dev.\n"]);
  expect(fake.comments.get(3)?.[0]?.body).toContain("### Stack `dev`");
});

test("a stack of a pull request is said to be up, then to have failed, and then to have ended", async () => {
  await ci("preview-stack-comment", "--pull-request", "9", "--outputs", file("outputs.json", outputs));
  const [{ body } = { body: "" }] = fake.comments.get(9) ?? [];
  expect(body).toContain("| Gateway | `http://gateway` |");
  expect(body).toContain(
    "$ npm run ci -- preview-stack-file --pull-request 9\n$ npm run connect -- --stack pr-9\n",
  );
  const run = "https://github.example/room/actions/runs/1";
  await ci("preview-stack-comment", "--pull-request", "9", "--failed", "ab".repeat(20), "--run", run);
  expect(fake.comments.get(9)?.map((one) => one.body)).toEqual([
    expect.stringMatching(
      /^<!-- .* -->\nThe stack pr-9 did not come up at `abababababab`, .*\[the run\]\(https:/,
    ),
  ]);
  await ci("preview-stack-comment", "--pull-request", "9");
  expect(fake.comments.get(9)?.map(({ body }) => body)).toEqual([
    "<!-- engine-room: preview-stack -->\nThe stack pr-9 has ended; nothing of it is left.\n",
  ]);
});

test("a stack file of a pull request is written where its name is looked for", async () => {
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

test("ended stacks, a summary and an issue", async () => {
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
    "### Stack onprem",
  );
  const preview = file("preview.json", { steps: [{ op: "delete", urn: "urn:pulumi:a::b::c:d:E::f" }] });
  expect((await ci("drift", "--stack", "onprem", "--preview", preview)).stdout).toContain("Issue: opened.");
});

test("stacks that were not ended are an issue until they are", async () => {
  const report = (result: string, run: string) => ci("expire-issue", "--result", result, "--run", run);
  expect((await report("failure", "https://github.com/room/runs/1")).stdout).toBe("Issue: opened.\n");
  expect((await report("failure", "https://github.com/room/runs/2")).stdout).toBe("Issue: updated.\n");
  expect(fake.issues).toMatchObject([
    { labels: ["expire"], state: "open", body: expect.stringContaining("runs/2") },
  ]);
  expect((await report("success", "https://github.com/room/runs/3")).stdout).toBe("Issue: closed.\n");
  expect(fake.issues).toMatchObject([{ state: "closed" }]);
});

test.each([
  [["dance"], 2, 'There is no task "dance"; there are matrix, '],
  [["matrix"], 2, "matrix needs --for."],
  [["drift", "--preview", "preview.json"], 2, "drift needs --stack."],
  [["matrix", "--for", "fun"], 2, "--for takes preview or deployed."],
  [["ended-stacks", "--stacks", "x", "--hours", "soon"], 2, '--hours takes a number above 0, not "soon".'],
  [["expire-issue", "--result", "cancelled", "--run", "x"], 1, 'success or failure, not "cancelled"'],
  [["summary", "--stack", "dev", "--outputs", "nowhere.json"], 1, "There is no file "],
  [["preview-stack-file", "--pull-request", "../x"], 1, "no number of a pull request"],
])("%j is refused with a sentence", async (args, code, sentence) => {
  const result = await ci(...args);
  expect(result.code).toBe(code);
  expect(result.stderr).toContain(sentence);
  expect(existsSync(join(projectRoot, "Pulumi.pr-..", "x.yaml"))).toBe(false);
});

test("a file of another form is refused, without its content", async () => {
  const { code, stderr } = await ci(
    "summary",
    "--stack",
    "x",
    "--outputs",
    file("o.json", { secret: "hunter2" }),
  );
  expect(code).toBe(1);
  expect(stderr).toContain("o.json is not what is expected");
  expect(stderr).not.toContain("hunter2");
});
