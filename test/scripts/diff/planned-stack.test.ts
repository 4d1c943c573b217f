/** A stack that can be planned, and whose resources can't be rendered: what is known of its policies all the same. */
import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { stackPolicy } from "../../../policy/stack-policy.ts";
import { parseRenderedTree, unrendered } from "../../../scripts/diff/rendered-tree.ts";
import { stackDiff } from "../../../scripts/diff/stack-diff.ts";
import { newMandatory } from "../../../scripts/diff/violations.ts";

const values = {
  platform: "kubernetes",
  images: { registry: "registry.example.org/engine-room" },
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge" },
    { name: "cpu", machine: { vcpus: 8, memoryGiB: 32 } },
  ],
  models: [{ name: "gpt", model: "gpt2-medium" }],
};

/** Machines of one's own cost nothing by the hour; these do. */
const { plan } = checkedPlan(values);
const rented = { ...plan, cost: { ...plan.cost, hourlyUsd: 1.6 } };

/** As the tree's own process writes it where the program ends with a sentence. */
const planned = parseRenderedTree(
  JSON.stringify({ plan: rented, failure: "This version can't deploy it." }),
  true,
);

const policy = stackPolicy(
  "demo",
  {
    ...Object.fromEntries(
      Object.entries(values).map(([key, value]) => [
        `engine-room:${key}`,
        typeof value === "string" ? value : JSON.stringify(value),
      ]),
    ),
    "engine-room:policies": JSON.stringify({ hourlyUsdCap: 0.01 }),
  },
  "engine-room",
);

function diffTo(base: typeof planned, hasStack = true) {
  const side = { ref: null, commit: null, secrets: new Map() };
  return stackDiff("demo", { ...side, tree: base, hasStack }, { ...side, tree: planned, policy });
}

test("its price and releases are judged by the plan, and the other policies are said not to be checked", () => {
  const { violations, uncheckedPolicies } = diffTo(planned);
  expect(violations.map(({ policy: name, level, isNew }) => [name, level, isNew])).toEqual([
    ["price-is-below-cap", "mandatory", false],
    ["release-has-fixes", "advisory", false],
  ]);
  expect(uncheckedPolicies).toContain("image-has-digest");
  expect(uncheckedPolicies).not.toContain("price-is-below-cap");
});

test("what it breaks is new in a new stack, and not known to be new where the base says nothing", () => {
  const ofNewStack = diffTo(unrendered("It has no stack file."), false);
  expect(newMandatory(ofNewStack).map(({ policy: name }) => name)).toEqual(["price-is-below-cap"]);
  const ofUnreadBase = diffTo(unrendered("npm ci failed."));
  expect(ofUnreadBase.violations.map(({ isNew }) => isNew)).toEqual([null, null]);
  expect(newMandatory(ofUnreadBase)).toEqual([]);
});

test("a plan of older code, whose lines say nothing of sleep and whose sums are never null, is read", () => {
  if (plan.tier !== "gpu") throw new Error("This is no stack on GPUs.");
  const { withoutPrice: _none, ...cost } = plan.cost;
  const older = { ...cost, hourlyUsd: 0, lines: [{ what: "pool gpu", arithmetic: "", hourlyUsd: null }] };
  const read = parseRenderedTree(JSON.stringify({ plan: { ...plan, cost: older }, failure: "F." }), true);
  expect(read.plan?.cost.lines).toEqual([{ hourlyUsd: null, asleepHourlyUsd: null }]);
  const newer = parseRenderedTree(JSON.stringify({ plan, failure: "F." }), true);
  expect(newer.plan?.cost.lines).toEqual(
    plan.cost.lines.map(({ hourlyUsd, asleepHourlyUsd }) => ({ hourlyUsd, asleepHourlyUsd })),
  );
});
