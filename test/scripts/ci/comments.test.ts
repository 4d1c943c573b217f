import { readFileSync } from "node:fs";
import { join } from "node:path";
import { strToU8, zipSync } from "fflate";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { driftOf, driftReport } from "../../../scripts/ci/drift.ts";
import { githubFromEnvironment, keepIssue, upsertComment } from "../../../scripts/ci/github.ts";
import {
  postPreviewComment,
  previewText,
  workflowRunEventSchema,
} from "../../../scripts/ci/preview-comment.ts";
import { parsePreview } from "../../../scripts/diff/preview.ts";
import { parsedDiff, type ResourceChange, type StackDiff } from "../../../scripts/diff/types.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { change, stackDiff, withPlan } from "../diff/diffs.ts";
import { type FakeArtifact, FakeGitHub, type FakePull } from "./fake-github.ts";

let fake: FakeGitHub;

beforeEach(async () => {
  fake = await FakeGitHub.start();
});

afterEach(() => fake.stop());

const HERE = 1;

const FORK = 2;

const SHA = "0123456789abcdef0123456789abcdef01234567";

const bodies = (issue: number) => (fake.comments.get(issue) ?? []).map(({ body }) => body);

const write = (text: string) => upsertComment(fake.client(), 5, { subject: "preview", text });

test("a comment is created, updated, and left unchanged", async () => {
  expect(await write("first")).toBe("created");
  expect(await write("second")).toBe("updated");
  expect(await write("second")).toBe("unchanged");
  expect(bodies(5)).toEqual(["<!-- engine-room: preview -->\nsecond"]);
  expect(fake.changes.map(({ method }) => method)).toEqual(["POST", "PATCH"]);
});

test("a comment is found behind a page of others, and comments of other authors are not changed", async () => {
  fake.say(5, "<!-- engine-room: preview -->\nmine", "mallory");
  fake.say(5, "quoted: <!-- engine-room: preview -->\n");
  fake.say(5, "<!-- engine-room: preview-stack -->\nother subject");
  for (let index = 0; index < 120; index += 1) fake.say(5, `talk ${index}`, "alice");
  fake.say(5, "<!-- engine-room: preview -->\nold");
  expect(await write("new")).toBe("updated");
  expect(bodies(5).at(-1)).toBe("<!-- engine-room: preview -->\nnew");
  expect(bodies(5)[0]).toContain("mine");
});

test("a comment longer than GitHub's limit is refused", async () => {
  await expect(write("x".repeat(65_536))).rejects.toThrow("at most 65536 characters, and this one 65566");
  expect(fake.changes).toEqual([]);
});

test("an error has GitHub's own message", async () => {
  const other = upsertComment(fake.client("stolen"), 5, { subject: "preview", text: "" });
  await expect(other).rejects.toThrow(
    'GitHub answers 401 to GET /issues/5/comments?per_page=100&page=1: {"message":"Bad credentials"}',
  );
  fake.outage = 503;
  await expect(write("x")).rejects.toThrow("GitHub answers 503");
  const { url } = fake;
  const client = fake.client();
  await fake.stop();
  const unanswered = upsertComment(client, 5, { subject: "preview", text: "" });
  await expect(unanswered).rejects.toThrow(/^GitHub does not answer GET \S+: fetch failed: /);
  expect(() => githubFromEnvironment({ GITHUB_API_URL: url })).toThrow(
    "GITHUB_TOKEN, GITHUB_REPOSITORY is missing or wrong",
  );
  fake = await FakeGitHub.start();
});

test("an answer of another form is refused", async () => {
  const wrong = fake.client().get("/pulls/1", z.object({ number: z.number() }));
  await expect(wrong).rejects.toThrow("404");
  await expect(fake.client().get("", z.object({ id: z.number() }))).rejects.toThrow(
    "differs from GitHub's documentation",
  );
});

function pull(overrides: Partial<FakePull> = {}): FakePull {
  return {
    number: 12,
    state: "open",
    labels: [],
    head: { label: "alice:topic/ä&b", sha: SHA, repo: { id: FORK } },
    base: { ref: "main", repo: { id: HERE } },
    ...overrides,
  };
}

/** Artifact of a pull request's run. @param note - A secret's path, which the report shows. */
function artifact(id: number, name: string, note = "hub.token"): FakeArtifact {
  return artifactOf(id, name, JSON.stringify(stackDiff({ secrets: [{ path: note, kind: "update" }] })));
}

function artifactOf(id: number, name: string, content: string, file = "diff.json"): FakeArtifact {
  return { id, name, expired: false, zip: Buffer.from(zipSync({ [file]: strToU8(content) })) };
}

function event(overrides: object = {}, repository = FORK) {
  return workflowRunEventSchema.parse({
    repository: { id: HERE },
    workflow_run: {
      id: 900,
      event: "pull_request",
      conclusion: "success",
      html_url: "https://github.example/room/runs/900",
      head_sha: SHA,
      head_branch: "topic/ä&b",
      head_repository: { id: repository, owner: { login: "alice" } },
      ...overrides,
    },
  });
}

/** By default, the default branch has the stacks of the artifacts. */
const post = (given = event(), stacks: readonly string[] = []) =>
  postPreviewComment(fake.client(), given, stacks);

test("previews become the comment of the pull request whose head was run, sorted by stack", async () => {
  fake.pulls = [pull({ number: 11, head: { ...pull().head, sha: "f".repeat(40) } }), pull()];
  fake.artifacts = [
    artifact(1, "preview-onprem"),
    artifact(2, "preview-dev", "\u202etxt <img src=x> @octocat"),
  ];
  expect(await post()).toBe(
    "The comment of #12 is created, with previews of: dev, onprem; without one: no stack.",
  );
  const [body = ""] = bodies(12);
  expect(body).toMatch(
    /^<!-- engine-room: preview -->\nWhat merging `0123456789ab` would do, as the pull request's own code says \(\[run\]\(https:\/\/github\.example\/room\/runs\/900\)\)\.\n\n/,
  );
  expect(body.indexOf("### Stack `dev`")).toBeGreaterThan(0);
  expect(body.indexOf("### Stack `onprem`")).toBeGreaterThan(body.indexOf("### Stack `dev`"));
  expect(body).toContain("`hub.token`");
  expect(body).not.toMatch(/\u202e|(?<!`[^`\n]*)(<img|@octocat)/);
  expect(fake.fileHeaders.map(({ authorization }) => authorization)).toEqual([undefined, undefined]);
});

test.each([
  ["a newer commit", pull({ head: { ...pull().head, sha: "f".repeat(40) } })],
  ["a head of another repository", pull({ head: { ...pull().head, repo: { id: 3 } } })],
  ["a head whose repository is gone", pull({ head: { ...pull().head, repo: null } })],
  ["a pull request into another repository", pull({ base: { ref: "main", repo: { id: FORK } } })],
  ["a closed pull request", pull({ state: "closed" })],
])("no comment is written for %s", async (_title, other) => {
  fake.pulls = [other];
  fake.artifacts = [artifact(1, "preview-dev", "x")];
  expect(await post()).toMatch(/^No comment: no open pull request has 0123/);
  expect(fake.changes).toEqual([]);
});

test("the comments of two pull requests with the same commit have a note in place of a preview", async () => {
  fake.pulls = [pull(), pull({ number: 13 })];
  fake.artifacts = [artifact(1, "preview-dev")];
  fake.say(12, "<!-- engine-room: preview -->\nof an earlier commit");
  expect(await post()).toMatch(/^No preview: #12 and #13 share the commit/);
  const said = expect.stringMatching(
    /^<!--.*-->\n\*\*No preview\*\* of `0123456789ab`: `#12` and `#13` share the commit/,
  );
  expect([bodies(12), bodies(13)]).toEqual([[said], [said]]);
});

test("a comment uses differences from the state only for branches of this repository", async () => {
  fake.pulls = [pull()];
  fake.artifacts = [
    artifact(1, "state-preview-dev", "fromTheState"),
    artifact(2, "preview-dev", "fromTheTrees"),
  ];
  await post();
  expect(bodies(12)[0]).toContain("fromTheTrees");
  expect(bodies(12)[0]).not.toContain("fromTheState");
  fake.pulls = [pull({ head: { ...pull().head, repo: { id: HERE } } })];
  await post(event({}, HERE));
  expect(bodies(12)[0]).toContain("fromTheState");
  expect(bodies(12)[0]).not.toContain("fromTheTrees");
});

test("a comment has the true owner and base of its code, whatever the artifact says", async () => {
  const forged = {
    ref: "origin/main",
    commit: "d".repeat(40),
    hasStack: true,
    failure: null,
    problems: [],
  };
  const onMain = { ...forged, commit: "c".repeat(40) };
  fake.mainCommits.add(onMain.commit);
  const asState = (id: number, stack: string, base: object) =>
    artifactOf(
      id,
      `preview-${stack}`,
      JSON.stringify(
        stackDiff({
          source: "pulumi-preview",
          secrets: [{ path: "hub.token", kind: "update" }],
          base: base as never,
        }),
      ),
    );
  fake.pulls = [pull()];
  fake.artifacts = [asState(1, "dev", forged), asState(2, "onprem", onMain)];
  await post();
  const [body = ""] = bodies(12);
  expect(body).not.toContain("against the stack's state");
  expect(body).toContain("Compared with `main`; both versions were rendered");
  expect(body).toContain("Compared with `main` at `cccccccccccc`; both versions were rendered");
  expect(body).not.toMatch(/d{12}|origin\/main/);
});

test("a comment says that previews are missing, and ignores other artifacts", async () => {
  fake.pulls = [pull()];
  fake.artifacts = [
    artifact(1, "logs", "x"),
    artifact(2, "preview-../dev", "x"),
    { ...artifact(3, "preview-dev", "x"), expired: true },
  ];
  expect(await post(event({ conclusion: "failure" }))).toContain("with previews of: no stack");
  expect(bodies(12)[0]).toContain("Not every preview was made");
  expect(bodies(12)[0]).toContain("There is no stack to compare.");
});

test.each([
  [
    "says that it is large",
    { ...artifact(1, "preview-dev", "x"), size_in_bytes: 5_000_000 },
    "has `5000000` bytes",
  ],
  [
    "is large whatever it says",
    { ...artifact(1, "preview-dev"), zip: Buffer.alloc(5_000_000), size_in_bytes: 10 },
    "larger than `4194304` bytes",
  ],
  ["unpacks to much", artifactOf(1, "preview-dev", "x".repeat(9 * 2 ** 20)), "larger than `8388608` bytes"],
  ["is no archive", { ...artifact(1, "preview-dev"), zip: Buffer.from("404 not found") }, "not a zip file"],
  ["has another file", artifactOf(1, "preview-dev", "{}", "../diff.json"), "has no `diff.json`"],
  ["is no JSON", artifactOf(1, "preview-dev", "## dev"), "is not what `npx engine-room diff` writes"],
  [
    "has more than a difference",
    artifactOf(1, "preview-dev", JSON.stringify({ ...stackDiff(), html: "<b>" })),
    "`diff.json` of the stack dev is not what",
  ],
])("a comment shows the other stacks beside an artifact that %s", async (_title, one, message) => {
  fake.pulls = [pull()];
  fake.artifacts = [one, artifact(2, "preview-onprem")];
  expect(await post()).toContain("with previews of: dev, onprem;");
  const [body = ""] = bodies(12);
  expect(body).toContain("- `dev`: **its preview can't be read.** ");
  expect(body).toContain(message);
  expect(body).toContain("### Stack `onprem`");
});

test.each<[string, Partial<ResourceChange>]>([
  ["labels without names", { type: "docker:index/container:Container", after: { labels: [null] } }],
  [
    "a name that is none",
    {
      type: "docker:index/container:Container",
      after: { labels: [{ label: "engine-room.model", value: {} }] },
    },
  ],
  ["inputs as deep as a file can have them", { after: deep(100_000) }],
])("a comment shows the other stacks beside a resource that has %s", async (_title, changes) => {
  fake.pulls = [pull()];
  const wrong = stackDiff({ resources: [change({ kind: "replace", ...changes })] });
  fake.artifacts = [artifactOf(1, "preview-dev", jsonOf(wrong)), artifact(2, "preview-onprem")];
  expect(await post()).toContain("with previews of: dev, onprem;");
  expect(bodies(12)[0]).toContain("### Stack `onprem`");
});

/** Mark that is replaced by lists nested this deep. */
function deep(levels: number): Readonly<Record<string, unknown>> {
  return { spec: `deep:${levels}` };
}

function jsonOf(diff: StackDiff): string {
  return JSON.stringify(diff).replaceAll(
    /"deep:(\d+)"/g,
    (_, levels: string) => `${"[".repeat(Number(levels))}${"]".repeat(Number(levels))}`,
  );
}

test("a comment reports an unreadable artifact, and is not written if GitHub does not deliver it", async () => {
  fake.pulls = [pull()];
  fake.artifacts = [artifactOf(1, "preview-dev", "## dev")];
  await post();
  expect(bodies(12)[0]).toMatch(/can't be read\.\*\* .* is not what `npx engine-room diff` writes\.\n$/);
  fake.outage = 503;
  await expect(post()).rejects.toThrow("GitHub answers 503");
});

test("a comment has no previews of an earlier commit if GitHub does not deliver the artifacts of its own", async () => {
  fake.pulls = [pull()];
  fake.artifacts = [artifact(1, "preview-dev")];
  fake.say(12, "<!-- engine-room: preview -->\nnothing changes");
  fake.filesAreGone = true;
  await expect(post()).rejects.toThrow("GitHub answers 410");
  expect(bodies(12)).toEqual([expect.stringMatching(/\nThe preview of `0123456789ab` is being read/)]);
});

test("a comment begins with the stacks of the default branch that have no preview", async () => {
  fake.pulls = [pull()];
  fake.artifacts = [artifact(1, "preview-dev"), { ...artifact(2, "preview-prod"), expired: true }];
  expect(await post(event(), ["dev", "onprem", "prod"])).toBe(
    "The comment of #12 is created, with previews of: dev; without one: onprem, prod.",
  );
  const [body = ""] = bodies(12);
  expect(body).toContain(
    "/900)).\n\n- **no preview of `onprem`**: the run left none.\n- **no preview of `prod`**: the run left none.\n\n- `dev`: ",
  );
});

test("a preview behind a page of other artifacts is read", async () => {
  fake.pulls = [pull()];
  const others = Array.from({ length: 150 }, (_, index) => artifact(index, `logs-${index}`));
  fake.artifacts = [...others, artifact(900, "preview-prod", "ofProd")];
  expect(await post(event(), ["prod"])).toContain("with previews of: prod; without one: no stack.");
  expect(bodies(12)[0]).toContain("ofProd");
});

test("a comment without any preview names each stack of the default branch", async () => {
  fake.pulls = [pull()];
  await post(event({ conclusion: "failure" }), ["dev", "prod"]);
  expect(bodies(12)[0]).toMatch(/\n- \*\*no preview of `dev`\*\*.*\n- \*\*no preview of `prod`\*\*.*\n$/);
});

test("previews of many other stacks displace none of the default branch, and the comment counts omitted previews", async () => {
  fake.pulls = [pull()];
  fake.artifacts = [
    ...Array.from({ length: 25 }, (_, index) => artifact(index, `preview-a${index}`)),
    artifact(90, "preview-prod", "ofProd"),
  ];
  await post(event(), ["prod"]);
  const [body = ""] = bodies(12);
  expect(body).toContain("ofProd");
  expect(body).toContain("- **6 more previews are not read**: 20 are the most.");
});

test("only an event of a pull request is read", () => {
  expect(() => event({ event: "push" })).toThrow();
  expect(() => event({ head_sha: "main" })).toThrow();
  expect(() => event({ html_url: "javascript:alert(1)" })).toThrow();
});

const run = {
  headSha: SHA,
  runUrl: "https://github.example/run",
  hasFailed: false,
  missing: [],
  unread: 0,
};

test("the text of previews fits a comment, with any differences", () => {
  const huge = Array.from({ length: 20 }, (_, index) =>
    stackDiff({
      stack: `stack-${index}`,
      resources: Array.from({ length: 100 }, (_one, number) =>
        change({ label: `Deployment a/${"x".repeat(60)}${number}` }),
      ),
    }),
  );
  const text = previewText(
    huge.map((diff) => ({ stack: diff.stack, diff, failure: null })),
    run,
  );
  expect(text.length).toBeLessThan(65_000 + 500);
  expect(text).toContain("`stack-19`");
});

test("the JSON of a difference is read as it was written", () => {
  const full = withPlan(
    { newBuilds: [{ engine: "gpt/1", seconds: 1, usd: null, arithmetic: "1" }], newBuildUsd: 0 },
    { resources: [change()], secrets: [{ path: "hub.token", kind: "update" }] },
  );
  const text = JSON.stringify(full);
  expect(parsedDiff("diff.json", Buffer.from(text))).toEqual(JSON.parse(text));
});

const recorded = readFileSync(join(projectRoot, "test/recorded/preview-refresh.json"), "utf8");

const DEPLOYMENT =
  "urn:pulumi:onprem::engine-room::engine-room:kubernetes:Gateway$kubernetes:apps/v1:Deployment::gateway";

const SERVICE = "urn:pulumi:onprem::engine-room::kubernetes:core/v1:Service::gateway";

const step = (op: string, urn: string, detailedDiff?: Readonly<Record<string, { kind: string }>>) => ({
  op,
  urn,
  detailedDiff,
});

const read = (...steps: readonly object[]) =>
  driftOf(parsePreview(JSON.stringify({ steps, changeSummary: {} })).steps);

test("drift of a recorded preview is a manually resized resource and a manually deleted resource", () => {
  const { resources, ignored } = driftOf(parsePreview(recorded).steps);
  expect(resources.map(({ operation, urn }) => [operation, urn.split("::").at(-1)])).toEqual([
    ["create", "gone"],
    ["update", "resized"],
  ]);
  expect(ignored).toEqual([]);
});

test("drift comes from the program's step, not from the refresh before it", () => {
  const found = step("update", DEPLOYMENT, { "metadata.generation": { kind: "update" } });
  expect(read(found, step("same", DEPLOYMENT)).resources).toEqual([]);
});

test("drift ignores properties that a controller wrote and the program does not set", () => {
  const drift = read(step("update", DEPLOYMENT, { "spec.replicas": { kind: "delete" } }));
  expect(drift).toEqual({
    resources: [],
    ignored: [{ urn: DEPLOYMENT, path: "spec.replicas", reason: "KEDA's autoscaler writes it" }],
  });
});

test.each([
  ["the program sets it to something else", DEPLOYMENT, { "spec.replicas": { kind: "update" } }],
  ["it is another type's", SERVICE, { "spec.replicas": { kind: "delete" } }],
  ["it only begins like one", DEPLOYMENT, { "spec.replicasMax": { kind: "delete" } }],
])("drift ignores no property if %s", (_title, urn, detailedDiff) => {
  expect(read(step("update", urn, detailedDiff)).resources).toEqual([
    { operation: "update", urn, paths: Object.keys(detailedDiff) },
  ]);
});

test("drift lists the remaining paths, sorted", () => {
  const diff = {
    "spec.z": { kind: "update" },
    "spec.replicas": { kind: "delete" },
    "spec.a": { kind: "add" },
  };
  const { resources, ignored } = read(step("update", DEPLOYMENT, diff));
  expect(resources[0]?.paths).toEqual(["spec.a", "spec.z"]);
  expect(ignored).toHaveLength(1);
});

test("drift counts a replacement once, though all its paths were ignored", () => {
  const diff = { "spec.replicas": { kind: "delete" } };
  const steps = [
    step("create-replacement", SERVICE),
    step("replace", DEPLOYMENT, diff),
    step("delete-replaced", DEPLOYMENT),
  ];
  expect(read(...steps).resources).toEqual([{ operation: "replace", urn: DEPLOYMENT, paths: [] }]);
});

test("drift lists only names of properties if a provider has no paths", () => {
  const { resources } = read({ ...step("update", SERVICE), diffReasons: ["spec"] });
  expect(resources).toEqual([{ operation: "update", urn: SERVICE, paths: ["spec"] }]);
});

const drifted = read(step("update", SERVICE, { "spec.type": { kind: "update" } }));
const report = (drift = drifted, stack = "onprem") =>
  keepIssue(fake.client(), {
    label: "drift",
    title: `Drift of the stack ${stack}`,
    report: drift.resources.length === 0 ? null : driftReport(stack, drift),
  });

test("an issue of drift is opened, updated, left unchanged, and closed when the drift is gone", async () => {
  expect(await report(read())).toBe("nothing to do");
  expect(await report()).toBe("opened");
  expect(await report()).toBe("unchanged");
  expect(await report(read(step("delete", DEPLOYMENT)))).toBe("updated");
  expect(fake.issues).toEqual([
    {
      number: 1,
      title: "Drift of the stack onprem",
      labels: ["drift"],
      state: "open",
      body: expect.stringContaining("`delete`"),
    },
  ]);
  expect(await report(read())).toBe("closed");
  expect(fake.issues[0]?.state).toBe("closed");
  expect(await report()).toBe("opened");
  expect(fake.issues).toHaveLength(2);
});

test("an issue of drift belongs to one stack", async () => {
  await report();
  expect(await report(read(), "onprem2")).toBe("nothing to do");
  expect(fake.issues[0]?.state).toBe("open");
});

test("an issue of drift is cut to GitHub's limit, at the end of a line", async () => {
  const many = Array.from({ length: 2000 }, (_, index) => step("delete", `${SERVICE}-${index}@octocat`));
  expect(await report(read(...many))).toBe("opened");
  expect(fake.issues[0]?.body.length).toBeLessThan(65_536);
  expect(fake.issues[0]?.body).toMatch(/@octocat`\n… \(cut\)\n$/);
});

test("a report of drift has operations, paths and ignored changes with their reasons, and no values", () => {
  const drift = read(
    step("update", SERVICE, { "spec.type": { kind: "update" } }),
    step("update", DEPLOYMENT, { "spec.replicas": { kind: "delete" } }),
  );
  expect(driftReport("onprem", drift)).toBe(
    [
      "1 resource of the stack `onprem` is not as the program says. `npx engine-room up --stack onprem` undoes the drift; intended changes belong in the stack file.",
      "",
      `- \`update\` \`${SERVICE}\``,
      "  - `spec.type`",
      "",
      "Ignored (1):",
      "",
      `- \`spec.replicas\` of \`${DEPLOYMENT}\`: KEDA's autoscaler writes it`,
      "",
    ].join("\n"),
  );
  expect(driftReport("onprem", read())).toBe("The stack `onprem` is as the program says.\n");
});
