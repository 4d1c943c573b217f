import { expect, test } from "vitest";
import { textReport } from "../../../scripts/diff/print.ts";
import { resourceLabel } from "../../../scripts/diff/resource-names.ts";
import { changedSecrets } from "../../../scripts/diff/stack-settings.ts";
import type { ResourceChange, StackDiff } from "../../../scripts/diff/types.ts";
import { PAGE_COLUMNS } from "../../../scripts/plan/text-table.ts";
import { base, change, head, known, stackDiff, withPlan } from "./diffs.ts";

const COMPARED =
  "Compared with origin/main at 0123456789ab; both versions were rendered, and no cloud was asked.";

/** Lines below the comparison, and the verdict before it. */
function linesOf(diff: StackDiff): { verdict: string; lines: readonly string[] } {
  const text = textReport(diff);
  expect(text.endsWith("\n")).toBe(true);
  const lines = text.slice(0, -1).split("\n");
  const at = lines.findIndex((line) => line.startsWith("Compared with"));
  return { verdict: lines.slice(0, at).join(" "), lines: lines.slice(at + 1).filter((line) => line !== "") };
}

test("a comparison without changes is one sentence", () => {
  expect(textReport(stackDiff())).toBe(`Stack dev: nothing changes: 12 unchanged\n${COMPARED}\n`);
});

test("the first line counts changes of each kind, engines, money, secrets and policies", () => {
  const violation = { policy: "p", level: "mandatory", resource: null, reason: "R.", fix: "F." } as const;
  const diff = withPlan(
    {
      engines: {
        added: [],
        removed: [],
        rebuilt: [{ model: "gpt", before: "gpt2/a", after: "gpt2/b", reasons: [] }],
        unchanged: [],
      },
      cost: [{ what: "monthlyUsd", before: known(1234.5), after: known(2000) }],
    },
    {
      resources: (["replace", "may-replace", "delete", "update", "update", "create"] as const).map((kind) =>
        change({ kind }),
      ),
      secrets: [{ path: "hub.token", kind: "update" }],
      violations: [
        { ...violation, isNew: true },
        { ...violation, isNew: false },
      ],
    },
  );
  expect(linesOf(diff).verdict).toBe(
    "Stack dev: 6 resources: 1 created, 2 updated, 1 replaced, 1 may be replaced, 1 deleted, 12 unchanged; 1 engine rebuilt; $1,234.50 → $2,000.00 a month; 1 secret changed; 1 new violation of 1 rule; 1 violation of 1 rule before and after",
  );
});

test("lost data comes first, and then possible replacements with their reason", () => {
  const type = "kubernetes:core/v1:PersistentVolumeClaim";
  const claim = { type, label: "PersistentVolumeClaim models/engines", before: null, after: null } as const;
  const unknown = { path: "spec.new", kind: "add", after: "1", effect: "may-replace" } as const;
  const { lines } = linesOf(
    stackDiff({
      resources: [
        change({ ...claim, kind: "replace", kept: "retained", deletedFirst: false }),
        change({ kind: "may-replace", properties: [unknown], deletedFirst: false }),
        change({ ...claim, kind: "delete", kept: "protected" }),
        change({ kind: "delete", label: "Deployment models/old" }),
      ],
    }),
  );
  expect(lines.slice(0, 9)).toEqual([
    "Look at these first",
    "  - PersistentVolumeClaim models/engines is replaced: it is retained: the old resource stays,",
    "    outside of any stack, and a new resource can't have its name",
    "  - Deployment models/gpt may be replaced: the table of replacements does not know spec.new",
    "  - PersistentVolumeClaim models/engines is deleted: it is protected, so `up` refuses to delete it",
    "Downtime (estimates of the plan)",
    "  - Deployment models/old: no longer served",
    "Replaced",
    "  - PersistentVolumeClaim models/engines: retained",
  ]);
});

test("a replaced or deleted StatefulSet is shown with the effect on the claims of its pods", () => {
  const set = (namespace: string, rest: object = {}) => ({
    metadata: { name: "mongo", namespace },
    spec: { volumeClaimTemplates: [{ metadata: { name: "data" } }], ...rest },
  });
  const type = "kubernetes:apps/v1:StatefulSet";
  const dangers = (before: Record<string, unknown>, rest: Partial<ResourceChange>) => {
    const label = resourceLabel({ type, name: "mongo-set", inputs: rest.after ?? before });
    const mongo = change({ type, name: "mongo-set", properties: [], label, before, ...rest });
    const { lines } = linesOf(stackDiff({ resources: [mongo] }));
    const last = lines.findIndex((line) => line.startsWith("Downtime"));
    return lines
      .slice(1, last)
      .map((line) => line.trim())
      .join(" ");
  };
  const kept =
    "the claims of its pods stay with their data; a set of another name or namespace starts empty, and another size is not applied";
  expect(dangers(set("models"), { kind: "replace", after: set("others") })).toBe(
    `- StatefulSet models/mongo → StatefulSet others/mongo is replaced: ${kept}`,
  );
  expect(dangers(set("models"), { kind: "delete", after: null })).toBe(
    `- StatefulSet models/mongo is deleted: ${kept}`,
  );
  const deleting = set("models", { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete" } });
  expect(dangers(deleting, { kind: "replace", after: deleting })).toBe(
    "- StatefulSet models/mongo is replaced: the claims of its pods are deleted with it, and their data is lost",
  );
});

test("rebuilt engines have reasons, time and cost of each build", () => {
  const reason = "engine gpt2: rebuild - gpu A10G 8.6 → L4 8.9";
  const { lines } = linesOf(
    withPlan({
      engines: {
        added: [
          { model: "chat", engine: "llama/c", elsewhere: true },
          { model: "own", engine: "llama/d", elsewhere: false },
        ],
        removed: [
          { model: "old", engine: "old/d", elsewhere: false },
          { model: "older", engine: "llama/c", elsewhere: true },
        ],
        rebuilt: [
          {
            model: "gpt",
            before: "gpt2/a",
            after: "gpt2/b",
            reasons: [{ field: "gpu", before: "A10G 8.6", after: "L4 8.9", sentence: reason }],
          },
        ],
        unchanged: [],
      },
      newBuilds: [
        { engine: "gpt2/b", seconds: 600, usd: null },
        { engine: "llama/d", seconds: 300, usd: 0 },
      ],
    }),
  );
  expect(lines).toEqual([
    "Engines",
    "  - rebuilt for gpt: gpt2/a → gpt2/b; built in 10 min for no price (estimate)",
    "    - gpu A10G 8.6 → L4 8.9",
    "  - needed for chat: llama/c, which already exists",
    "  - needed for own: llama/d; built in 5 min (estimate)",
    "  - no longer needed for old: old/d, which stays in the engine store",
    "  - no longer needed for older: llama/c, which another model needs",
  ]);
});

test("GPUs with the same memory are one line", () => {
  const state = { gpu: "L4 22.5 GiB", verdict: "fits", needGiB: 10, capacityGiB: 22 } as const;
  const one = { pool: "gpu", gpusBefore: 1, gpusAfter: 1 } as const;
  const two = {
    pool: "gpu",
    tenants: ["a", "b"],
    before: state,
    after: { ...state, needGiB: 30, verdict: "doesNotFit" },
    gpusBefore: 2,
    gpusAfter: 2,
  } as const;
  const { verdict, lines } = linesOf(
    withPlan({
      fit: [
        two,
        {
          ...one,
          tenants: ["c"],
          before: state,
          after: { ...state, needGiB: 11 },
          gpusBefore: 2,
          gpusAfter: 4,
        },
        { ...one, tenants: ["d"], before: null, after: state, gpusBefore: 0 },
        { ...one, tenants: ["e"], before: state, after: null, gpusAfter: 0 },
      ],
    }),
  );
  expect(verdict).toBe("Stack dev: no resource changes; 2 GPUs too small");
  expect(lines).toEqual([
    "Memory of each GPU (estimate, GiB)",
    "  - 2 GPUs of gpu with a, b: L4 22.5 GiB, need 10.00 of 22.00 → 30.00 of 22.00, fits → DOES NOT FIT",
    "  - 2 → 4 GPUs of gpu with c: L4 22.5 GiB, need 10.00 of 22.00 → 11.00 of 22.00, fits",
    "  - gpu with d: new, L4 22.5 GiB, need 10.00 of 22.00, fits",
    "  - gpu with e: no longer together on one GPU",
  ]);
});

test("cold start and cost are shown before and after if the figures differ", () => {
  const { lines } = linesOf(
    withPlan({
      coldStarts: [
        { model: "gpt", beforeSeconds: 600, afterSeconds: 605 },
        { model: "other", beforeSeconds: 600, afterSeconds: 660 },
        { model: "chat", beforeSeconds: null, afterSeconds: 80 },
      ],
      cost: [
        { what: "hourlyUsd", before: known(1.5), after: known(2.25) },
        { what: "monthlyUsd", before: known(1095), after: known(1642.5) },
        { what: "asleepMonthlyUsd", before: null, after: known(0) },
      ],
      costLines: [
        {
          what: "pool gpu",
          before: { arithmetic: "2 × 0.75", hourlyUsd: 1.5 },
          after: { arithmetic: "3 × 0.75", hourlyUsd: 2.25 },
        },
      ],
      pricesAsOf: "2026-09-01",
      machines: [
        {
          pool: "gpu",
          before: { count: 2, types: ["g5.xlarge"] },
          after: { count: 3, types: ["g5.xlarge"] },
        },
        { pool: "old", before: { count: 1, types: [] }, after: null },
      ],
      newBuilds: [
        { engine: "a/1", seconds: 60, usd: 0.2 },
        { engine: "b/2", seconds: 60, usd: null },
      ],
      newBuildUsd: 0.2,
    }),
  );
  expect(lines).toEqual([
    "Cost (US dollars, prices of 2026-09-01)",
    "  - a month: $1,095.00 → $1,642.50 (+$547.50, +50 %)",
    "    - pool gpu: $1.500 → $2.250 an hour",
    "  - an hour: $1.500 → $2.250 (+$0.750, +50 %)",
    "  - a month, all asleep: nothing → $0.00",
    "  - machines of pool gpu: 2 × g5.xlarge → 3 × g5.xlarge, 1 machine more",
    "  - machines of pool old: 1 × machine of its own description → none",
    "  - engines, built once (estimate): at least $0.20",
    "Cold start, engine built (estimate)",
    "  - other: 10 min → 11 min",
    "  - chat: not served → 80 s",
  ]);
});

test("an unknown price is not shown as zero, in the first line and in the list", () => {
  const { verdict, lines } = linesOf(
    withPlan({
      cost: [
        { what: "hourlyUsd", before: known(1.655), after: { usd: 0.1, isAtLeast: true } },
        { what: "monthlyUsd", before: known(1208.22), after: { usd: null, isAtLeast: true } },
      ],
      newBuilds: [{ engine: "b/2", seconds: 60, usd: null }],
      newBuildUsd: 0,
    }),
  );
  expect(verdict).toContain("$1,208.22 → no price");
  expect(verdict).not.toContain("no price a month");
  expect(lines).toEqual([
    "Cost (US dollars)",
    "  - a month: $1,208.22 → no price",
    "  - an hour: $1.655 → at least $0.100 (−$1.555, −94 % of the priced parts)",
  ]);
  const priced = withPlan({
    cost: [{ what: "monthlyUsd", before: known(1208.22), after: { usd: 73, isAtLeast: true } }],
  });
  expect(linesOf(priced).verdict).toContain("$1,208.22 → at least $73.00 a month");
});

test("broken policies are grouped by rule, those of the change first, and warnings and secrets follow", () => {
  const problem = { path: "release", value: '"25.07"', reason: "It ends.", fix: "Use another." };
  const { verdict, lines } = linesOf(
    withPlan(
      {
        warnings: { appeared: [problem], gone: [{ ...problem, value: "" }] },
      },
      {
        violations: [
          { policy: "old", level: "mandatory", resource: null, reason: "R.", fix: "F.", isNew: false },
          { policy: "hard", level: "mandatory", resource: "Pod a", reason: "R.", fix: "F.", isNew: true },
          { policy: "soft", level: "advisory", resource: "Pod a", reason: "R.", fix: "F.", isNew: true },
          {
            policy: "who-knows",
            level: "mandatory",
            resource: "Pod b",
            reason: "R.",
            fix: "F.",
            isNew: null,
          },
        ],
        uncheckedPolicies: [{ policy: "blind", level: "mandatory" }],
        secrets: [{ path: "hub.token", kind: "update" }],
      },
    ),
  );
  expect(verdict).toContain(
    "2 new violations of 2 rules; 1 violation of 1 rule, perhaps before too; 1 violation of 1 rule before and after; 1 policy not checked",
  );
  expect(lines).toEqual([
    "Policies that this change breaks",
    "  - mandatory hard: F.",
    "    - Pod a: R.",
    "  - advisory soft: F.",
    "    - Pod a: R.",
    "Policies that are broken; the base could not be asked",
    "  - mandatory who-knows: F.",
    "    - Pod b: R.",
    "Policies that were not checked, for there are no resources to look at",
    "  - mandatory blind",
    "New warnings",
    '  - release = "25.07": It ends. Use another.',
    "Secrets",
    "  - hub.token: changed",
    "Warnings that are gone",
    "  - release: It ends. Use another.",
    "Policies that the base breaks too",
    "  - mandatory old: 1 time",
  ]);
});

test("policies that the base breaks too are below the changes", () => {
  const violation = (policy: string, resource: string | null, level: "mandatory" | "advisory") =>
    ({ policy, level, resource, reason: `R of ${resource}.`, fix: "F.", isNew: false }) as const;
  const { lines } = linesOf(
    stackDiff({
      resources: [change({ kind: "delete" })],
      violations: [
        ...["a", "b"].map((pod) => violation("hard", `Pod ${pod}`, "mandatory")),
        violation("soft", null, "advisory"),
      ],
    }),
  );
  expect(lines.slice(2)).toEqual([
    "Deleted",
    "  - Deployment models/gpt",
    "Policies that the base breaks too",
    "  - mandatory hard: 2 times",
    "  - advisory soft: 1 time",
  ]);
});

test("text is wrapped to the page, and a word that is longer than a line is not broken", () => {
  const image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/engine-room/a-rather-long-name/services-of-it";
  const reason = `It runs ${image}:cce02d41790c, and ${"short ".repeat(50)}.`;
  const { lines } = linesOf(
    stackDiff({
      violations: [{ policy: "p", level: "advisory", resource: null, reason, fix: "F.", isNew: true }],
    }),
  );
  const words = lines.map((line) => line.trim());
  expect(words).toContain(`${image}:cce02d41790c,`);
  const others = lines.filter((line) => !line.includes(image));
  expect(others.filter(({ length }) => length > PAGE_COLUMNS)).toEqual([]);
});

test("the report has the reason why a base can't be rendered, and the problems of the head", () => {
  const problem = { path: "models[0].size", value: "1", reason: "There is no such key.", fix: "Remove it." };
  expect(
    linesOf(stackDiff({ base: { ...base, failure: "npm ci failed." }, resources: null, plan: null })),
  ).toEqual({ verdict: "Stack dev: resources can't be compared", lines: ["The base: npm ci failed."] });
  const mended = stackDiff({ base: { ...base, problems: [problem] }, resources: null, plan: null });
  expect(linesOf(mended).lines).toEqual([
    "Problems that are gone",
    "  - models[0].size = 1: There is no such key. Remove it.",
  ]);
  const broken = stackDiff({ head: head({ problems: [problem] }), resources: null, plan: null });
  expect(linesOf(broken)).toEqual({
    verdict: "Stack dev: 1 problem of the stack file: it can't be deployed",
    lines: ["Problems of the stack file", "  - models[0].size = 1: There is no such key. Remove it."],
  });
});

test("secrets are reported as added, changed and removed", () => {
  const before = new Map([
    ["gone", "1"],
    ["rotated", "1"],
    ["same", "1"],
  ]);
  const after = new Map([
    ["same", "1"],
    ["rotated", "2"],
    ["first", "1"],
  ]);
  const { verdict, lines } = linesOf(stackDiff({ secrets: changedSecrets(before, after) }));
  expect(verdict).toBe("Stack dev: no resource changes; 1 secret new; 1 secret changed; 1 secret gone");
  expect(lines).toEqual(["Secrets", "  - first: new", "  - gone: gone", "  - rotated: changed"]);
});

test("a base with the stack that can't be planned is reported as unknown, not as empty", () => {
  const fit = { gpu: "L4 22.5 GiB", verdict: "fits", needGiB: 10, capacityGiB: 22 } as const;
  const plan = {
    engines: {
      added: [{ model: "gpt", engine: "gpt2/a", elsewhere: false }],
      removed: [],
      rebuilt: [],
      unchanged: [],
    },
    cost: [{ what: "monthlyUsd", before: null, after: known(0) }],
    fit: [{ pool: "gpu", tenants: ["gpt"], before: null, after: fit, gpusBefore: 0, gpusAfter: 1 }],
    newBuilds: [{ engine: "gpt2/a", seconds: 60, usd: 0.1 }],
    newBuildUsd: 0.1,
    coldStarts: [{ model: "gpt", beforeSeconds: null, afterSeconds: 60 }],
  } as const;
  const failed = { ...base, failure: "npm ci failed." };
  const unknown = linesOf(withPlan(plan, { base: failed, resources: null }));
  expect(unknown.verdict).toBe("Stack dev: resources can't be compared; unknown → $0.00 a month");
  expect(unknown.lines).toEqual([
    "The base: npm ci failed.",
    "Engines",
    "  - needed for gpt: gpt2/a; built in 60 s for $0.10 (estimate), unless it already exists",
    "Cost (US dollars)",
    "  - a month: unknown → $0.00",
    "  - engines, built once (estimate): $0.10",
    "Memory of each GPU (estimate, GiB)",
    "  - gpu with gpt: unknown → L4 22.5 GiB, need 10.00 of 22.00, fits",
    "Cold start, engine built (estimate)",
    "  - gpt: unknown → 60 s",
  ]);
  const fresh = withPlan(plan, { base: { ...failed, hasStack: false } });
  expect(linesOf(fresh).verdict).toContain("nothing → $0.00 a month");
  expect(textReport(fresh)).not.toContain("unknown");
});

test("changes that the Pulumi CLI found are marked as such", () => {
  expect(textReport(stackDiff({ source: "pulumi-preview" }))).toContain(
    "Compared with origin/main at 0123456789ab; resources as `pulumi preview` found them against the\nstack's state.\n",
  );
});

test("changed properties are points, of a replacement with those that cause it", () => {
  const several = change({
    kind: "replace",
    deletedFirst: true,
    properties: [
      { path: "data.a", kind: "update", before: "[secret]", after: "[secret]", effect: "update" },
      { path: "spec.image", kind: "update", before: '"a"', after: '"b"', effect: "replace" },
      { path: "spec.tags[0]", kind: "add", after: '"new"', effect: "update" },
    ],
  });
  expect(linesOf(stackDiff({ resources: [several, change()] })).lines).toEqual([
    "Replaced",
    "  - Deployment models/gpt: because of spec.image; the old resource is deleted first",
    "    - data.a: secret, changed",
    '    - spec.image: "a" → "b"',
    '    - spec.tags[0]: absent → "new"',
    "Updated",
    "  - Deployment models/gpt",
    "    - spec.replicas: 1 → 2",
  ]);
});

test("no escape code reaches a terminal", () => {
  const long = `\u001b[31m${"x".repeat(300)}\u202e`;
  const text = textReport(
    withPlan(
      {
        coldStarts: [{ model: long, beforeSeconds: 1, afterSeconds: 2 }],
        warnings: { appeared: [{ path: long, value: long, reason: long, fix: long }], gone: [] },
      },
      {
        stack: long,
        resources: [
          change({
            label: long,
            properties: [{ path: long, kind: "update", before: long, after: "1", effect: "update" }],
            before: { a: `${long}\n1` },
            after: { a: `${long}\n2` },
          }),
          change({
            properties: [{ path: "a", kind: "update", before: "", after: "", effect: "update" }],
            before: { a: `${long}\n1` },
            after: { a: `${long}\n2` },
          }),
        ],
      },
    ),
  );
  for (const hidden of ["\u001b", "\u202e"]) expect(text).not.toContain(hidden);
  expect(text).toContain("\\u001b[31mxxx");
});
