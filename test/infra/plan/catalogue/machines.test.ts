import { expect, test } from "vitest";
import { parseConfig } from "../../../../infra/config/config.ts";
import {
  hasWordsOfRegions,
  isRegion,
  partitionOf,
  REGION_NAMES,
} from "../../../../infra/plan/catalogue/aws.ts";
import file from "../../../../infra/plan/catalogue/data/prices.json" with { type: "json" };
import { GPU_NAMES, gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import {
  onDemandHourlyUsd,
  PRICE_REGIONS,
  type PriceFile,
  pricesAsOf,
  regionsOffering,
} from "../../../../infra/plan/catalogue/prices.ts";
import type { Gpu } from "../../../../infra/plan/catalogue/types.ts";
import { meantRegion } from "../../../../infra/plan/checks/aws.ts";
import { awsValues } from "../checks/stacks.ts";

const rows = Object.entries(machineTypes);

test("machine types with GPUs have 1, 4 or 8 of a GPU in the catalogue, and others have no GPU", () => {
  for (const [name, { gpu, gpus: count }] of rows) {
    if (gpu === "") expect([name, count]).toEqual([name, 0]);
    else {
      expect([name, Object.keys(gpus)]).toEqual([name, expect.arrayContaining([gpu])]);
      expect([name, [1, 4, 8]]).toEqual([name, expect.arrayContaining([count])]);
    }
  }
});

test("machine types leave pods less than they have, and most of it", () => {
  for (const [name, { vcpus, memoryGiB, allocatable }] of rows) {
    const cpuShare = (allocatable?.cpuMillis ?? 0) / (vcpus * 1000);
    const memoryShare = (allocatable?.memoryMiB ?? 0) / (memoryGiB * 1024);
    expect([name, cpuShare > 0.9 && cpuShare < 1]).toEqual([name, true]);
    expect([name, memoryShare > 0.8 && memoryShare < 1]).toEqual([name, true]);
  }
});

// https://karpenter.sh/docs/reference/instance-types/
test("machine types have Karpenter's figures", () => {
  expect(machineTypes["g5.12xlarge"]).toEqual({
    vcpus: 48,
    memoryGiB: 192,
    gpu: "A10G",
    gpus: 4,
    localDiskGB: 3800,
    networkMbps: 40_000,
    allocatable: { cpuMillis: 47_810, memoryMiB: 173_400 },
  });
  expect(machineTypes["p4d.24xlarge"]).toMatchObject({
    gpu: "A100-SXM4-40GB",
    gpus: 8,
    allocatable: { cpuMillis: 95_690, memoryMiB: 1_082_712 },
  });
  expect(machineTypes["p4de.24xlarge"]).toMatchObject({ gpu: "A100-SXM4-80GB", gpus: 8 });
  expect(machineTypes["m7i.xlarge"]).toMatchObject({ gpu: "", gpus: 0, vcpus: 4, memoryGiB: 16 });
});

const gpuRows: readonly Gpu[] = GPU_NAMES.map((name) => gpus[name]);

/** Architecture by compute capability: https://developer.nvidia.com/cuda-gpus. */
const architectures: Readonly<Record<string, Gpu["architecture"]>> = {
  "7.5": "Turing",
  "8.0": "Ampere",
  "8.6": "Ampere",
  "8.9": "Ada",
  "9.0": "Hopper",
};

test("GPUs have the architecture of their compute capability", () => {
  for (const [index, { name, computeCapability, architecture }] of gpuRows.entries()) {
    expect(name).toBe(GPU_NAMES[index]);
    expect([name, architecture]).toEqual([name, architectures[computeCapability]]);
  }
});

test("GPUs compute fp8 from capability 8.9 on and bfloat16 from 8.0 on, and are supported from 8.0 on", () => {
  for (const { name, computeCapability, formats, supported } of gpuRows) {
    const capability = Number(computeCapability);
    expect([name, formats.includes("fp8")]).toEqual([name, capability >= 8.9]);
    expect([name, formats.includes("bfloat16")]).toEqual([name, capability >= 8]);
    expect([name, supported]).toEqual([name, capability >= 8]);
    expect(formats).toEqual(expect.arrayContaining(["float16", "int8", "int4"]));
  }
});

test("MIG profiles have less memory than the GPU, and at most that of their name", () => {
  for (const { name, memoryGiB, migProfiles, computeCapability } of gpuRows) {
    const profiles = Object.entries(migProfiles);
    expect([name, profiles.length > 0]).toEqual([name, ["8.0", "9.0"].includes(computeCapability)]);
    for (const [profile, profileGiB] of profiles) {
      const named = Number(/^[1-7]g\.(\d+)gb$/.exec(profile)?.[1]);
      expect([name, profile, profileGiB <= named]).toEqual([name, profile, true]);
      expect([name, profile, profileGiB >= named * 0.88]).toEqual([name, profile, true]);
      expect(profileGiB).toBeLessThan(memoryGiB);
    }
    for (const sevenths of [1, 2, 3, 4, 7]) {
      if (profiles.length > 0) expect(profiles.map(([profile]) => Number(profile[0]))).toContain(sevenths);
    }
  }
});

test("GPUs have the memory that the EC2 API reports", () => {
  expect(gpus.A10G.memoryGiB).toBeCloseTo(22.35, 2);
  expect(gpus.L40S.memoryGiB).toBeCloseTo(44.7, 1);
  expect(
    [gpus.T4, gpus["A100-SXM4-40GB"], gpus["A100-SXM4-80GB"], gpus.H100, gpus.H200].map(
      (gpu) => gpu.memoryGiB,
    ),
  ).toEqual([16, 40, 80, 80, 141]);
});

/** A name with each two neighbours changed about that differ, hyphens and the number left where they are. */
function transposed(name: string): readonly string[] {
  return [...name].flatMap((letter, index) => {
    const next = name[index + 1] ?? "-";
    if (!/[a-z]/.test(letter) || !/[a-z]/.test(next) || letter === next) return [];
    return [`${name.slice(0, index)}${next}${letter}${name.slice(index + 2)}`];
  });
}

test.each(REGION_NAMES)("the stack file takes the region %s", (region) => {
  expect(parseConfig({ ...awsValues, region })).toMatchObject({ region });
  expect(hasWordsOfRegions(region)).toBe(true);
  expect(partitionOf(region)).toBe(region.startsWith("us-gov-") ? "aws-us-gov" : "aws");
});

test("regions are unique, and include those of the price table", () => {
  expect(new Set(REGION_NAMES).size).toBe(REGION_NAMES.length);
  expect(PRICE_REGIONS.filter((region) => !isRegion(region))).toEqual([]);
});

test("a region is found from a name with two swapped letters", () => {
  const slips = REGION_NAMES.flatMap((name) => transposed(name));
  expect(slips.length).toBeGreaterThan(REGION_NAMES.length);
  expect(slips.filter((slip) => meantRegion(slip) === undefined)).toEqual([]);
  expect(["us-esat-1", "eu-wset-1", "su-east-2", "ap-southeats-2"].map(meantRegion)).toEqual([
    "us-east-1",
    "eu-west-1",
    "us-east-2",
    "ap-southeast-2",
  ]);
});

test("regions unknown to the catalogue are not taken for others", () => {
  for (const region of ["us-west-3", "eu-north-2", "af-east-1", "us-isob-east-1", "cn-north-1"])
    expect(meantRegion(region)).toBeUndefined();
});

const machinePrices: PriceFile["machines"]["regions"] = file.machines.regions;

test("every machine type but those not sold on demand has a price in us-east-1", () => {
  const unpriced = Object.keys(machineTypes).filter((type) => onDemandHourlyUsd("us-east-1", type) === null);
  expect(unpriced).toEqual(["p5e.48xlarge"]);
});

test("prices are above 0, and of machine types in the catalogue", () => {
  for (const { hourlyUsd } of Object.values(machinePrices)) {
    for (const [type, price] of Object.entries(hourlyUsd)) {
      expect(Object.keys(machineTypes)).toContain(type);
      expect(price).toBeGreaterThan(0);
    }
  }
});

test("prices rise with the size of a machine within its family", () => {
  for (const [region, { hourlyUsd }] of Object.entries(machinePrices)) {
    for (const [type, price] of Object.entries(hourlyUsd)) {
      for (const [other, otherPrice] of Object.entries(hourlyUsd)) {
        const [a, b] = [machineTypes[type], machineTypes[other]];
        if (type.split(".")[0] !== other.split(".")[0] || a === undefined || b === undefined) continue;
        if (a.vcpus < b.vcpus && a.gpus <= b.gpus) {
          expect([region, type, other, price < otherPrice]).toEqual([region, type, other, true]);
        }
      }
    }
  }
});

test("prices of three regions are known, each with its day", () => {
  expect(PRICE_REGIONS).toEqual(["us-east-1", "us-gov-east-1", "us-gov-west-1"]);
  for (const region of PRICE_REGIONS) {
    expect(pricesAsOf(region)).toMatch(/^\d{4}-\d{2}-\d{2}$/);
  }
});

test("a price is null for an unknown region or machine type", () => {
  expect(onDemandHourlyUsd("eu-central-1", "g5.xlarge")).toBeNull();
  expect(onDemandHourlyUsd("us-east-1", "g5.3xlarge")).toBeNull();
  expect(onDemandHourlyUsd("toString", "length")).toBeNull();
  expect(onDemandHourlyUsd("us-east-1", "constructor")).toBeNull();
  expect(pricesAsOf("eu-central-1")).toBeNull();
});

test("regions with a price for a machine type are found", () => {
  expect(regionsOffering("g5.xlarge")).toEqual(["us-east-1"]);
  expect(regionsOffering("g4dn.xlarge")).toEqual(["us-east-1", "us-gov-east-1", "us-gov-west-1"]);
  expect(regionsOffering("p5e.48xlarge")).toEqual([]);
});

test("on-demand prices are those of the price module", () => {
  expect(onDemandHourlyUsd("us-east-1", "g5.xlarge")).toBe(1.006);
  expect(onDemandHourlyUsd("us-east-1", "g6e.xlarge")).toBe(1.861);
  expect(onDemandHourlyUsd("us-east-1", "p4d.24xlarge")).toBe(21.957642);
  expect(onDemandHourlyUsd("us-gov-west-1", "p5.4xlarge")).toBe(8.256);
});

test("prices of storage and services are AWS's for us-east-1", () => {
  expect(Object.fromEntries(file.others.map(({ item, usd }) => [item, usd]))).toEqual({
    "EFS Standard, regional": 0.3,
    "EBS gp3": 0.08,
    "EBS snapshots": 0.05,
    "EBS gp3 throughput": 0.04,
    "EFS provisioned throughput": 6,
    "EKS control plane": 0.1,
    "NAT gateway": 0.045,
    "public IPv4 address": 0.005,
    "interface endpoints": 0.01,
    "application load balancer": 0.0225,
    "CloudWatch Logs": 0.5,
  });
  expect(new Set(file.others.map(({ region }) => region))).toEqual(
    new Set(["us-east-1", "commercial regions"]),
  );
});
