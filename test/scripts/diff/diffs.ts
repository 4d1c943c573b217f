/** Differences that are written by hand. */
import type {
  Amount,
  ComparedTree,
  PlanDifferences,
  ResourceChange,
  StackDiff,
} from "../../../scripts/diff/types.ts";

const side: ComparedTree = { ref: null, commit: null, hasStack: true, failure: null, problems: [] };

export const base: ComparedTree = { ...side, ref: "origin/main", commit: "0123456789abcdef" };

export const noPlanDifferences: PlanDifferences = {
  engines: { added: [], removed: [], rebuilt: [], unchanged: ["gpt"] },
  fit: [],
  cost: [],
  costLines: [],
  pricesAsOf: null,
  machines: [],
  servers: [],
  newBuilds: [],
  newBuildUsd: 0,
  coldStarts: [],
  warnings: { appeared: [], gone: [] },
};

/** A difference with only the given changes. */
export function stackDiff(changes: Partial<StackDiff> = {}): StackDiff {
  return {
    stack: "dev",
    source: "rendered",
    account: null,
    base,
    head: side,
    resources: [],
    unchanged: 12,
    plan: noPlanDifferences,
    secrets: [],
    settings: [],
    levels: [],
    protections: [],
    providers: [],
    violations: [],
    uncheckedPolicies: [],
    ...changes,
  };
}

export function withPlan(plan: Partial<PlanDifferences>, rest: Partial<StackDiff> = {}): StackDiff {
  return stackDiff({ plan: { ...noPlanDifferences, ...plan }, ...rest });
}

export function head(changes: Partial<ComparedTree>): ComparedTree {
  return { ...side, ...changes };
}

/** An update of a Deployment's number of pods, with changed fields. */
export function change(changes: Partial<ResourceChange> = {}): ResourceChange {
  return {
    kind: "update",
    type: "kubernetes:apps/v1:Deployment",
    name: "gpt",
    urn: "urn:pulumi:dev::engine-room::kubernetes:apps/v1:Deployment::gpt",
    label: "Deployment models/gpt",
    properties: [{ path: "spec.replicas", kind: "update", before: "1", after: "2", effect: "update" }],
    before: { metadata: { name: "gpt", namespace: "models" }, spec: { replicas: 1 } },
    after: { metadata: { name: "gpt", namespace: "models" }, spec: { replicas: 2 } },
    kept: null,
    deletedFirst: null,
    ...changes,
  };
}

/** A sum whose parts all have a price. */
export function known(usd: number): Amount {
  return { usd, isAtLeast: false };
}
