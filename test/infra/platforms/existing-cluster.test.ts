/**
 * `cluster.existing`: objects that a stack creates in someone else's cluster on EKS, and objects that it does not
 * change.
 */
import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { costSection } from "../../../scripts/plan/sections.ts";
import { EKS_STACK, EXISTING_CLUSTER_STACK as STACK } from "../../harness/aws/stacks.ts";
import { AwsGraph } from "./aws-stacks.ts";
import { rendered, type StackValues } from "./program.ts";

const graphOf = async (more: StackValues = {}) => new AwsGraph(await rendered({ ...STACK, ...more }));

const graph = await graphOf();
const counts = (wanted: AwsGraph) =>
  Object.fromEntries(
    [...new Set(wanted.resources.map(({ type }) => type))]
      .filter((type) => /^(aws|engine-room:aws|local|kubernetes:helm)/.test(type))
      .toSorted()
      .map((type) => [type, wanted.ofType(type).length]),
  );

test("the stack creates machines, roles, engine store and load balancer, and only reads the cluster", () => {
  expect(counts(graph)).toMatchInlineSnapshot(`
    {
      "aws:autoscaling/tag:Tag": 11,
      "aws:ec2/launchTemplate:LaunchTemplate": 2,
      "aws:ec2/securityGroup:SecurityGroup": 2,
      "aws:efs/accessPoint:AccessPoint": 1,
      "aws:efs/backupPolicy:BackupPolicy": 1,
      "aws:efs/fileSystem:FileSystem": 1,
      "aws:efs/fileSystemPolicy:FileSystemPolicy": 1,
      "aws:efs/mountTarget:MountTarget": 2,
      "aws:eks/cluster:Cluster": 1,
      "aws:eks/nodeGroup:NodeGroup": 2,
      "aws:iam/role:Role": 1,
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment": 3,
      "aws:lb/listener:Listener": 1,
      "aws:lb/loadBalancer:LoadBalancer": 1,
      "aws:lb/targetGroup:TargetGroup": 1,
      "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": 1,
      "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": 3,
      "engine-room:aws:AddOns": 2,
      "engine-room:aws:Charts": 1,
      "engine-room:aws:ClusterStorage": 1,
      "engine-room:aws:Edge": 1,
      "engine-room:aws:EngineFileSystem": 1,
      "engine-room:aws:ExistingCluster": 1,
      "engine-room:aws:GatewayBinding": 1,
      "engine-room:aws:GpuNodePool": 2,
      "engine-room:aws:Network": 1,
      "engine-room:aws:Protection": 1,
      "engine-room:aws:WorkloadRole": 1,
      "local:index:FixedValues": 1,
      "local:index:NodeGroupSize": 2,
    }
  `);
  const { readId, inputs } = graph.named("cluster-cluster");
  expect([readId, inputs]).toEqual(["platform", {}]);
});

test("nothing is deleted with the cluster, and nothing of it is protected", () => {
  for (const { name, options } of graph.resources) {
    expect(options.deletedWith, name).toBeUndefined();
    expect(options.protect, name).toBeUndefined();
  }
});

test("objects outside of namespaces have the stack's namespace in their names", () => {
  const wide = graph.resources.filter(
    ({ type }) =>
      /:(Namespace|PersistentVolume|PriorityClass|StorageClass)$/.test(type) &&
      type.startsWith("kubernetes:"),
  );
  expect(wide.map(({ inputs }) => (inputs.metadata as { name: string }).name).toSorted()).toEqual([
    "chat",
    "chat-building",
    "chat-engine-room-gp3",
    "chat-engine-store",
    "chat-front",
    "chat-serving",
  ]);
  expect(JSON.stringify(graph.named("store-claim").inputs)).toContain('"volumeName":"chat-engine-store"');
  expect(JSON.stringify(graph.named("mongo-set").inputs)).toContain(
    '"storageClassName":"chat-engine-room-gp3"',
  );
});

test("machines and pods find each other by pool and namespace: pools of two stacks may have one name", () => {
  const groups = graph.ofType("aws:eks/nodeGroup:NodeGroup").map(({ inputs }) => inputs);
  expect(
    groups.map(({ clusterName, nodeGroupNamePrefix, version }) => [
      clusterName,
      nodeGroupNamePrefix,
      version,
    ]),
  ).toEqual([
    ["platform", "chat-cpu-", "[unknown]"],
    ["platform", "chat-gpu-", "[unknown]"],
  ]);
  for (const { labels } of groups)
    expect(labels).toMatchObject({ "engine-room/namespace": "chat", "engine-room/pool": expect.any(String) });
  const pods = graph.resources.flatMap(({ inputs }) => [
    ...JSON.stringify(inputs).matchAll(/"nodeSelector":(\{[^}]+\})/g),
  ]);
  expect(pods.length).toBeGreaterThan(4);
  for (const [, selector] of pods)
    expect(JSON.parse(selector ?? "")).toMatchObject({ "engine-room/namespace": "chat" });
});

// NVIDIA's plugin ends when it lacks the configuration that its machine's label names.
test("machines with whole GPUs name no configuration of the cluster's device plugin, and shared ones do", async () => {
  const label = "nvidia.com/device-plugin.config";
  const labelOf = (wanted: AwsGraph) =>
    (wanted.named("gpu-machines-group").inputs.labels as Readonly<Record<string, string>>)[label];
  expect(labelOf(graph)).toBeUndefined();
  expect(
    labelOf(await graphOf({ cluster: { ...STACK.cluster, charts: { "device-plugin": "install" } } })),
  ).toBe("gpu");
});

test("machines may serve a network add-on that has no role of its own", () => {
  const attached = graph.ofType("aws:iam/rolePolicyAttachment:RolePolicyAttachment");
  expect(attached.map(({ inputs }) => String(inputs.policyArn).split("/").at(-1)).toSorted()).toEqual([
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
  ]);
});

test("add-ons and charts are installed if the stack file names them, on any machine, and replace nothing", async () => {
  const cluster = {
    existing: { ...STACK.cluster.existing, addOns: ["aws-efs-csi-driver", "eks-pod-identity-agent"] },
    charts: { "cluster-autoscaler": "install" },
  };
  const more = await graphOf({ cluster });
  const addOns = more.ofType("aws:eks/addon:Addon").map(({ inputs }) => inputs);
  expect(
    addOns.map(({ addonName, resolveConflictsOnCreate }) => [addonName, resolveConflictsOnCreate]),
  ).toEqual([
    ["aws-efs-csi-driver", "NONE"],
    ["eks-pod-identity-agent", "NONE"],
  ]);
  const [release, ...others] = more.ofType("kubernetes:helm.sh/v3:Release");
  expect(others).toEqual([]);
  expect(release?.inputs).toMatchObject({
    name: "cluster-autoscaler",
    values: { autoDiscovery: { clusterName: "platform" }, image: { tag: "[unknown]" } },
  });
  expect(JSON.stringify([addOns, release?.inputs])).not.toContain("nodeSelector");
  expect(more.named("charts-cluster-autoscaler-role-role").inputs.assumeRolePolicy).toContain(
    '"aws:RequestTag/eks-cluster-name":"platform"',
  );
});

test("the plan has neither a control plane nor machines for controllers in its costs", () => {
  const words = (values: StackValues) => {
    const { plan } = checkedPlan(values);
    if (plan.tier !== "gpu") throw new Error("no GPUs");
    return costSection(plan)
      .lines.filter((line) => !line.includes("not in the sums"))
      .join("\n");
  };
  expect(words(EKS_STACK)).toMatch(/EKS control plane.*NAT gateway/s);
  expect(words(STACK)).not.toMatch(/control plane|pool system|NAT gateway|disk of Prometheus/);
});
