import { describe, expect, it } from "vitest";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import {
  efsThroughputPrices,
  gp3ThroughputPrices,
  onDemandHourlyUsd,
  PRICE_REGIONS,
  PRICES_AS_OF,
  pricesAsOf,
  regionsOffering,
  servicePrices,
  storagePrices,
} from "../../../../infra/plan/catalogue/prices.ts";
import { priceData } from "../../../../infra/plan/catalogue/prices-data.ts";

describe("on-demand prices", () => {
  it("price every machine type in us-east-1 but those that are not sold on demand there", () => {
    const unpriced = Object.keys(machineTypes).filter(
      (type) => onDemandHourlyUsd("us-east-1", type) === null,
    );
    expect(unpriced).toEqual(["p5e.48xlarge"]);
  });

  it("are of machine types of the catalogue only, and more than nothing", () => {
    for (const { hourlyUsd } of Object.values(priceData)) {
      for (const [type, price] of Object.entries(hourlyUsd)) {
        expect(Object.keys(machineTypes)).toContain(type);
        expect(price).toBeGreaterThan(0);
      }
    }
  });

  it("rise with the size of a machine in its family", () => {
    for (const [region, { hourlyUsd }] of Object.entries(priceData)) {
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

  it("are known for three regions, each with its day", () => {
    expect(PRICE_REGIONS).toEqual(["us-east-1", "us-gov-east-1", "us-gov-west-1"]);
    for (const region of PRICE_REGIONS) {
      expect(pricesAsOf(region)).toMatch(/^\d{4}-\d{2}-\d{2}$/);
      expect((pricesAsOf(region) ?? "") >= PRICES_AS_OF).toBe(true);
    }
    expect(PRICE_REGIONS.map(pricesAsOf)).toContain(PRICES_AS_OF);
  });

  it("are null for a region or type that the table lacks", () => {
    expect(onDemandHourlyUsd("eu-central-1", "g5.xlarge")).toBeNull();
    expect(onDemandHourlyUsd("us-east-1", "g5.3xlarge")).toBeNull();
    expect(onDemandHourlyUsd("toString", "length")).toBeNull();
    expect(onDemandHourlyUsd("us-east-1", "constructor")).toBeNull();
    expect(pricesAsOf("eu-central-1")).toBeNull();
  });

  it("say which regions have a price for a type", () => {
    expect(regionsOffering("g5.xlarge")).toEqual(["us-east-1"]);
    expect(regionsOffering("g4dn.xlarge")).toEqual(["us-east-1", "us-gov-east-1", "us-gov-west-1"]);
    expect(regionsOffering("p5e.48xlarge")).toEqual([]);
  });

  it("are the module's", () => {
    expect(onDemandHourlyUsd("us-east-1", "g5.xlarge")).toBe(1.006);
    expect(onDemandHourlyUsd("us-east-1", "g6e.xlarge")).toBe(1.861);
    expect(onDemandHourlyUsd("us-east-1", "p4d.24xlarge")).toBe(21.957642);
    expect(onDemandHourlyUsd("us-gov-west-1", "p5.4xlarge")).toBe(8.256);
  });
});

describe("prices of storage and services", () => {
  const dated = [...storagePrices, ...gp3ThroughputPrices, ...efsThroughputPrices, ...servicePrices];

  it("have a day and a source", () => {
    for (const { asOf, source } of dated) {
      expect(asOf).toMatch(/^20\d\d-[01]\d-[0-3]\d$/);
      expect(source).toMatch(/^https:\/\//);
    }
    expect(storagePrices.map(({ storage }) => storage)).toEqual(["EFS Standard, regional", "EBS gp3"]);
  });

  it("are AWS's for us-east-1", () => {
    expect(Object.fromEntries(servicePrices.map(({ service, hourlyUsd }) => [service, hourlyUsd]))).toEqual({
      "EKS control plane": 0.1,
      "NAT gateway": 0.045,
      "public IPv4 address": 0.005,
      "interface endpoints": 0.01,
      "application load balancer": 0.0225,
    });
    expect(storagePrices.find(({ storage }) => storage === "EBS gp3")?.usdPerGBMonth).toBe(0.08);
    expect(gp3ThroughputPrices.map(({ usdPerMiBpsMonth }) => usdPerMiBpsMonth)).toEqual([0.04]);
    expect(efsThroughputPrices.map(({ usdPerMiBpsMonth }) => usdPerMiBpsMonth)).toEqual([6]);
    expect(new Set(dated.map(({ region }) => region))).toEqual(new Set(["us-east-1", "commercial regions"]));
  });
});
