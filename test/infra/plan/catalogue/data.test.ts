import { expect, test } from "vitest";
import { z } from "zod";
import type { AdvisoryFile } from "../../../../infra/plan/catalogue/advisories.ts";
import advisories from "../../../../infra/plan/catalogue/data/advisories.json" with { type: "json" };
import prices from "../../../../infra/plan/catalogue/data/prices.json" with { type: "json" };
import type { PriceFile } from "../../../../infra/plan/catalogue/prices.ts";

const day = z.iso.date();
const usd = z.number().positive();
const dated = { region: z.string(), asOf: day, source: z.url() };
const throughput = z.array(z.strictObject({ ...dated, usdPerMiBpsMonth: usd }));

const priceFile: z.ZodType<PriceFile> = z.strictObject({
  machines: z.strictObject({
    source: z.url(),
    regions: z.record(z.string(), z.strictObject({ asOf: day, hourlyUsd: z.record(z.string(), usd) })),
  }),
  storage: z.array(
    z.strictObject({ storage: z.enum(["EFS Standard, regional", "EBS gp3"]), ...dated, usdPerGBMonth: usd }),
  ),
  gp3Throughput: throughput,
  efsThroughput: throughput,
  services: z.array(
    z.strictObject({
      service: z.enum([
        "EKS control plane",
        "NAT gateway",
        "public IPv4 address",
        "interface endpoints",
        "application load balancer",
      ]),
      ...dated,
      hourlyUsd: usd,
    }),
  ),
});

const cve = z.string().regex(/^CVE-\d{4}-\d{4,5}$/);
const advisoryFile: z.ZodType<AdvisoryFile> = z.strictObject({
  asOf: day,
  source: z.url(),
  advisories: z.array(
    z.strictObject({
      id: cve,
      severity: z.enum(["critical", "high", "medium", "low"]),
      component: z.enum(["triton", "tensorRtLlm"]),
      fixedIn: z.string().regex(/^\d[\w.]+$/),
      bulletin: z.string().regex(/^\d{4}\/\d{4}$/),
      summary: z.string().regex(/^[A-Z].*\.$/),
    }),
  ),
  leftOut: z.record(cve, z.string()),
});

test("data/prices.json has what the catalogue reads of it", () => {
  expect(priceFile.parse(prices)).toEqual(prices);
});

test("data/advisories.json has what the catalogue reads of it", () => {
  expect(advisoryFile.parse(advisories)).toEqual(advisories);
});
