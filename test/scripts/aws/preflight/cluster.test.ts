/** Preflight of a stack in an existing cluster: its identity, and parts that the stack does not install. */
import { describe, expect, test } from "vitest";
import { EXISTING_CLUSTER_STACK as STACK } from "../../../harness/aws/stacks.ts";
import { preflight, useWorld, type Values, world } from "./account-fixture.ts";

useWorld();

const GOOD = {
  status: "ACTIVE",
  version: "1.35",
  resourcesVpcConfig: { vpcId: STACK.network.existing.vpcId },
  kubernetesNetworkConfig: { ipFamily: "ipv4" },
  accessConfig: { authenticationMode: "API" },
};
const ADD_ONS = ["vpc-cni", "eks-pod-identity-agent", "aws-efs-csi-driver", "aws-ebs-csi-driver"];

async function foundIn(cluster: object | null, values: Values = STACK, addons: readonly string[] = ADD_ONS) {
  const there = { "eks:ListAddons": () => ({ json: { addons } }) };
  const checks = await preflight(
    cluster === null
      ? { "eks:ListAddons": () => ({ error: "ResourceNotFoundException", status: 404 }) }
      : { ...there, "eks:DescribeCluster": () => ({ json: { cluster: { ...GOOD, ...cluster } } }) },
    values,
  );
  const findings = checks
    .flatMap(({ findings }) => findings)
    .filter(({ check }) => check === "cluster" || check === "access");
  return findings.map(({ severity, what }) => [severity, what]);
}

const withCluster = (more: object) => ({ ...STACK, cluster: { ...STACK.cluster, ...more } });

test("a suitable cluster has no finding, and is only read", async () => {
  expect(await foundIn({})).toEqual([]);
  expect(world.aws?.asked).toContain("eks:ListAddons");
});

test.each<readonly [string, object | null, string, string]>([
  ["a missing cluster", null, "problem", "There is no cluster platform in us-east-1."],
  ["a cluster that is being made", { status: "CREATING" }, "problem", "The cluster platform is CREATING."],
  ["another VPC", { resourcesVpcConfig: { vpcId: "vpc-1" } }, "problem", "The cluster platform is in vpc-1."],
  [
    "pods with IPv6",
    { kubernetesNetworkConfig: { ipFamily: "ipv6" } },
    "problem",
    "Pods of platform have IPv6 addresses.",
  ],
  ["an unknown version", { version: "1.31" }, "warning", "The cluster platform has Kubernetes 1.31."],
  [
    "a cluster without access entries",
    { accessConfig: { authenticationMode: "CONFIG_MAP" } },
    "warning",
    "The cluster platform has no access entries.",
  ],
])("%s is found", async (_case, cluster, severity, what) => {
  expect(await foundIn(cluster)).toEqual([[severity, what]]);
});

test("an unknown version is a problem if the stack installs an autoscaler for it", async () => {
  const values = withCluster({ charts: { "cluster-autoscaler": "install" } });
  expect(await foundIn({ version: "1.31" }, values)).toEqual([
    ["problem", "The cluster platform has Kubernetes 1.31."],
  ]);
});

describe("add-ons", () => {
  const lacks = (name: string) => `The cluster platform lacks the add-on ${name}.`;

  test("drivers of disks that are not installed as add-ons are warnings", async () => {
    expect(await foundIn({}, STACK, [])).toEqual([
      ["warning", lacks("aws-efs-csi-driver")],
      ["warning", lacks("aws-ebs-csi-driver")],
    ]);
  });

  test("without the agent of pod identity, roles of the stack's pods are a problem", async () => {
    const values = withCluster({ charts: { "cluster-autoscaler": "install" } });
    expect(await foundIn({}, values, ADD_ONS.slice(2))).toEqual([
      ["problem", lacks("eks-pod-identity-agent")],
    ]);
    expect(await foundIn({ computeConfig: { enabled: true } }, values, ADD_ONS.slice(2))).toEqual([]);
  });

  test("parts that the stack installs are not missing", async () => {
    const addOns = ["aws-efs-csi-driver", "aws-ebs-csi-driver", "eks-pod-identity-agent"];
    const values = withCluster({ existing: { ...STACK.cluster.existing, addOns } });
    expect(await foundIn({}, values, [])).toEqual([]);
  });
});
