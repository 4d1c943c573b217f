import { describe, expect, test } from "vitest";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import { unknownInstanceType } from "../../../../infra/plan/resolve/instance-types.ts";

const fixOf = (name: string) => unknownInstanceType("pools[0].instanceType", name, true).fix;
const meantBy = (name: string) => /^Did you mean `(.*?)`\?/.exec(fixOf(name))?.[1];

describe("an instance type that the catalogue does not have", () => {
  test.each([
    ["g5.xlrage", "g5.xlarge"],
    ["G5.XLarge", "g5.xlarge"],
    ["g5xlarge", "g5.xlarge"],
    ["m7i.xlagre", "m7i.xlarge"],
    ["m7i-xlarge", "m7i.xlarge"],
    ["p4d24xlarge", "p4d.24xlarge"],
    ["g.5xlarge", "g5.xlarge"],
  ])("may be misspelt: %s is %s", (name, meant) => {
    expect(meantBy(name)).toBe(meant);
  });

  test.each(["m5.xlarge", "p3.2xlarge", "t3.large", "m6a.xlrage", "m5xlarge", "c7g.metal", "m7i-flex.large"])(
    "is never taken for another family: %s",
    (name) => {
      expect(fixOf(name)).toMatch(/^The catalogue has sizes of g4dn \(T4\), .* and its price as `hourlyUsd`/);
    },
  );

  test("may be a size of a family that it has", () => {
    expect(fixOf("m7i.8xlarge")).toMatch(
      /^The catalogue has m7i\.large, m7i\.xlarge, m7i\.2xlarge, m7i\.4xlarge\. Any/,
    );
  });

  test("is found with two letters of its size changed about, whichever it is", () => {
    const slips = Object.keys(machineTypes)
      .filter((type) => type.endsWith("large"))
      .map((type) => [type.replace("large", "lrage"), type] as const);
    expect(slips.length).toBeGreaterThan(40);
    for (const [slip, type] of slips) expect(meantBy(slip)).toBe(type);
  });
});
