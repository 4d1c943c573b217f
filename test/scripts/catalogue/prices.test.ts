import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import prices from "../../../infra/plan/catalogue/data/prices.json" with { type: "json" };
import { parseGoPrices } from "../../../scripts/catalogue/update-prices.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { COMMERCIAL, GOVERNMENT } from "./price-fixture.ts";

describe("update-prices", () => {
  const directory = mkdtempSync(join(tmpdir(), "update-prices-"));
  afterAll(() => rmSync(directory, { recursive: true }));

  function update(...words: readonly string[]) {
    const script = ["--import", "tsx", "scripts/catalogue/update-prices.ts", ...words];
    return spawnSync(process.execPath, script, { cwd: projectRoot, encoding: "utf8" });
  }

  test("`update-prices` writes the catalogue's machines in its order, and keeps manually renewed prices", () => {
    const pricing = join(directory, "pkg/providers/pricing");
    mkdirSync(pricing, { recursive: true });
    writeFileSync(join(pricing, "zz_generated.pricing_aws.go"), COMMERCIAL);
    writeFileSync(join(pricing, "zz_generated.pricing_aws_us_gov.go"), GOVERNMENT);
    const output = join(directory, "prices.json");
    const { status, stdout } = update("v1.14.1", "--from", directory, "--output", output);
    expect(status).toBe(0);
    expect(stdout).toContain('{"item":"NAT gateway","region":"us-east-1","usd":0.045}, 2026-08-17: https://');
    const machines = {
      source: "https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/pkg/providers/pricing",
      regions: {
        "us-east-1": { asOf: "2026-07-06", hourlyUsd: { "g5.xlarge": 1.006, "g5.12xlarge": 5.672 } },
        "us-gov-east-1": { asOf: "2026-06-15", hourlyUsd: { "g4dn.xlarge": 0.663 } },
        "us-gov-west-1": { asOf: "2026-06-15", hourlyUsd: { "g4dn.xlarge": 0.663 } },
      },
    };
    expect(readFileSync(output, "utf8")).toBe(`${JSON.stringify({ ...prices, machines }, null, 2)}\n`);
  });

  test("`update-prices` without a tag is refused", () => {
    const { status, stderr } = update();
    expect([status, stderr]).toEqual([1, "Missing tag of the provider, such as v1.14.1.\n"]);
  });
});

test("the day and every price of every region are read", () => {
  expect(parseGoPrices(COMMERCIAL, "aws.go")).toEqual({
    "us-east-1": {
      asOf: "2026-07-06",
      hourlyUsd: {
        "g5.12xlarge": 5.672,
        "g5.xlarge": 1.006,
        "u-6tb1.56xlarge": 46.40391,
        "u-6tb1.metal": 54.6,
      },
    },
  });
  expect(Object.keys(parseGoPrices(GOVERNMENT, "gov.go"))).toEqual(["us-gov-west-1", "us-gov-east-1"]);
});

test.each([
  ["no date", COMMERCIAL.replace("// generated at", "// made at"), /no line "\/\/ generated at DATE"/],
  ["no region", COMMERCIAL.replace(/^\t"us-east-1": \{.*/ms, ""), /no region/],
  ["a region without prices", COMMERCIAL.replace(/\t\t".*,\n/s, ""), /no price for us-east-1/],
  ["a price outside a region", COMMERCIAL.replace('\t"us-east-1": {\n', ""), /g5.12xlarge outside a region/],
  ["a price twice", COMMERCIAL.replace("g5.12xlarge", "g5.xlarge"), /g5.xlarge twice/],
])("a price file with %s is refused", (_what, source, message) => {
  expect(() => parseGoPrices(source, "aws.go")).toThrow(message);
});
