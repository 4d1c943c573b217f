import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { eksAsCluster } from "../../../../infra/plan/aws/base-platforms.ts";
import type { ClusterPlan, NodePoolPlan } from "../../../../infra/plan/aws/eks-cluster.ts";
import type { RolePlan } from "../../../../infra/plan/aws/roles.ts";
import {
  KUBERNETES_VERSIONS,
  kubernetesVersions,
  ZONE_LETTERS,
} from "../../../../infra/plan/catalogue/aws.ts";
import { times } from "../../../harness/thorough.ts";
import { eksValues, plannedCluster, shippedCluster } from "./eks-plans.ts";

const TOKEN_ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf";

function rolesOf({ role, nodeRole, podRoles, addOns, charts }: ClusterPlan): readonly RolePlan[] {
  return [role, nodeRole, ...podRoles, ...[...addOns, ...charts].flatMap(({ role: own }) => own ?? [])];
}

function addOnOf({ addOns }: ClusterPlan, name: string) {
  return addOns.find(({ args }) => args.addonName === name)?.args;
}

test.each(KUBERNETES_VERSIONS)("add-ons of Kubernetes %s have versions of EKS builds", (version) => {
  const { cluster } = plannedCluster({ cluster: { version }, hub: { tokenSecretArn: TOKEN_ARN } });
  for (const { args } of cluster.addOns) expect(args.addonVersion).toMatch(/^v\d+\.\d+\.\d+-eksbuild\.\d+$/);
  expect(addOnOf(cluster, "kube-proxy")?.addonVersion).toMatch(new RegExp(`^v${version}\\.`));
});

test("a stack that names no version of Kubernetes gets the version whose standard support ends last", () => {
  const ends = KUBERNETES_VERSIONS.map((version) => kubernetesVersions[version].standardSupportUntil);
  expect(ends).toEqual(ends.toSorted());
  expect(plannedCluster().cluster.cluster.version).toBe(KUBERNETES_VERSIONS.at(-1));
});

test.each(KUBERNETES_VERSIONS)("the autoscaler of Kubernetes %s is of the same version", (version) => {
  const { cluster } = plannedCluster({ cluster: { version } });
  const chart = cluster.charts.find(({ name }) => name === "cluster-autoscaler");
  expect(chart?.args.values.image).toEqual({ tag: expect.stringMatching(new RegExp(`^v${version}\\.`)) });
});

test("add-ons that nodes need to join are created before the nodes, the others after", () => {
  const { cluster } = plannedCluster();
  const names = (isBefore: boolean) =>
    cluster.addOns
      .filter(({ isBeforeNodes }) => isBeforeNodes === isBefore)
      .map(({ args }) => args.addonName);
  expect(names(true)).toEqual(["eks-pod-identity-agent", "kube-proxy", "vpc-cni"]);
  expect(names(false)).toEqual(["aws-ebs-csi-driver", "aws-efs-csi-driver", "coredns", "metrics-server"]);
});

test("the EBS driver adds the stack's tags to volumes of claims", () => {
  const { cluster, context } = plannedCluster();
  const disks = addOnOf(cluster, "aws-ebs-csi-driver");
  expect(JSON.parse(disks?.configurationValues ?? "").controller).toMatchObject({
    extraVolumeTags: context.lastingTags,
  });
  expect(context.lastingTags).toMatchObject({ "engine-room:stack": "demo" });
});

test("the VPC CNI add-on enforces network policies", () => {
  const cni = addOnOf(plannedCluster().cluster, "vpc-cni");
  expect(cni?.configurationValues).toBe('{"enableNetworkPolicy":"true"}');
});

test("the secrets driver is installed only for a hub token in Secrets Manager, with access to that secret", () => {
  const without = plannedCluster().cluster;
  expect(without.podRoles).toEqual([]);
  const { cluster } = plannedCluster({ namespace: "models", hub: { tokenSecretArn: TOKEN_ARN } });
  const names = cluster.addOns.map(({ args }) => args.addonName);
  expect(names.filter((name) => addOnOf(without, name) === undefined)).toEqual([
    "aws-secrets-store-csi-driver-provider",
  ]);
  expect(cluster.podRoles.map(({ serviceAccount }) => serviceAccount)).toEqual([
    { namespace: "models", serviceAccount: "engine-build" },
  ]);
  expect(cluster.podRoles[0]?.statements).toMatchObject([
    {
      Action: ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
      Resource: [TOKEN_ARN],
    },
  ]);
});

test("the device plugin has the GPU sharing of each pool", () => {
  const { charts } = plannedCluster({
    pools: [
      eksValues.pools[0],
      { name: "shared", instanceType: "g5.4xlarge", sharing: { mode: "timeSlicing", replicas: 4 } },
      eksValues.pools[1],
    ],
    models: [{ ...eksValues.models[0], pool: "gpu" }],
  }).cluster;
  const values = charts.find(({ name }) => name === "device-plugin")?.args.values as {
    readonly config: { readonly map: Readonly<Record<string, string>> };
  };
  const parsed = Object.entries(values.config.map).map(([pool, text]) => [pool, JSON.parse(text)]);
  expect(Object.fromEntries(parsed)).toEqual({
    gpu: { version: "v1" },
    shared: {
      version: "v1",
      sharing: {
        timeSlicing: {
          failRequestsGreaterThanOne: true,
          resources: [{ name: "nvidia.com/gpu", replicas: 4 }],
        },
      },
    },
  });
});

describe("roles", () => {
  const clusters = () => [
    shippedCluster("dev").cluster,
    shippedCluster("prod").cluster,
    plannedCluster({ hub: { tokenSecretArn: TOKEN_ARN } }).cluster,
  ];

  test("every role names each of its actions without wildcards", () => {
    const actions = clusters().flatMap((cluster) =>
      rolesOf(cluster).flatMap(({ statements }) => statements.flatMap((one) => one.Action)),
    );
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^[a-z0-9-]+:[A-Z][A-Za-z]+$/);
  });

  test("a statement for all resources has read actions only", () => {
    const wide = clusters().flatMap((cluster) =>
      rolesOf(cluster).flatMap(({ statements }) =>
        statements.filter(({ Resource }) => Resource.includes("*")),
      ),
    );
    for (const { Action } of wide) for (const action of Action) expect(action).toMatch(/:(Describe|Get)/);
  });

  test("an action that changes something needs a tag of the cluster or the stack", () => {
    const changing = clusters().flatMap((cluster) =>
      rolesOf(cluster).flatMap(({ statements }) =>
        statements.filter(({ Action }) => Action.some((one) => !/:(Describe|Get)/.test(one))),
      ),
    );
    expect(changing.length).toBeGreaterThan(0);
    for (const { Condition } of changing)
      expect(Object.keys(Condition?.StringEquals ?? {})[0]).toMatch(/^aws:ResourceTag\//);
  });

  test("every pod role has a ServiceAccount, and names of roles are unique", () => {
    for (const cluster of clusters()) {
      const roles = rolesOf(cluster);
      expect(new Set(roles.map(({ subject }) => subject)).size).toBe(roles.length);
      for (const { args, serviceAccount } of roles)
        expect(serviceAccount !== null).toBe(args.assumeRolePolicy.includes('"pods.eks.amazonaws.com"'));
    }
  });
});

test("two plans of the same stack file are the same to the byte", () => {
  const prod = () => JSON.stringify(shippedCluster("prod").cluster);
  expect(prod()).toBe(prod());
});

test("models do not change the node pools", () => {
  const machines = (changes: Parameters<typeof plannedCluster>[0]) => plannedCluster(changes).cluster.pools;
  const lists = fc.uniqueArray(fc.constantFrom("a", "b", "c"), { minLength: 1 });
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 4 }), (names, maxBatchSize) => {
      const models = names.map((name) => ({ name, model: "gpt2-medium", limits: { maxBatchSize } }));
      const pools = [{ ...eksValues.pools[0], nodes: { min: 0, max: 4 } }, eksValues.pools[1]];
      expect(machines({ pools, models })).toEqual(machines({ pools }));
    }),
    { numRuns: times(5, 50) },
  );
});

test("repeated administrators and networks are listed once, sorted", () => {
  const [one, other] = ["role/b", "role/a"].map((name) => `arn:aws:iam::111122223333:${name}`);
  const apiCidrs = ["203.0.113.9/32", "203.0.113.7/32", "203.0.113.9/32"];
  const { cluster } = plannedCluster({ access: { apiCidrs, admins: [one, other, one] } });
  expect(cluster.entries.map(({ arn }) => arn)).toEqual([other, one]);
  expect(cluster.vpcConfig).toMatchObject({ publicAccessCidrs: ["203.0.113.7/32", "203.0.113.9/32"] });
});

/** https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html */
const USER_DATA_BYTES = 16 * 1024;

type Values = Readonly<Record<string, unknown>>;

/** The pool of GPUs of a small stack, with changes. */
function gpuPool(changes: Values): NodePoolPlan {
  const pools = [{ ...eksValues.pools[0], ...changes }, eksValues.pools[1]];
  const found = plannedCluster({ pools }).cluster.pools.find(({ name }) => name === "gpu");
  if (found === undefined) throw new Error("There is no pool gpu");
  return found;
}

function userDataOf({ launchTemplate }: NodePoolPlan): string {
  return Buffer.from(launchTemplate.userData, "base64").toString();
}

function diskOf({ launchTemplate }: NodePoolPlan): unknown {
  return launchTemplate.blockDeviceMappings[0]?.ebs;
}

const ofTemplate = (name: string) => `k8s.io/cluster-autoscaler/node-template/${name}`;

test("a cluster has a system pool and the pools of the stack file", () => {
  const { pools } = plannedCluster().cluster;
  expect(
    pools.map(({ name, nodeGroup: { instanceTypes, scalingConfig } }) => [
      name,
      ...(instanceTypes ?? []),
      scalingConfig.minSize,
      scalingConfig.maxSize,
    ]),
  ).toEqual([
    ["system", "m7i.large", 2, 4],
    ["gpu", "g5.xlarge", 0, 1],
    ["cpu", "m7i.xlarge", 1, 1],
  ]);
});

test("a pool with several instance types requests them in order, and describes the first to the autoscaler", () => {
  const one = gpuPool({});
  const several = gpuPool({ otherInstanceTypes: ["g5.2xlarge", "g5.4xlarge"] });
  expect(several.nodeGroup.instanceTypes).toEqual(["g5.xlarge", "g5.2xlarge", "g5.4xlarge"]);
  expect({ ...several, nodeGroup: { ...several.nodeGroup, instanceTypes: ["g5.xlarge"] } }).toEqual(one);
});

test("a pool of a Capacity Block has the block, its market and its type in the launch template", () => {
  const capacityReservationId = "cr-0123456789abcdef0";
  const { nodeGroup, launchTemplate } = gpuPool({
    instanceType: "p5.48xlarge",
    capacity: "capacityBlock",
    zones: ["a"],
    capacityReservationId,
  });
  expect(nodeGroup.capacityType).toBe("CAPACITY_BLOCK");
  expect(nodeGroup).not.toHaveProperty("instanceTypes");
  expect(launchTemplate).toMatchObject({
    instanceType: "p5.48xlarge",
    instanceMarketOptions: { marketType: "capacity-block" },
    capacityReservationSpecification: { capacityReservationTarget: { capacityReservationId } },
  });
});

test("a release of machine images is that of every node group, and absent if the stack file names none", () => {
  const releases = (cluster: Values) =>
    plannedCluster({ cluster }).cluster.pools.map(({ nodeGroup }) => nodeGroup.releaseVersion);
  expect(releases({ machineImageRelease: "1.36.0-20260915" })).toEqual(Array(3).fill("1.36.0-20260915"));
  expect(releases({})).toEqual(Array(3).fill(undefined));
});

test("an update ends nodes with GPUs and reserved nodes before it starts their replacements", () => {
  const reserved = { ...eksValues.pools[1], zones: ["a"], capacityReservationId: "cr-0123456789abcdef0" };
  const strategies = (pools: readonly Values[]) =>
    plannedCluster({ pools }).cluster.pools.map((pool) => [
      pool.name,
      pool.nodeGroup.updateConfig.updateStrategy,
    ]);
  expect(strategies(eksValues.pools)).toEqual([
    ["system", "DEFAULT"],
    ["gpu", "MINIMAL"],
    ["cpu", "DEFAULT"],
  ]);
  expect(strategies([eksValues.pools[0], reserved])[2]).toEqual(["cpu", "MINIMAL"]);
});

test("the system pool has a node in each of its zones, because Prometheus' disk is bound to a zone", () => {
  const { pools } = plannedCluster({ network: { zones: ["a", "b", "c"] } }).cluster;
  const system = pools.find(({ name }) => name === "system");
  expect([system?.nodeGroup.scalingConfig.minSize, system?.zones]).toEqual([2, ["a", "b"]]);
});

test("the system pool keeps its zones in any order of zones and subnets", () => {
  const systemZones = (network: Values) => plannedCluster({ network }).cluster.pools[0]?.zones;
  const existing = (zones: readonly string[]) => ({
    vpcId: "vpc-01234567",
    cidr: "10.80.0.0/16",
    privateSubnets: zones.map((zone, index) => ({ id: `subnet-0000000${index}`, zone })),
  });
  const orders = fc
    .uniqueArray(fc.constantFrom(...ZONE_LETTERS), { minLength: 2, maxLength: 3 })
    .chain((zones) => fc.tuple(fc.constant(zones), fc.shuffledSubarray(zones, { minLength: zones.length })));
  fc.assert(
    fc.property(orders, ([zones, others]) => {
      expect(systemZones({ zones: others })).toEqual(systemZones({ zones }));
      expect(systemZones({ existing: existing(others) })).toEqual(systemZones({ zones }));
    }),
    { numRuns: times(10, 100) },
  );
});

test("a node with GPUs has its pool's labels and a taint against pods without GPUs", () => {
  const { amiType, labels, taints } = gpuPool({}).nodeGroup;
  expect(amiType).toBe("AL2023_x86_64_NVIDIA");
  expect(labels).toEqual({
    "engine-room/pool": "gpu",
    "engine-room/gpu": "a10g",
    "k8s.amazonaws.com/accelerator": "nvidia-a10g",
    "nvidia.com/device-plugin.config": "gpu",
    "nvidia.com/gpu.present": "true",
  });
  expect(taints).toEqual([{ key: "nvidia.com/gpu", value: "present", effect: "NO_SCHEDULE" }]);
});

test("pods of a pool select its GPU's name, so that they never run on machines with the old GPU", () => {
  const pools = [{ name: "gpu", instanceType: "g6.xlarge" }, eksValues.pools[1]];
  const { config } = plannedCluster({ pools }).plan;
  expect(eksAsCluster(config).pools.map(({ nodeSelector }) => nodeSelector)).toEqual([
    { "engine-room/pool": "gpu", "engine-room/gpu": "l4" },
    { "engine-room/pool": "cpu" },
  ]);
});

test("tags describe an empty GPU pool to the cluster autoscaler", () => {
  expect(gpuPool({ instanceType: "g5.12xlarge" }).scalingTags).toEqual({
    [ofTemplate("label/engine-room/pool")]: "gpu",
    [ofTemplate("label/engine-room/gpu")]: "a10g",
    [ofTemplate("label/k8s.amazonaws.com/accelerator")]: "nvidia-a10g",
    [ofTemplate("label/nvidia.com/device-plugin.config")]: "gpu",
    [ofTemplate("label/nvidia.com/gpu.present")]: "true",
    // 3800 GB.
    [ofTemplate("resources/ephemeral-storage")]: "3539Gi",
    [ofTemplate("resources/nvidia.com/gpu")]: "4",
    [ofTemplate("taint/nvidia.com/gpu")]: "present:NoSchedule",
  });
});

test("a pool with MPS has its label and the number of shares", () => {
  const { nodeGroup, scalingTags } = gpuPool({ sharing: { mode: "mps", replicas: 2 } });
  expect(nodeGroup.labels["nvidia.com/mps.capable"]).toBe("true");
  expect(scalingTags[ofTemplate("resources/nvidia.com/gpu")]).toBe("2");
});

test("a pool with MIG has partitions in place of whole GPUs", () => {
  const pool = gpuPool({ instanceType: "p4d.24xlarge", sharing: { mode: "mig", profile: "3g.20gb" } });
  expect(pool.scalingTags[ofTemplate("resources/nvidia.com/mig-3g.20gb")]).toBe("16");
  expect(pool.scalingTags[ofTemplate("resources/nvidia.com/gpu")]).toBeUndefined();
  expect(pool.nodeGroup.labels["k8s.amazonaws.com/accelerator"]).toBeUndefined();
  expect(userDataOf(pool)).toContain("nvidia-smi mig -cgi 3g.20gb,3g.20gb -C\n");
});

test("images are on local disks unless these are smaller than `diskGiB`", () => {
  const large = gpuPool({ diskGiB: 232 });
  expect(diskOf(large)).toMatchObject({ volumeSize: 50, iops: 3000, throughput: 125 });
  expect(userDataOf(large)).not.toContain("disabledMounts");
  const small = gpuPool({ diskGiB: 233 });
  expect(diskOf(small)).toMatchObject({ volumeSize: 233, iops: 3000, throughput: 250 });
  expect(userDataOf(small)).toContain('"disabledMounts"');
  expect([large, small].map((pool) => userDataOf(pool).includes("FastImagePull"))).toEqual([true, false]);
});

test("`warm` raises the least number of nodes", () => {
  const counts = ({ size, nodeGroup: { scalingConfig: first } }: NodePoolPlan) => {
    expect([first.minSize, first.maxSize]).toEqual([size.min, size.max]);
    return [size.min, first.desiredSize, size.max];
  };
  expect(counts(gpuPool({ nodes: { min: 0, max: 3 }, warm: 2 }))).toEqual([2, 2, 3]);
  expect(counts(gpuPool({ nodes: { min: 2, max: 3 }, warm: 1 }))).toEqual([2, 2, 3]);
});

test("a pool has the zones, capacity type and reservation of the stack file", () => {
  const pool = gpuPool({ zones: ["b"], capacity: "spot", hourlyUsd: 0.5 });
  expect([pool.zones, pool.nodeGroup.capacityType]).toEqual([["b"], "SPOT"]);
  const reserved = { zones: ["b"], capacityReservationId: "cr-0123456789abcdef0" };
  expect(gpuPool(reserved).launchTemplate.capacityReservationSpecification).toEqual({
    capacityReservationTarget: { capacityReservationId: "cr-0123456789abcdef0" },
  });
});

test("user data is a MIME document with nodeadm's NodeConfig", () => {
  expect(userDataOf(gpuPool({ diskGiB: 232 }))).toBe(
    [
      "MIME-Version: 1.0",
      'Content-Type: multipart/mixed; boundary="engine-room"',
      "",
      "--engine-room",
      "Content-Type: application/node.eks.aws",
      "",
      "{",
      '  "apiVersion": "node.eks.aws/v1alpha1",',
      '  "kind": "NodeConfig",',
      '  "spec": {',
      '    "featureGates": {',
      '      "FastImagePull": true',
      "    },",
      '    "instance": {',
      '      "localStorage": {',
      '        "strategy": "RAID0"',
      "      }",
      "    },",
      '    "kubelet": {',
      '      "config": {',
      '        "imageGCHighThresholdPercent": 80,',
      '        "imageGCLowThresholdPercent": 65',
      "      }",
      "    }",
      "  }",
      "}",
      "",
      "--engine-room--",
      "",
    ].join("\n"),
  );
});

test("user data of a MIG pool has a script that creates the partitions, and is below 16 KiB", () => {
  const sharing = { mode: "mig", profile: "1g.5gb" };
  const text = userDataOf(gpuPool({ instanceType: "p4d.24xlarge", sharing }));
  const script = text.slice(text.indexOf("#!/bin/bash"), text.lastIndexOf("\n\n--engine-room--"));
  expect(script).toBe(
    [
      "#!/bin/bash",
      "set -euo pipefail",
      "nvidia-smi -mig 1",
      "nvidia-smi mig -cgi 1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb -C",
    ].join("\n"),
  );
  expect(Buffer.byteLength(text)).toBeLessThan(USER_DATA_BYTES);
});
