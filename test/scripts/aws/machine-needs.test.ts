/** Which machines the project's own stacks want of AWS, and what quotas of a new account make of them. */
import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { awsNeeds } from "../../../scripts/preflight/aws-needs.ts";
import { vcpuFindings } from "../../../scripts/preflight/aws-quotas.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { projectStackValues } from "../../harness/stack-files.ts";

type Values = Readonly<Record<string, unknown>>;

const STANDARD = "L-1216C47A";
const G_AND_VT = "L-DB2E81BA";
const P = "L-417A185B";

const needsOf = (values: Values) => awsNeeds(awsTarget(checkedPlan(values).plan as AwsPlan, "dev")).machines;

/** Severities by quota code, where nothing else runs. */
function severities(values: Values, vcpus: Readonly<Record<string, number>>) {
  const quotas = new Map(
    Object.entries(vcpus).map(([code, value]) => [code, { kind: "answer", value }] as const),
  );
  const nothing = {
    others: { kind: "answer", value: [] },
    vcpus: { kind: "answer", value: new Map() },
  } as const;
  return vcpuFindings(needsOf(values), { quotas, region: "us-east-1", ...nothing })
    .filter(({ what }) => / lacks \d+ vCPUs\.$/.test(what))
    .map(({ severity, what }) => [severity, what.split(" ")[2]]);
}

const dev = projectStackValues("Pulumi.dev.yaml");
const prod = projectStackValues("Pulumi.prod.yaml");

test("`up` waits for what all replicas run on, for controllers, and for a machine that only builds", () => {
  const machines = (values: Values) =>
    needsOf(values).map(({ pool, plannedMachines, maxMachines }) => [pool, plannedMachines, maxMachines]);
  expect(machines(prod)).toEqual([
    ["system", 2, 4],
    ["a100", 1, 1],
    ["a10g", 2, 4],
    ["cpu", 2, 4],
  ]);
  const [gpu, cpu] = EKS_STACK.pools;
  const models = [{ ...EKS_STACK.models[0], pool: "gpu", buildPool: "builds" }];
  expect(machines({ ...EKS_STACK, models, pools: [gpu, cpu, { ...gpu, name: "builds" }] })).toContainEqual([
    "builds",
    1,
    2,
  ]);
});

// dev: 2 × 2 of controllers and 4 of the encoders, of up to 12. prod: 2 × 16, of up to 64; 96 of the p4d.
test.each([
  ["dev, a new account's", dev, { [STANDARD]: 5 }, [["problem", STANDARD]]],
  ["dev, one short of what `up` waits for", dev, { [STANDARD]: 7 }, [["problem", STANDARD]]],
  ["dev, what `up` waits for", dev, { [STANDARD]: 8 }, [["warning", STANDARD]]],
  ["dev, the most", dev, { [STANDARD]: 12 }, []],
  ["prod, one of two machines", prod, { [G_AND_VT]: 16 }, [["problem", G_AND_VT]]],
  ["prod, both machines", prod, { [G_AND_VT]: 32 }, [["warning", G_AND_VT]]],
  ["prod, no machine of P", prod, { [P]: 95 }, [["problem", P]]],
  ["prod, the most", prod, { [G_AND_VT]: 64, [P]: 96 }, []],
] as const)("quotas of %s", (_, values, vcpus, expected) => {
  expect(severities(values, vcpus)).toEqual(expected);
});
