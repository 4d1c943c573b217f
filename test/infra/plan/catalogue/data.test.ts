import { expect, test } from "vitest";
import { z } from "zod";
import type { AdvisoryFile } from "../../../../infra/plan/catalogue/advisories.ts";
import advisories from "../../../../infra/plan/catalogue/data/advisories.json" with { type: "json" };
import prices from "../../../../infra/plan/catalogue/data/prices.json" with { type: "json" };
import templates from "../../../../infra/plan/catalogue/data/templates.json" with { type: "json" };
import type { PriceFile } from "../../../../infra/plan/catalogue/prices.ts";

const day = z.iso.date();
const usd = z.number().positive();
const priceFile: z.ZodType<PriceFile> = z.strictObject({
  machines: z.strictObject({
    source: z.url(),
    regions: z.record(z.string(), z.strictObject({ asOf: day, hourlyUsd: z.record(z.string(), usd) })),
  }),
  others: z.array(
    z.strictObject({
      item: z.enum([
        "EFS Standard, regional",
        "EBS gp3",
        "EBS snapshots",
        "EBS gp3 throughput",
        "EFS provisioned throughput",
        "EKS control plane",
        "NAT gateway",
        "public IPv4 address",
        "interface endpoints",
        "application load balancer",
        "CloudWatch Logs",
      ]),
      region: z.string(),
      usd,
      asOf: day,
      source: z.url(),
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

const span = z
  .string()
  .transform((text) => text.split(" until ").map((ref) => Object.keys(templates.sets).indexOf(ref)))
  .refine(([since = -1, until = Infinity, ...others]) => since >= 0 && since < until && others.length === 0);
const keys = z.record(z.string().regex(/^[a-z0-9_]+$/), span);
const templateFile = z.strictObject({
  sets: z.record(
    z.string().regex(/^(r\d\d\.\d\d|v\d+\.\d+\.\d+)$/),
    z.strictObject({
      escapesCommas: z.boolean(),
      refusesUnknownKeys: z.boolean(),
      defaults: z.array(z.string()),
      seedField: z.enum(["random_seed", "seed"]),
      note: z.string().optional(),
    }),
  ),
  templates: z.record(
    z.string().regex(/^(inflight_batcher_llm|gpt|multimodal)\/[a-z_]+$/),
    z.strictObject({ mandatory: keys, optional: keys }),
  ),
});

test("data/templates.json names a known set, and a later one after `until`, for each placeholder", () => {
  expect(() => templateFile.parse(templates)).not.toThrow();
});

test("data/prices.json has all that the catalogue reads", () => {
  expect(priceFile.parse(prices)).toEqual(prices);
});

test("data/advisories.json has all that the catalogue reads", () => {
  expect(advisoryFile.parse(advisories)).toEqual(advisories);
});
