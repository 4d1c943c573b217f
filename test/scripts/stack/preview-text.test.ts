import { describe, expect, test } from "vitest";
import {
  changeLines,
  propertyLines,
  type Step,
  withoutSecrets,
} from "../../../scripts/stack/preview-text.ts";
import { EngineReport, StepReporter } from "../../../scripts/stack/reporter.ts";

const step = (name: string, type: string, operation: Step["operation"] = "update"): Step => ({
  ...{ operation, urn: `urn::${name}`, type, name, changes: [], replaceReasons: [] },
});

const models = (parallelRequests: number) => [{ name: "smollm2", parallelRequests }];

describe("a change of the stack file", () => {
  test("a change of the stack file is shown with its key, its values and the services that restart for it", () => {
    const steps = [
      step("smollm2-server", "local:index:Process"),
      step("smollm2", "local:index:ModelRepository"),
    ];
    expect(changeLines({ models: models(4) }, { models: models(2) }, steps)).toEqual([
      "models[0].parallelRequests 4 → 2: smollm2 restarts",
    ]);
  });

  test("a change of the stack file is separate from services that restart for another reason", () => {
    const steps = [
      step("smollm2", "kubernetes:apps/v1:Deployment", "replace"),
      step("gateway", "docker:index/container:Container"),
      step("mongo", "local:index:Process", "create"),
    ];
    expect(changeLines({ gateway: { port: 1 } }, { gateway: { port: 2 } }, steps)).toEqual([
      "gateway.port 1 → 2: gateway restarts",
      "also smollm2 restarts",
    ]);
    expect(changeLines({}, {}, steps)).toEqual(["smollm2, gateway restart"]);
  });

  test("a change of the stack file shows a new or removed key, and no secret", () => {
    const before = { port: "8123", hub: "(secret)" };
    expect(changeLines(before, { port: 8123, hub: { secure: "v1:abc" }, tier: "cpu" })).toEqual([
      'tier (absent) → "cpu"',
    ]);
    expect(withoutSecrets({ gateway: { keys: [{ secure: "v1:abc" }] } })).toEqual({
      gateway: { keys: ["(secret)"] },
    });
  });
});

test("hashes and triggers are properties of only the full preview", () => {
  const change = (path: string, before: string, after: string) =>
    ({ path, kind: "update", before, after }) as const;
  const changed: Step = {
    ...step("smollm2", "local:index:Process"),
    changes: [
      change("digest", `"sha256:${"a".repeat(64)}"`, `"sha256:${"b".repeat(64)}"`),
      change("slots", "4", "2"),
      change("triggers[0]", '"1"', '"2"'),
    ],
    replaceReasons: ["slots"],
  };
  expect(propertyLines(changed, false)).toEqual(["      ~ slots: 4 → 2  (forces replacement)"]);
  expect(propertyLines(changed, true)).toHaveLength(3);
});

test("a refresh has the engine's counts", () => {
  const reporter = new StepReporter();
  const { take } = new EngineReport(reporter, true);
  const summary = { maybeCorrupt: false, durationSeconds: 1, policyPacks: {} };
  take({ sequence: 1, timestamp: 1, summaryEvent: { ...summary, resourceChanges: { same: 13, delete: 1 } } });
  expect(reporter.summary()).toBe("1 deleted, 13 unchanged");
});
