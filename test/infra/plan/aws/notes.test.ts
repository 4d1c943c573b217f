import { describe, expect, test } from "vitest";
import { edgePlan } from "../../../../infra/plan/aws/edge.ts";
import { awsNotes, needsRecord, recordNote } from "../../../../infra/plan/aws/notes.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "./stacks.ts";

type Values = Readonly<Record<string, unknown>>;

function planned(values: Values) {
  const { plan, context } = awsPlan(values);
  return { plan, context, edge: edgePlan(plan, context) };
}
function notes(values: Values): readonly string[] {
  const { plan, context, edge } = planned(values);
  return awsNotes(plan, context, edge);
}

describe("what `down` takes", () => {
  test.each([
    ["a cluster", eksValues],
    ["one machine", ec2Values],
  ])("of %s: all, documents and engines too", (_name, values) => {
    expect(notes(values).at(-1)).toBe(
      "`npm run down` deletes all that the stack has made, documents, weights and engines with it. `retain: [demo]` has it stop before that.",
    );
  });

  test("of a store that was there before: not the engines", () => {
    const existing = { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" };
    expect(notes({ ...eksValues, engineStore: { existing } }).at(-1)).toContain(
      "documents with it; weights and engines stay in fs-01234567",
    );
  });

  test("of a retained stack: nothing until its name is out of the list", () => {
    expect(notes({ ...eksValues, retain: ["demo"] }).at(-1)).toContain("stops at what `retain` protects");
    expect(notes({ ...eksValues, retain: ["other"] }).at(-1)).toContain("deletes all");
  });
});

describe("who may use the models without a key", () => {
  test("all that the load balancer answers", () => {
    const network = { peeredCidrs: ["10.1.0.0/16"] };
    expect(notes({ ...eksValues, network })[0]).toMatch(
      /^Everybody in 10\.64\.0\.0\/16, 10\.1\.0\.0\/16, every pod of the cluster among them, may use the models/,
    );
    expect(notes({ ...ec2Values, network })[0]).toMatch(
      /^Everybody in 10\.64\.0\.0\/16, 10\.1\.0\.0\/16 may use the models/,
    );
  });

  test("pods alone, where there is no load balancer", () => {
    const charts = { "load-balancer-controller": "none" };
    expect(notes({ ...eksValues, cluster: { charts } })[0]).toMatch(/^Every pod of the cluster may/);
  });

  test("nobody, where there are keys", () => {
    expect(notes({ ...eksValues, gateway: publicGateway })).toHaveLength(1);
  });
});

test("a name that the stack makes no record of must point at the load balancer", () => {
  const { edge } = planned({ ...eksValues, gateway: publicGateway });
  expect(needsRecord(edge)).toBe(true);
  expect(recordNote(edge, "demo.elb.amazonaws.com")).toMatch(
    /models\.example\.org.*demo\.elb\.amazonaws\.com/,
  );
  expect(needsRecord({ ...edge, zoneId: "Z0123456789" })).toBe(false);
  expect(needsRecord({ ...edge, hostname: null })).toBe(false);
});
