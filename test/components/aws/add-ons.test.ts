import { expect, test } from "vitest";
import { AddOns } from "../../../components/aws/add-ons.ts";
import { WorkloadRole } from "../../../components/aws/workload-role.ts";
import { networkRole, nodeRole } from "../../../infra/plan/aws/role-plans.ts";
import type { AddOnPlan } from "../../../infra/plan/aws/types.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const cni: AddOnPlan = {
  name: "vpc-cni",
  version: "v1.22.4-eksbuild.3",
  configuration: { enableNetworkPolicy: "true" },
  role: networkRole(CONTEXT),
  isBeforeNodes: true,
};
const proxy: AddOnPlan = {
  name: "kube-proxy",
  version: "v1.35.3-eksbuild.13",
  configuration: null,
  role: null,
  isBeforeNodes: true,
};

async function registered(addOns: readonly AddOnPlan[]) {
  return registeredBy(() => {
    const machines = new WorkloadRole("machines", { context: CONTEXT, plan: nodeRole(CONTEXT) });
    new AddOns("add-ons", { context: CONTEXT, addOns, clusterName: "demo-cluster", after: [machines] });
  });
}

test("each add-on is one resource, with a role where it calls AWS", async () => {
  const made = (await registered([proxy, cni])).filter(({ name }) => !name.startsWith("machines"));
  expect(treeOf(made)).toEqual([
    "aws:eks/addon:Addon add-ons-kube-proxy < add-ons",
    "aws:eks/addon:Addon add-ons-vpc-cni < add-ons",
    "aws:iam/role:Role add-ons-vpc-cni-role-role < add-ons-vpc-cni-role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment add-ons-vpc-cni-role-AmazonEKS_CNI_Policy < add-ons-vpc-cni-role",
    "engine-room:aws:AddOns add-ons < engine-room-demo",
    "engine-room:aws:WorkloadRole add-ons-vpc-cni-role < add-ons",
  ]);
});

test("EKS gives the role to the add-on's own ServiceAccount, when its policies are there", async () => {
  const made = await registered([cni]);
  const addOn = byName(made, "add-ons-vpc-cni");
  expect(addOn.inputs).toEqual({
    clusterName: "demo-cluster",
    addonName: "vpc-cni",
    addonVersion: "v1.22.4-eksbuild.3",
    configurationValues: '{"enableNetworkPolicy":"true"}',
    podIdentityAssociations: [{ roleArn: "arn:of:add-ons-vpc-cni-role-role", serviceAccount: "aws-node" }],
    resolveConflictsOnCreate: "OVERWRITE",
    resolveConflictsOnUpdate: "OVERWRITE",
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-vpc-cni" },
  });
  expect(addOn.dependencies).toEqual(
    expect.arrayContaining([
      byName(made, "add-ons-vpc-cni-role-AmazonEKS_CNI_Policy").urn,
      byName(made, "machines-AmazonEKSWorkerNodePolicy").urn,
    ]),
  );
});
