import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { surgeMachines } from "../../../../infra/plan/aws/node-pools.ts";
import { nodeUserData } from "../../../../infra/plan/aws/node-user-data.ts";
import type { NodePoolPlan } from "../../../../infra/plan/aws/types.ts";
import { ZONE_LETTERS } from "../../../../infra/plan/catalogue/zones.ts";
import { eksValues, plannedCluster } from "./eks-plans.ts";

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

const ofTemplate = (name: string) => `k8s.io/cluster-autoscaler/node-template/${name}`;

test("a cluster has a pool for controllers, and those of the stack file", () => {
  const { pools } = plannedCluster().cluster;
  expect(pools.map(({ name, instanceTypes, min, max }) => [name, ...instanceTypes, min, max])).toEqual([
    ["system", "m7i.large", 2, 4],
    ["gpu", "g5.xlarge", 0, 1],
    ["cpu", "m7i.xlarge", 1, 1],
  ]);
});

test("an update ends machines with GPUs, and reserved ones, before it starts others", () => {
  const reserved = { ...eksValues.pools[1], zones: ["a"], capacityReservationId: "cr-0123456789abcdef0" };
  const strategies = (pools: readonly Values[]) =>
    plannedCluster({ pools }).cluster.pools.map((pool) => [
      pool.name,
      pool.updateStrategy,
      surgeMachines(pool),
    ]);
  expect(strategies(eksValues.pools)).toEqual([
    ["system", "DEFAULT", 4],
    ["gpu", "MINIMAL", 0],
    ["cpu", "DEFAULT", 4],
  ]);
  expect(strategies([eksValues.pools[0], reserved])[2]).toEqual(["cpu", "MINIMAL", 0]);
});

test("the pool for controllers has a machine in each of its zones: Prometheus' disk is in one", () => {
  const { pools } = plannedCluster({ network: { zones: ["a", "b", "c"] } }).cluster;
  const system = pools.find(({ name }) => name === "system");
  expect([system?.min, system?.zones]).toEqual([2, ["a", "b"]]);
});

test("the pool for controllers stays in its zones however zones and subnets are ordered", () => {
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
    { numRuns: 30 },
  );
});

describe("a machine of GPUs", () => {
  test("is kept for pods that want them, and found by its pool", () => {
    const { amiType, labels, taints } = gpuPool({});
    expect(amiType).toBe("AL2023_x86_64_NVIDIA");
    expect(labels).toEqual({
      "engine-room/pool": "gpu",
      "k8s.amazonaws.com/accelerator": "nvidia-a10g",
      "nvidia.com/device-plugin.config": "gpu",
      "nvidia.com/gpu.present": "true",
    });
    expect(taints).toEqual([{ key: "nvidia.com/gpu", value: "present", effect: "NO_SCHEDULE" }]);
  });

  test("is known to the autoscaler before there is one", () => {
    expect(gpuPool({ instanceType: "g5.12xlarge" }).scalingTags).toEqual({
      [ofTemplate("label/engine-room/pool")]: "gpu",
      [ofTemplate("label/k8s.amazonaws.com/accelerator")]: "nvidia-a10g",
      [ofTemplate("label/nvidia.com/device-plugin.config")]: "gpu",
      [ofTemplate("label/nvidia.com/gpu.present")]: "true",
      // 3800 GB.
      [ofTemplate("resources/ephemeral-storage")]: "3539Gi",
      [ofTemplate("resources/nvidia.com/gpu")]: "4",
      [ofTemplate("taint/nvidia.com/gpu")]: "present:NoSchedule",
    });
  });

  test("gives out shares of GPUs", () => {
    const { labels, scalingTags } = gpuPool({ sharing: { mode: "mps", replicas: 2 } });
    expect(labels["nvidia.com/mps.capable"]).toBe("true");
    expect(scalingTags[ofTemplate("resources/nvidia.com/gpu")]).toBe("2");
  });

  test("gives out partitions, and is not waited for as if it had whole GPUs", () => {
    const pool = gpuPool({ instanceType: "p4d.24xlarge", sharing: { mode: "mig", profile: "3g.20gb" } });
    expect(pool.scalingTags[ofTemplate("resources/nvidia.com/mig-3g.20gb")]).toBe("16");
    expect(pool.scalingTags[ofTemplate("resources/nvidia.com/gpu")]).toBeUndefined();
    expect(pool.labels["k8s.amazonaws.com/accelerator"]).toBeUndefined();
    expect(pool.userData).toContain("nvidia-smi mig -cgi 3g.20gb,3g.20gb -C\n");
  });

  test("has images on its local disks, unless these are smaller than what is asked for", () => {
    const large = gpuPool({ diskGiB: 232 });
    expect(large.rootDisk).toEqual({ sizeGiB: 50, iops: 3000, throughputMiBps: 125 });
    expect(large.userData).not.toContain("disabledMounts");
    const small = gpuPool({ diskGiB: 233 });
    expect(small.rootDisk).toEqual({ sizeGiB: 233, iops: 3000, throughputMiBps: 250 });
    expect(small.userData).toContain('"disabledMounts"');
    expect([large, small].map(({ userData }) => userData.includes("FastImagePull"))).toEqual([true, false]);
  });

  test("stays where it is to be warm", () => {
    const counts = ({ min, desired, max }: NodePoolPlan) => [min, desired, max];
    expect(counts(gpuPool({ nodes: { min: 0, max: 3 }, warm: 2 }))).toEqual([2, 2, 3]);
    expect(counts(gpuPool({ nodes: { min: 2, max: 3 }, warm: 1 }))).toEqual([2, 2, 3]);
  });

  test("says its size in a tag, warm machines with it, which a preview shows", () => {
    const tags = (changes: Values) => gpuPool(changes).sizeTags;
    expect(tags({ nodes: { min: 0, max: 3 } })).toEqual({ "engine-room:machines": "0 to 3" });
    expect(tags({ nodes: { min: 0, max: 3 }, warm: 2 })).toEqual({ "engine-room:machines": "2 to 3" });
  });

  test("is where its capacity is", () => {
    const pool = gpuPool({ zones: ["b"], capacity: "spot", hourlyUsd: 0.5 });
    expect([pool.zones, pool.capacityType]).toEqual([["b"], "SPOT"]);
    const reserved = { zones: ["b"], capacityReservationId: "cr-0123456789abcdef0" };
    expect(gpuPool(reserved).capacityReservationId).toBe("cr-0123456789abcdef0");
  });
});

describe("user data", () => {
  test("is one MIME document of nodeadm", () => {
    expect(nodeUserData({ localDisks: "all", pullsInParallel: true, mig: null })).toBe(
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

  test("has a script where GPUs are partitioned, and stays small", () => {
    const text = nodeUserData({
      localDisks: "all",
      pullsInParallel: true,
      mig: { profile: "1g.5gb", perGpu: 7 },
    });
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
});
