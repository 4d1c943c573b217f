import { Vpc } from "@pulumi/aws/ec2/vpc.js";
import * as pulumi from "@pulumi/pulumi";
import { expect, test } from "vitest";
import { Charts } from "../../../components/aws/charts.ts";
import { placeholder } from "../../../infra/plan/aws/placeholders.ts";
import { autoscalerRole } from "../../../infra/plan/aws/role-plans.ts";
import type { ChartPlan } from "../../../infra/plan/aws/types.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const keda: ChartPlan = {
  name: "keda",
  chart: "keda",
  version: "2.20.2",
  repository: "https://kedacore.github.io/charts",
  release: "keda",
  namespace: "keda",
  values: {},
  role: null,
  hasDisk: false,
};
const autoscaler: ChartPlan = {
  name: "cluster-autoscaler",
  chart: "cluster-autoscaler",
  version: "9.59.0",
  repository: "https://kubernetes.github.io/autoscaler",
  release: "cluster-autoscaler",
  namespace: "kube-system",
  values: { autoDiscovery: { clusterName: placeholder("clusterName") }, list: ["a", 1, null], enabled: true },
  role: autoscalerRole(CONTEXT),
  hasDisk: false,
};

function registered(charts: readonly ChartPlan[]) {
  return registeredBy(() => {
    const cluster = new Vpc("cluster", {});
    new Charts("charts", {
      context: CONTEXT,
      cluster,
      charts,
      inputs: { clusterName: pulumi.output("demo-cluster"), vpcId: "vpc-1" },
      clusterName: "demo-cluster",
      after: [],
    });
  });
}

test("each chart is one release, with a role where it calls AWS", async () => {
  expect(treeOf(await registered([autoscaler, keda]))).toEqual([
    "aws:ec2/vpc:Vpc cluster < engine-room-demo",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation charts-cluster-autoscaler-role-association < charts-cluster-autoscaler-role",
    "aws:iam/role:Role charts-cluster-autoscaler-role-role < charts-cluster-autoscaler-role",
    "aws:iam/rolePolicy:RolePolicy charts-cluster-autoscaler-role-policy < charts-cluster-autoscaler-role",
    "engine-room:aws:Charts charts < engine-room-demo",
    "engine-room:aws:WorkloadRole charts-cluster-autoscaler-role < charts",
    "kubernetes:helm.sh/v3:Release charts-cluster-autoscaler < charts",
    "kubernetes:helm.sh/v3:Release charts-keda < charts",
  ]);
});

test("a release is taken back where it does not come up, and its pods have their role from the start", async () => {
  const made = await registered([autoscaler]);
  const release = byName(made, "charts-cluster-autoscaler");
  expect(release.inputs).toMatchObject({
    name: "cluster-autoscaler",
    chart: "cluster-autoscaler",
    version: "9.59.0",
    repositoryOpts: { repo: "https://kubernetes.github.io/autoscaler" },
    namespace: "kube-system",
    createNamespace: true,
    values: { autoDiscovery: { clusterName: "demo-cluster" }, list: ["a", 1, null], enabled: true },
    atomic: true,
    skipAwait: false,
    waitForJobs: true,
    timeout: 900,
  });
  expect(release.dependencies).toContain(byName(made, "charts-cluster-autoscaler-role-association").urn);
});

test("what a chart has made goes with the cluster, but for one with a disk, and never its role", async () => {
  const made = await registered([autoscaler, { ...keda, hasDisk: true }]);
  const { urn } = byName(made, "cluster");
  expect(byName(made, "charts-cluster-autoscaler").options.deletedWith).toBe(urn);
  for (const name of ["charts", "charts-keda", "charts-cluster-autoscaler-role"])
    expect(byName(made, name).options.deletedWith).toBeUndefined();
});

test("a value that is known at preview stays known beside one that is not", async () => {
  const values = { cluster: `in ${placeholder("clusterName")}`, vpc: placeholder("vpcId") };
  const made = await registeredBy(
    () => {
      // What nobody answers is known only after `up`.
      const vpc = new Vpc("vpc", {});
      const inputs = { clusterName: "demo-cluster", vpcId: vpc.mainRouteTableId };
      new Charts("charts", {
        context: CONTEXT,
        charts: [{ ...keda, values }],
        inputs,
        clusterName: "",
        cluster: vpc,
        after: [],
      });
    },
    {},
    { preview: true },
  );
  expect(byName(made, "charts-keda").inputs.values).toEqual({
    cluster: "in demo-cluster",
    vpc: pulumi.runtime.unknownValue,
  });
});

test("a value that nobody gives is named", async () => {
  const values = { zone: placeholder("zone") };
  await expect(registered([{ ...keda, values }])).rejects.toThrow("No value was given for zone");
});
