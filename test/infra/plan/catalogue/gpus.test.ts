import { describe, expect, it } from "vitest";
import { GPU_NAMES, gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import type { Gpu } from "../../../../infra/plan/catalogue/types.ts";

const rows: readonly Gpu[] = GPU_NAMES.map((name) => gpus[name]);

/** Architecture by compute capability: https://developer.nvidia.com/cuda-gpus. */
const architectures: Readonly<Record<string, Gpu["architecture"]>> = {
  "7.5": "Turing",
  "8.0": "Ampere",
  "8.6": "Ampere",
  "8.9": "Ada",
  "9.0": "Hopper",
};

describe("gpus", () => {
  it("carry their own name, and the architecture of their compute capability", () => {
    for (const [index, { name, computeCapability, architecture }] of rows.entries()) {
      expect(name).toBe(GPU_NAMES[index]);
      expect([name, architecture]).toEqual([name, architectures[computeCapability]]);
    }
  });

  it("compute fp8 from 8.9 on and bfloat16 from 8.0 on, and are supported from 8.0 on", () => {
    for (const { name, computeCapability, formats, supported } of rows) {
      const capability = Number(computeCapability);
      expect([name, formats.includes("fp8")]).toEqual([name, capability >= 8.9]);
      expect([name, formats.includes("bfloat16")]).toEqual([name, capability >= 8]);
      expect([name, supported]).toEqual([name, capability >= 8]);
      expect(formats).toEqual(expect.arrayContaining(["float16", "int8", "int4"]));
    }
  });

  it("are partitioned in less than they have, and in no more than the profile's name says", () => {
    for (const { name, memoryGiB, migProfiles, computeCapability } of rows) {
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

  it("have the memory that the EC2 API reports", () => {
    expect(gpus.A10G.memoryGiB).toBeCloseTo(22.35, 2);
    expect(gpus.L40S.memoryGiB).toBeCloseTo(44.7, 1);
    expect(
      [gpus.T4, gpus["A100-SXM4-40GB"], gpus["A100-SXM4-80GB"], gpus.H100, gpus.H200].map(
        (gpu) => gpu.memoryGiB,
      ),
    ).toEqual([16, 40, 80, 80, 141]);
  });

  it("say where their figures are from", () => {
    for (const { source } of rows) expect(source).toMatch(/^https:\/\//);
  });
});
