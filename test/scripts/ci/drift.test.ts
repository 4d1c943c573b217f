import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { driftReport, readDrift, reportDrift } from "../../../scripts/ci/drift.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { FakeGitHub } from "./fake-github.ts";

const recorded: unknown = JSON.parse(
  readFileSync(join(projectRoot, "test/recorded/preview-refresh.json"), "utf8"),
);
const DEPLOYMENT =
  "urn:pulumi:onprem::engine-room::engine-room:kubernetes:Gateway$kubernetes:apps/v1:Deployment::gateway";
const SERVICE = "urn:pulumi:onprem::engine-room::kubernetes:core/v1:Service::gateway";

const step = (op: string, urn: string, detailedDiff?: Readonly<Record<string, { kind: string }>>) => ({
  op,
  urn,
  detailedDiff,
});
const read = (...steps: readonly object[]) => readDrift({ steps });

describe("readDrift", () => {
  test("of what the CLI printed: one resized by hand, one deleted by hand, and neither of the others", () => {
    const { resources, ignored } = readDrift(recorded);
    expect(resources.map(({ operation, urn }) => [operation, urn.split("::").at(-1)])).toEqual([
      ["create", "gone"],
      ["update", "resized"],
    ]);
    expect(ignored).toEqual([]);
  });

  test("takes the program's step, not what the refresh found before it", () => {
    const found = step("update", DEPLOYMENT, { "metadata.generation": { kind: "update" } });
    expect(read(found, step("same", DEPLOYMENT)).resources).toEqual([]);
  });

  test("ignores what a controller wrote and the program does not set", () => {
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
  ])("ignores nothing where %s", (_title, urn, detailedDiff) => {
    expect(read(step("update", urn, detailedDiff)).resources).toEqual([
      { operation: "update", urn, paths: Object.keys(detailedDiff) },
    ]);
  });

  test("keeps the paths that are left, sorted", () => {
    const diff = {
      "spec.z": { kind: "update" },
      "spec.replicas": { kind: "delete" },
      "spec.a": { kind: "add" },
    };
    const { resources, ignored } = read(step("update", DEPLOYMENT, diff));
    expect(resources[0]?.paths).toEqual(["spec.a", "spec.z"]);
    expect(ignored).toHaveLength(1);
  });

  test("counts a replacement once, though all its paths were ignored", () => {
    const diff = { "spec.replicas": { kind: "delete" } };
    const steps = [
      step("create-replacement", SERVICE),
      step("replace", DEPLOYMENT, diff),
      step("delete-replaced", DEPLOYMENT),
    ];
    expect(read(...steps).resources).toEqual([{ operation: "replace", urn: DEPLOYMENT, paths: [] }]);
  });

  test("goes by the names of properties where a provider tells no more", () => {
    const { resources } = read({ ...step("update", SERVICE), diffReasons: ["spec"] });
    expect(resources).toEqual([{ operation: "update", urn: SERVICE, paths: ["spec"] }]);
  });

  test("refuses what is no preview", () => {
    expect(() => readDrift({})).toThrow();
  });
});

describe("an issue", () => {
  let fake: FakeGitHub;
  beforeEach(async () => {
    fake = await FakeGitHub.start();
  });
  afterEach(() => fake.stop());

  const drifted = read(step("update", SERVICE, { "spec.type": { kind: "update" } }));
  const report = (drift = drifted) => reportDrift(fake.client(), "onprem", drift);

  test("is opened, kept up to date, left, and closed when the drift is gone", async () => {
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

  test("is one a stack", async () => {
    await report();
    expect(await reportDrift(fake.client(), "onprem2", read())).toBe("nothing to do");
    expect(fake.issues[0]?.state).toBe("open");
  });

  test("is cut where it is longer than GitHub takes", async () => {
    const many = Array.from({ length: 2000 }, (_, index) => step("delete", `${SERVICE}-${index}`));
    expect(await report(read(...many))).toBe("opened");
    expect(fake.issues[0]?.body.length).toBeLessThan(65_536);
    expect(fake.issues[0]?.body).toMatch(/… \(cut\)\n$/);
  });
});

test("a report names operations, paths and what was ignored with its reason, and no value", () => {
  const drift = read(
    step("update", SERVICE, { "spec.type": { kind: "update" } }),
    step("update", DEPLOYMENT, { "spec.replicas": { kind: "delete" } }),
  );
  expect(driftReport("onprem", drift)).toBe(
    [
      "One resource of the stack onprem is not as the program says. `npm run up -- --stack onprem` makes them so; what was changed on purpose belongs into the stack file.",
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
  expect(driftReport("onprem", read())).toBe("The stack onprem is as the program says.\n");
});
