import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../../infra/config/config.ts";
import { PRICE_REGIONS } from "../../../../infra/plan/catalogue/prices.ts";
import {
  hasWordsOfRegions,
  isRegion,
  partitionOf,
  REGION_NAMES,
} from "../../../../infra/plan/catalogue/regions.ts";
import { meantRegion } from "../../../../infra/plan/checks/regions.ts";
import { awsValues } from "../checks/stacks.ts";

/** A name with each two neighbours changed about that differ, hyphens and the number left where they are. */
function transposed(name: string): readonly string[] {
  return [...name].flatMap((letter, index) => {
    const next = name[index + 1] ?? "-";
    if (!/[a-z]/.test(letter) || !/[a-z]/.test(next) || letter === next) return [];
    return [`${name.slice(0, index)}${next}${letter}${name.slice(index + 2)}`];
  });
}

describe("regions of AWS", () => {
  test.each(REGION_NAMES)("%s is a name that a stack file may have", (region) => {
    expect(parseConfig({ ...awsValues, region })).toMatchObject({ region });
    expect(hasWordsOfRegions(region)).toBe(true);
    expect(partitionOf(region)).toBe(region.startsWith("us-gov-") ? "aws-us-gov" : "aws");
  });

  test("stand there once, and have every region of the price table", () => {
    expect(new Set(REGION_NAMES).size).toBe(REGION_NAMES.length);
    expect(PRICE_REGIONS.filter((region) => !isRegion(region))).toEqual([]);
  });

  test("are meant by names with two letters changed about, and one of two letters away is found", () => {
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

  test("that AWS may open one day are not taken for others", () => {
    for (const region of ["us-west-3", "eu-north-2", "af-east-1", "us-isob-east-1", "cn-north-1"])
      expect(meantRegion(region)).toBeUndefined();
  });
});
