import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";

const rows = Object.entries(machineTypes);

describe("machine types", () => {
  it("have GPUs of the catalogue, or none and no number of them", () => {
    for (const [name, { gpu, gpus: count }] of rows) {
      if (gpu === "") expect([name, count]).toEqual([name, 0]);
      else {
        expect([name, Object.keys(gpus)]).toEqual([name, expect.arrayContaining([gpu])]);
        expect([name, [1, 4, 8]]).toEqual([name, expect.arrayContaining([count])]);
      }
    }
  });

  it("leave pods less than they have, and most of it", () => {
    for (const [name, { vcpus, memoryGiB, allocatable }] of rows) {
      const cpuShare = (allocatable?.cpuMillis ?? 0) / (vcpus * 1000);
      const memoryShare = (allocatable?.memoryMiB ?? 0) / (memoryGiB * 1024);
      expect([name, cpuShare > 0.9 && cpuShare < 1]).toEqual([name, true]);
      expect([name, memoryShare > 0.8 && memoryShare < 1]).toEqual([name, true]);
    }
  });

  it("cover the families that have these GPUs, and some without", () => {
    expect([...new Set(rows.map(([name]) => name.split(".")[0]))]).toEqual([
      "g4dn",
      "g5",
      "g6",
      "g6e",
      "gr6",
      "p4d",
      "p4de",
      "p5",
      "p5e",
      "p5en",
      "m6i",
      "m7i",
      "c7i",
    ]);
  });

  // https://karpenter.sh/docs/reference/instance-types/
  it("have Karpenter's figures", () => {
    expect(machineTypes["g5.12xlarge"]).toEqual({
      vcpus: 48,
      memoryGiB: 192,
      gpu: "A10G",
      gpus: 4,
      localDiskGB: 3800,
      networkMbps: 40_000,
      efaInterfaces: 1,
      allocatable: { cpuMillis: 47_810, memoryMiB: 173_400 },
    });
    expect(machineTypes["p4d.24xlarge"]).toMatchObject({
      gpu: "A100-SXM4-40GB",
      gpus: 8,
      efaInterfaces: 4,
      allocatable: { cpuMillis: 95_690, memoryMiB: 1_082_712 },
    });
    expect(machineTypes["p4de.24xlarge"]).toMatchObject({ gpu: "A100-SXM4-80GB", gpus: 8 });
    expect(machineTypes["m7i.xlarge"]).toMatchObject({ gpu: "", gpus: 0, vcpus: 4, memoryGiB: 16 });
  });
});
