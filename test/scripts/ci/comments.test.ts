import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { upsertComment } from "../../../scripts/ci/comment.ts";
import { githubFromEnvironment } from "../../../scripts/ci/github.ts";
import {
  postPreviewComment,
  previewText,
  workflowRunEventSchema,
} from "../../../scripts/ci/preview-comment.ts";
import { parsedDiff } from "../../../scripts/diff/diff-schema.ts";
import { makeZip } from "../catalogue/zip-fixture.ts";
import { change, stackDiff, withPlan } from "../diff/report/diffs.ts";
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

describe("upsertComment", () => {
  const write = (text: string) => upsertComment(fake.client(), 5, { subject: "preview", text });

  test("makes one comment, changes it, and leaves it", async () => {
    expect(await write("first")).toBe("created");
    expect(await write("second")).toBe("updated");
    expect(await write("second")).toBe("unchanged");
    expect(bodies(5)).toEqual(["<!-- engine-room: preview -->\nsecond"]);
    expect(fake.changes.map(({ method }) => method)).toEqual(["POST", "PATCH"]);
  });

  test("finds its own behind a page of others, and takes nobody else's", async () => {
    fake.say(5, "<!-- engine-room: preview -->\nmine", "mallory");
    fake.say(5, "quoted: <!-- engine-room: preview -->\n");
    fake.say(5, "<!-- engine-room: preview-stack -->\nother subject");
    for (let index = 0; index < 120; index += 1) fake.say(5, `talk ${index}`, "alice");
    fake.say(5, "<!-- engine-room: preview -->\nold");
    expect(await write("new")).toBe("updated");
    expect(bodies(5).at(-1)).toBe("<!-- engine-room: preview -->\nnew");
    expect(bodies(5)[0]).toContain("mine");
  });

  test("refuses what GitHub would refuse", async () => {
    await expect(write("x".repeat(65_536))).rejects.toThrow("at most 65536 characters, and this one 65566");
    expect(fake.changes).toEqual([]);
  });

  test("says what GitHub said", async () => {
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

  test("believes no answer of another form", async () => {
    const wrong = fake.client().get("/pulls/1", z.object({ number: z.number() }));
    await expect(wrong).rejects.toThrow("404");
    await expect(fake.client().get("", z.object({ id: z.number() }))).rejects.toThrow(
      "not what it documents",
    );
  });
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

/** As a pull request's run leaves it. @param note - A secret's path, which the report shows. */
function artifact(id: number, name: string, note = "hub.token"): FakeArtifact {
  return artifactOf(id, name, JSON.stringify(stackDiff({ secrets: [{ path: note, kind: "update" }] })));
}

function artifactOf(id: number, name: string, content: string, file = "diff.json"): FakeArtifact {
  return { id, name, expired: false, zip: makeZip([{ name: file, content, deflated: true }]) };
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

const post = (given = event()) => postPreviewComment(fake.client(), given);

describe("the comment of a preview", () => {
  test("is that of the pull request whose head was run, with the stacks by name", async () => {
    fake.pulls = [pull({ number: 11, head: { ...pull().head, sha: "f".repeat(40) } }), pull()];
    fake.artifacts = [
      artifact(1, "preview-onprem"),
      artifact(2, "preview-dev", "\u202etxt <img src=x> @octocat"),
    ];
    expect(await post()).toBe("The comment of #12 is created, with previews of: dev, onprem.");
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
    ["a closed one", pull({ state: "closed" })],
  ])("is not made for %s", async (_title, other) => {
    fake.pulls = [other];
    fake.artifacts = [artifact(1, "preview-dev", "x")];
    expect(await post()).toMatch(/^No comment: no open pull request has 0123/);
    expect(fake.changes).toEqual([]);
  });

  test("is not made where two share the commit", async () => {
    fake.pulls = [pull(), pull({ number: 13 })];
    expect(await post()).toMatch(/^No comment: #12 and #13 share the commit/);
    expect(fake.changes).toEqual([]);
  });

  test("takes what the state says in place of the trees, from this repository's branches alone", async () => {
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

  test("says of itself whose word it is and what it is compared with, whatever the artifact says", async () => {
    const forged = { ref: "origin/main", commit: "d".repeat(40), failure: null, problems: [] };
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
    expect(body).toContain("Compared with `main`; both trees' own programs say so");
    expect(body).toContain("Compared with `main` at `cccccccccccc`; both trees' own programs say so");
    expect(body).not.toMatch(/d{12}|origin\/main/);
  });

  test("says that previews are missing, and passes over what is none", async () => {
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
      "has 5000000 bytes",
    ],
    [
      "is large whatever it says",
      { ...artifact(1, "preview-dev"), zip: Buffer.alloc(5_000_000), size_in_bytes: 10 },
      "larger than 4194304",
    ],
    ["unpacks to much", artifactOf(1, "preview-dev", "x".repeat(9 * 2 ** 20)), "larger than 8388608 bytes"],
    ["has another file", artifactOf(1, "preview-dev", "{}", "../diff.json"), "has no diff.json"],
    ["is no JSON", artifactOf(1, "preview-dev", "## dev"), "is not what `npm run diff` writes"],
    [
      "has more than a difference",
      artifactOf(1, "preview-dev", JSON.stringify({ ...stackDiff(), html: "<b>" })),
      "diff.json of the stack dev is not what",
    ],
  ])("shows the other stacks beside an artifact that %s", async (_title, one, message) => {
    fake.pulls = [pull()];
    fake.artifacts = [one, artifact(2, "preview-onprem")];
    expect(await post()).toContain("with previews of: dev, onprem.");
    const [body = ""] = bodies(12);
    expect(body).toContain("- `dev`: **its preview can't be read.** ");
    expect(body).toContain(message);
    expect(body).toContain("### Stack `onprem`");
  });

  test("is made of an unread artifact alone, and not at all where GitHub does not give it", async () => {
    fake.pulls = [pull()];
    fake.artifacts = [artifactOf(1, "preview-dev", "## dev")];
    await post();
    expect(bodies(12)[0]).toMatch(/can't be read\.\*\* .* is not what `npm run diff` writes\.\n$/);
    fake.outage = 503;
    await expect(post()).rejects.toThrow("GitHub answers 503");
  });

  test("is not made from more stacks than there can be", async () => {
    fake.pulls = [pull()];
    fake.artifacts = Array.from({ length: 21 }, (_, index) => artifact(index, `preview-s${index}`, "x"));
    await expect(post()).rejects.toThrow("previews of 21 stacks, and 20 are the most");
  });

  test("is of an event that GitHub sends for a pull request, and of no other", () => {
    expect(() => event({ event: "push" })).toThrow();
    expect(() => event({ head_sha: "main" })).toThrow();
    expect(() => event({ html_url: "javascript:alert(1)" })).toThrow();
  });
});

describe("previewText", () => {
  const run = { headSha: SHA, runUrl: "https://github.example/run", hasFailed: false };

  test("fits a comment, whatever is in the differences", () => {
    const huge = Array.from({ length: 20 }, (_, index) =>
      stackDiff({
        stack: `stack-${index}`,
        resources: Array.from({ length: 500 }, (_one, number) =>
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
});

test("the JSON of a difference is read as it was written, with every part", () => {
  const full = withPlan(
    { newBuilds: [{ engine: "gpt/1", seconds: 1, usd: null, arithmetic: "1" }], newBuildUsd: 0 },
    { resources: [change()], secrets: [{ path: "hub.token", kind: "update" }] },
  );
  const text = JSON.stringify(full);
  expect(parsedDiff("diff.json", Buffer.from(text))).toEqual(JSON.parse(text));
});
