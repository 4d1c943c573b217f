import { describe, expect, it } from "vitest";
import { parseGoPrices, renderPriceData } from "../../../scripts/catalogue/go-prices.ts";
import { COMMERCIAL, GOVERNMENT } from "./price-fixture.ts";

describe("parseGoPrices", () => {
  it("reads the day and every price of every region", () => {
    const { asOf, regions } = parseGoPrices(COMMERCIAL, "aws.go");
    expect(asOf).toBe("2026-07-06");
    expect([...regions].map(([region, prices]) => [region, Object.fromEntries(prices)])).toEqual([
      [
        "us-east-1",
        { "g5.12xlarge": 5.672, "g5.xlarge": 1.006, "u-6tb1.56xlarge": 46.40391, "u-6tb1.metal": 54.6 },
      ],
    ]);
    expect([...parseGoPrices(GOVERNMENT, "gov.go").regions.keys()]).toEqual([
      "us-gov-west-1",
      "us-gov-east-1",
    ]);
  });

  it.each([
    ["no date", COMMERCIAL.replace("// generated at", "// made at"), /no line "\/\/ generated at DATE"/],
    ["no region", COMMERCIAL.replace(/^\t"us-east-1": \{.*/ms, ""), /no region/],
    ["a region without prices", COMMERCIAL.replace(/\t\t".*,\n/s, ""), /no price for us-east-1/],
    [
      "a price outside a region",
      COMMERCIAL.replace('\t"us-east-1": {\n', ""),
      /g5.12xlarge outside a region/,
    ],
    ["a price twice", COMMERCIAL.replace("g5.12xlarge", "g5.xlarge"), /g5.xlarge twice/],
  ])("refuses a file with %s", (_what, source, message) => {
    expect(() => parseGoPrices(source, "aws.go")).toThrow(message);
  });
});

describe("renderPriceData", () => {
  const files = [parseGoPrices(COMMERCIAL, "aws.go"), parseGoPrices(GOVERNMENT, "gov.go")];

  it("writes the asked types in their order, region by region, whatever the order of the files", () => {
    const text = renderPriceData("example.com/m@v1.0.0", files, ["g4dn.xlarge", "g5.xlarge", "g5.12xlarge"]);
    expect(text).toContain(
      '  "us-east-1": {\n    asOf: "2026-07-06",\n    hourlyUsd: {\n      "g5.xlarge": 1.006,\n      "g5.12xlarge": 5.672,\n    },\n  },\n' +
        '  "us-gov-east-1": {\n    asOf: "2026-06-15",\n',
    );
    expect(text).toContain("the Go module example.com/m@v1.0.0.");
    expect(text).not.toContain("u-6tb1");
    expect(
      renderPriceData("example.com/m@v1.0.0", files.toReversed(), [
        "g4dn.xlarge",
        "g5.xlarge",
        "g5.12xlarge",
      ]),
    ).toBe(text);
  });
});
