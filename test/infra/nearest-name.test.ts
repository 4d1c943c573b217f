import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { editDistance, nearestName } from "../../infra/nearest-name.ts";

describe("edit distance", () => {
  test("of known pairs", () => {
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("", "abc")).toBe(3);
    expect(editDistance("us-esat-1", "us-east-1")).toBe(1);
    expect(editDistance("ab-ab", "ba-ba")).toBe(2);
  });

  test("is symmetric, zero only for equals, and at most the longer length", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const distance = editDistance(a, b);
        expect(distance).toBe(editDistance(b, a));
        expect(distance === 0).toBe(a === b);
        expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});

describe("the nearest name", () => {
  test.each([
    ["paralelRequests", ["models", "parallelRequests"], "parallelRequests"],
    ["LLAVA-1.5-7B", ["llava-1.5-7b"], "llava-1.5-7b"],
    ["g5.5xlarge", ["g5.xlarge", "g5.4xlarge"], "g5.xlarge"],
    ["su-east-2", ["ap-east-2", "us-east-2"], "us-east-2"],
    ["colour", ["models", "platform"], undefined],
    ["anything", [], undefined],
  ])("of %s among %j is %s", (typed, names, nearest) => {
    expect(nearestName(typed, names)).toBe(nearest);
  });
});
