import { expect, test } from "vitest";
import { WorkloadRole } from "../../../components/aws/workload-role.ts";
import { placeholder } from "../../../infra/plan/aws/placeholders.ts";
import type { RolePlan } from "../../../infra/plan/aws/types.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const plan: RolePlan = {
  subject: "efs-csi",
  service: "pods.eks.amazonaws.com",
  managedPolicies: ["arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy"],
  statements: [
    {
      sid: "Mount",
      effect: "Allow",
      actions: ["elasticfilesystem:ClientMount"],
      resources: [placeholder("fileSystemArn")],
      conditions: { StringEquals: { "aws:ResourceTag/of": placeholder("aws:PrincipalTag/of") } },
      why: "test",
    },
  ],
  serviceAccount: { namespace: "kube-system", name: "efs-csi-controller-sa" },
};

test("a role has its policies, and the pods of one ServiceAccount in the stack's own cluster take it", async () => {
  const made = await registeredBy(() => {
    new WorkloadRole("efs", {
      context: CONTEXT,
      plan,
      inputs: { fileSystemArn: "arn:fs" },
      clusterName: "engine-room-demo",
    });
  });
  expect(treeOf(made)).toEqual([
    "aws:eks/podIdentityAssociation:PodIdentityAssociation efs-association < efs",
    "aws:iam/role:Role efs-role < efs",
    "aws:iam/rolePolicy:RolePolicy efs-policy < efs",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment efs-AmazonEFSCSIDriverPolicy < efs",
    "engine-room:aws:WorkloadRole efs < engine-room-demo",
  ]);
  const role = byName(made, "efs-role").inputs;
  expect(role).toMatchObject({
    name: "engine-room-demo-efs-csi",
    tags: { "engine-room:stack": "demo", Name: "engine-room-demo-efs-csi" },
  });
  expect(JSON.parse(String(role.assumeRolePolicy))).toEqual({
    Version: "2012-10-17",
    Statement: [
      {
        Effect: "Allow",
        Principal: { Service: "pods.eks.amazonaws.com" },
        Action: ["sts:AssumeRole", "sts:TagSession"],
        Condition: {
          StringEquals: {
            "aws:RequestTag/eks-cluster-name": "engine-room-demo",
            "aws:RequestTag/kubernetes-namespace": "kube-system",
            "aws:RequestTag/kubernetes-service-account": "efs-csi-controller-sa",
          },
        },
      },
    ],
  });
  expect(JSON.parse(String(byName(made, "efs-policy").inputs.policy))).toEqual({
    Version: "2012-10-17",
    Statement: [
      {
        Sid: "Mount",
        Effect: "Allow",
        Action: ["elasticfilesystem:ClientMount"],
        Resource: ["arn:fs"],
        Condition: { StringEquals: { "aws:ResourceTag/of": placeholder("aws:PrincipalTag/of") } },
      },
    ],
  });
  expect(byName(made, "efs-association").inputs).toMatchObject({
    clusterName: "engine-room-demo",
    namespace: "kube-system",
    serviceAccount: "efs-csi-controller-sa",
    roleArn: "arn:of:efs-role",
  });
});

test("a role of a service has no association, and without statements no policy of its own", async () => {
  const made = await registeredBy(() => {
    new WorkloadRole("node", {
      context: CONTEXT,
      plan: { ...plan, service: "ec2.amazonaws.com", statements: [], serviceAccount: null },
      clusterName: "engine-room-demo",
    });
  });
  expect(treeOf(made)).toEqual([
    "aws:iam/role:Role node-role < node",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment node-AmazonEFSCSIDriverPolicy < node",
    "engine-room:aws:WorkloadRole node < engine-room-demo",
  ]);
  expect(JSON.parse(String(byName(made, "node-role").inputs.assumeRolePolicy)).Statement).toEqual([
    { Effect: "Allow", Principal: { Service: "ec2.amazonaws.com" }, Action: ["sts:AssumeRole"] },
  ]);
});

test("a statement's resource that nobody gives is named", async () => {
  const create = () => new WorkloadRole("efs", { context: CONTEXT, plan });
  await expect(registeredBy(create)).rejects.toThrow("No value was given for fileSystemArn");
});
