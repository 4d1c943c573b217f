import { expect, test } from "vitest";
import { GpuNodePool } from "../../../components/aws/gpu-node-pool.ts";
import type { AwsContext, NodePoolPlan } from "../../../infra/plan/aws/types.ts";
import type { Registration } from "../../../scripts/program/monitor.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const plan: NodePoolPlan = {
  name: "gpu",
  instanceTypes: ["g5.xlarge"],
  amiType: "AL2023_x86_64_NVIDIA",
  capacityType: "ON_DEMAND",
  min: 0,
  max: 2,
  desired: 0,
  sizeTags: { "engine-room:machines": "0 to 2" },
  zones: ["b"],
  labels: { "engine-room/pool": "gpu" },
  taints: [{ key: "nvidia.com/gpu", value: "present", effect: "NO_SCHEDULE" }],
  rootDisk: { sizeGiB: 200, iops: 3000, throughputMiBps: 600 },
  userData: "MIME-Version: 1.0\n",
  capacityReservationId: null,
  updateStrategy: "MINIMAL",
  scalingTags: {
    "k8s.io/cluster-autoscaler/node-template/label/engine-room/pool": "gpu",
    "k8s.io/cluster-autoscaler/node-template/taint/nvidia.com/gpu": "present:NoSchedule",
  },
};

const made = {
  "aws:eks/nodeGroup:NodeGroup": () => ({ resources: [{ autoscalingGroups: [{ name: "eks-gpu-1" }] }] }),
  "aws:ec2/launchTemplate:LaunchTemplate": () => ({ latestVersion: 7 }),
};

function registered(
  changes: Partial<NodePoolPlan> = {},
  context: AwsContext = CONTEXT,
): Promise<readonly Registration[]> {
  return registeredBy(() => {
    new GpuNodePool("gpu", {
      context,
      plan: { ...plan, ...changes },
      clusterName: "demo-cluster",
      version: "1.35",
      nodeRoleArn: "arn:of:node",
      subnets: [
        { zone: "a", id: "subnet-a" },
        { zone: "b", id: "subnet-b" },
      ],
      after: [],
    });
  }, made);
}

test("a pool is a node group, its template, and what the autoscaler reads of it", async () => {
  expect(treeOf(await registered())).toEqual([
    "aws:autoscaling/tag:Tag gpu-node-template/label/engine-room/pool < gpu",
    "aws:autoscaling/tag:Tag gpu-node-template/taint/nvidia.com/gpu < gpu",
    "aws:ec2/launchTemplate:LaunchTemplate gpu-template < gpu",
    "aws:eks/nodeGroup:NodeGroup gpu-group < gpu",
    "engine-room:aws:GpuNodePool gpu < engine-room-demo",
  ]);
});

test("its machines are told what to do, and keep their role from pods", async () => {
  const { inputs } = byName(await registered(), "gpu-template");
  const tags = { ...CONTEXT.tags, Name: "engine-room-demo-gpu" };
  expect(inputs).toEqual({
    name: "engine-room-demo-gpu",
    updateDefaultVersion: true,
    metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
    blockDeviceMappings: [
      {
        deviceName: "/dev/xvda",
        ebs: {
          volumeType: "gp3",
          volumeSize: 200,
          iops: 3000,
          throughput: 600,
          encrypted: "true",
          deleteOnTermination: "true",
        },
      },
    ],
    userData: "TUlNRS1WZXJzaW9uOiAxLjAK",
    tagSpecifications: [
      { resourceType: "instance", tags },
      { resourceType: "network-interface", tags },
      { resourceType: "volume", tags },
    ],
    tags,
  });
});

test("Pulumi sends no size of a group that is there, and a new group comes before the old one goes", async () => {
  const group = byName(await registered(), "gpu-group");
  expect(group.inputs).toEqual({
    nodeGroupNamePrefix: "gpu-",
    clusterName: "demo-cluster",
    version: "1.35",
    nodeRoleArn: "arn:of:node",
    subnetIds: ["subnet-b"],
    instanceTypes: ["g5.xlarge"],
    amiType: "AL2023_x86_64_NVIDIA",
    capacityType: "ON_DEMAND",
    launchTemplate: { id: "gpu-template", version: "7" },
    scalingConfig: { minSize: 0, maxSize: 2, desiredSize: 0 },
    updateConfig: { maxUnavailable: 1, updateStrategy: "MINIMAL" },
    forceUpdateVersion: true,
    labels: { "engine-room/pool": "gpu" },
    taints: [{ key: "nvidia.com/gpu", value: "present", effect: "NO_SCHEDULE" }],
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-gpu", "engine-room:machines": "0 to 2" },
  });
  // One of the three that changed would send the others as they were in the state.
  expect(group.options.ignoreChanges).toEqual(["scalingConfig"]);
  expect(group.options.deleteBeforeReplace).toBeUndefined();
});

test("its Auto Scaling group says what an empty pool would have", async () => {
  const tag = byName(await registered(), "gpu-node-template/label/engine-room/pool");
  expect(tag.inputs).toEqual({
    autoscalingGroupName: "eks-gpu-1",
    tag: {
      key: "k8s.io/cluster-autoscaler/node-template/label/engine-room/pool",
      value: "gpu",
      propagateAtLaunch: false,
    },
  });
});

test("another instance type changes the group, and not its template", async () => {
  const before = await registered();
  const after = await registered({ instanceTypes: ["g5.2xlarge"] });
  const changed = after.filter(
    ({ name, inputs }) => JSON.stringify(byName(before, name).inputs) !== JSON.stringify(inputs),
  );
  expect(changed.map(({ name }) => name)).toEqual(["gpu-group"]);
});

test("another tag of the stack makes no other machines", async () => {
  const tagged = { ...CONTEXT, tags: { ...CONTEXT.tags, "engine-room:ttl-hours": "8" } };
  const { inputs } = byName(await registered({}, tagged), "gpu-template");
  expect(inputs.tags).toMatchObject({ "engine-room:ttl-hours": "8" });
  expect(inputs.tagSpecifications).toEqual(
    byName(await registered(), "gpu-template").inputs.tagSpecifications,
  );
});

test("reserved machines are used", async () => {
  const reserved = await registered({ capacityReservationId: "cr-0123456789abcdef0" });
  expect(byName(reserved, "gpu-template").inputs.capacityReservationSpecification).toEqual({
    capacityReservationTarget: { capacityReservationId: "cr-0123456789abcdef0" },
  });
});

test("a zone without a subnet is refused in one sentence", async () => {
  await expect(registered({ zones: ["c"] })).rejects.toThrow(
    "The network has no subnet in a zone of the pool gpu: c",
  );
});
