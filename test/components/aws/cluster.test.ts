import * as pulumi from "@pulumi/pulumi";
import { expect, test } from "vitest";
import { Cluster } from "../../../components/aws/cluster.ts";
import { clusterRole, nodeRole } from "../../../infra/plan/aws/role-plans.ts";
import type { AwsContext, ClusterPlan } from "../../../infra/plan/aws/types.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const ADMIN = "arn:aws:iam::111122223333:role/platform-team";

const plan: ClusterPlan = {
  version: "1.35",
  publicCidrs: ["203.0.113.7/32"],
  admins: [ADMIN],
  logRetentionDays: 30,
  role: clusterRole(CONTEXT),
  nodeRole: nodeRole(CONTEXT),
  addOns: [],
  charts: [],
  pools: [],
  podRoles: [],
};

/** What EKS knows of a cluster that it made. */
const made = {
  "aws:eks/cluster:Cluster": () => ({
    endpoint: "https://api.example.org",
    certificateAuthority: { data: "Q0E=" },
    vpcConfig: { clusterSecurityGroupId: "sg-cluster" },
  }),
};

async function registered(context: AwsContext = CONTEXT, changes: Partial<ClusterPlan> = {}) {
  const shown: { kubeconfig?: string; secret?: boolean; securityGroupId?: string } = {};
  const registrations = await registeredBy(() => {
    const cluster = new Cluster("cluster", {
      context,
      plan: { ...plan, ...changes },
      vpcId: "vpc-1",
      subnets: [{ id: "subnet-a" }, { id: "subnet-b" }],
    });
    cluster.kubeconfig.apply((text) => {
      shown.kubeconfig = text;
    });
    cluster.securityGroupId.apply((id) => {
      shown.securityGroupId = id;
    });
    void pulumi.isSecret(cluster.kubeconfig).then((secret) => {
      shown.secret = secret;
    });
  }, made);
  return { registrations, shown };
}

test("a cluster has its key, logs, role and admins, and nothing else", async () => {
  const { registrations } = await registered();
  const [admin] = registrations.filter(({ type }) => type.endsWith(":AccessEntry"));
  expect(treeOf(registrations)).toEqual([
    "aws:cloudwatch/logGroup:LogGroup cluster-logs < cluster",
    `aws:eks/accessEntry:AccessEntry ${admin?.name} < cluster`,
    `aws:eks/accessPolicyAssociation:AccessPolicyAssociation ${admin?.name}-policy < cluster`,
    "aws:eks/cluster:Cluster cluster-cluster < cluster",
    "aws:iam/role:Role cluster-role-role < cluster-role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment cluster-role-AmazonEKSClusterPolicy < cluster-role",
    "aws:kms/key:Key cluster-secrets-key < cluster",
    "engine-room:aws:Cluster cluster < engine-room-demo",
    "engine-room:aws:WorkloadRole cluster-role < cluster",
  ]);
  expect(byName(registrations, `${admin?.name}-policy`).inputs).toMatchObject({
    clusterName: "engine-room-demo",
    principalArn: ADMIN,
    policyArn: "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
    accessScope: { type: "cluster" },
  });
});

test("its API is reached from within and from the given networks, and its Secrets are encrypted", async () => {
  const { registrations } = await registered();
  const cluster = byName(registrations, "cluster-cluster");
  expect(cluster.inputs).toEqual({
    name: "engine-room-demo",
    roleArn: "arn:of:cluster-role-role",
    version: "1.35",
    accessConfig: { authenticationMode: "API", bootstrapClusterCreatorAdminPermissions: true },
    bootstrapSelfManagedAddons: false,
    deletionProtection: false,
    enabledClusterLogTypes: ["api", "audit", "authenticator", "controllerManager", "scheduler"],
    encryptionConfig: { provider: { keyArn: "arn:of:cluster-secrets-key" }, resources: ["secrets"] },
    upgradePolicy: { supportType: "STANDARD" },
    vpcConfig: {
      subnetIds: ["subnet-a", "subnet-b"],
      endpointPrivateAccess: true,
      endpointPublicAccess: true,
      publicAccessCidrs: ["203.0.113.7/32"],
    },
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-cluster" },
  });
  expect(byName(registrations, "cluster-secrets-key").inputs).toMatchObject({ enableKeyRotation: true });
});

test("its logs have an end before it writes the first one", async () => {
  const { registrations } = await registered();
  const logs = byName(registrations, "cluster-logs");
  expect(logs.inputs).toMatchObject({ name: "/aws/eks/engine-room-demo/cluster", retentionInDays: 30 });
  expect(byName(registrations, "cluster-cluster").dependencies).toContain(logs.urn);
});

test("without networks it is private: AWS would take none for all", async () => {
  const { registrations } = await registered(CONTEXT, { publicCidrs: [] });
  expect(byName(registrations, "cluster-cluster").inputs.vpcConfig).toEqual({
    subnetIds: ["subnet-a", "subnet-b"],
    endpointPrivateAccess: true,
    endpointPublicAccess: false,
  });
});

test("one that is retained is deleted neither by Pulumi nor by hand", async () => {
  const { registrations } = await registered({ ...CONTEXT, isRetained: true });
  const cluster = byName(registrations, "cluster-cluster");
  expect(cluster.inputs.deletionProtection).toBe(true);
  expect(cluster.options.protect).toBe(true);
  expect(byName(registrations, "cluster-secrets-key").options.protect).toBe(true);
});

test("its kubeconfig asks AWS for a token, and holds none", async () => {
  const { shown } = await registered();
  expect(shown.secret).toBe(false);
  expect(shown.securityGroupId).toBe("sg-cluster");
  expect(JSON.parse(shown.kubeconfig ?? "null")).toEqual({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "engine-room-demo",
    clusters: [
      {
        name: "engine-room-demo",
        cluster: { server: "https://api.example.org", "certificate-authority-data": "Q0E=" },
      },
    ],
    contexts: [
      { name: "engine-room-demo", context: { cluster: "engine-room-demo", user: "engine-room-demo" } },
    ],
    users: [
      {
        name: "engine-room-demo",
        user: {
          exec: {
            apiVersion: "client.authentication.k8s.io/v1beta1",
            command: "aws",
            args: [
              ...["eks", "get-token", "--cluster-name", "engine-room-demo"],
              ...["--region", "eu-west-1", "--output", "json"],
            ],
            interactiveMode: "Never",
          },
        },
      },
    ],
  });
});
