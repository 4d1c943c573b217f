/**
 * On-demand prices of EC2 instance types, Linux, shared tenancy, in US dollars; and of storage and services, as far as a source
 * was found.
 *
 * Karpenter's AWS provider publishes prices of three regions; the others are unpriced, since prices differ between
 * regions. Spot prices change by the hour and are in no table. scripts/catalogue/update-prices.ts renews those of machines;
 * the others are AWS's own price list, in the words in which others quoted it, and are renewed by hand.
 */

import { isRegion, partitionOf } from "./aws.ts";
import file from "./data/prices.json" with { type: "json" };

/** data/prices.json */
export interface PriceFile {
  readonly machines: {
    readonly source: string;
    /** `asOf`: ISO 8601. `hourlyUsd`: by instance type. */
    readonly regions: Readonly<
      Record<string, { readonly asOf: string; readonly hourlyUsd: Readonly<Record<string, number>> }>
    >;
  };
  readonly others: readonly Price[];
}

/** A service with a fixed price an hour, in addition to its price by use. `interface endpoints`: those of one service in one zone. */
export type PricedService =
  | "EKS control plane"
  | "NAT gateway"
  | "public IPv4 address"
  | "interface endpoints"
  | "application load balancer";

/** A month's GB, without requests and backups, which are billed apart. */
export type PricedStorage = "EFS Standard, regional" | "EBS gp3" | "EBS snapshots";

/** A month's MiB/s above {@link GP3_INCLUDED_MIBPS} or {@link EFS_INCLUDED_MIBPS_PER_GB}. https://aws.amazon.com/ebs/pricing/ */
type PricedThroughput = "EBS gp3 throughput" | "EFS provisioned throughput";

/** A GB that CloudWatch takes in; keeping it is a tenth of that a month. */
type PricedLogs = "CloudWatch Logs";

export interface Price {
  readonly item: PricedService | PricedStorage | PricedThroughput | PricedLogs;
  readonly region: string;
  readonly usd: number;
  /** ISO 8601: of the publication, or of the day on which it was read. */
  readonly asOf: string;
  readonly source: string;
}

export const GP3_INCLUDED_MIBPS = 125;

/** "50 KB/s per GB of throughput included with the price of EFS Standard storage": https://www.amazonaws.cn/en/efs/pricing/ */
export const EFS_INCLUDED_MIBPS_PER_GB = 0.05;

const { machines, others } = file as PriceFile;

const machinePrices = new Map(
  Object.entries(machines.regions).map(([region, { asOf, hourlyUsd }]) => [
    region,
    { asOf, hourlyUsd: new Map(Object.entries(hourlyUsd)) },
  ]),
);

/** Regions that the table of machines has, in the order of the alphabet. */
export const PRICE_REGIONS: readonly string[] = [...machinePrices.keys()];

/** Day of a region's prices, ISO 8601; null if the table does not have the region. */
export function pricesAsOf(region: string): string | null {
  return machinePrices.get(region)?.asOf ?? null;
}

/** US dollars an hour of one machine; null if the table has no price. */
export function onDemandHourlyUsd(region: string, instanceType: string): number | null {
  return machinePrices.get(region)?.hourlyUsd.get(instanceType) ?? null;
}

/** Region whose prices order instance types, and replace those of a region that is unknown or not in the table. */
export const REFERENCE_REGION = "us-east-1";

/**
 * US dollars an hour to order instance types by, and never to show: prices of the region, or of us-east-1 if the region
 * is null or has no table. Infinity if no price is known, so that such a type comes last.
 */
export function orderingHourlyUsd(region: string | null, instanceType: string): number {
  const known = region !== null && machinePrices.has(region) ? region : REFERENCE_REGION;
  return onDemandHourlyUsd(known, instanceType) ?? Infinity;
}

/** Regions of the table that have an on-demand price for a type; there may be more that offer it. */
export function regionsOffering(instanceType: string): readonly string[] {
  return PRICE_REGIONS.filter((region) => onDemandHourlyUsd(region, instanceType) !== null);
}

/**
 * Every region that is neither China's, which is billed in yuan, nor GovCloud's. AWS names one price of the control plane and no
 * region: "you will continue to pay $0.10 per cluster per hour",
 * https://aws.amazon.com/blogs/containers/amazon-eks-extended-support-for-kubernetes-versions-pricing
 */
const COMMERCIAL_REGIONS = "commercial regions";

/** Price of an item other than a machine; undefined if the region or its price is unknown. */
export function priceOf(item: Price["item"], region: string | null): Price | undefined {
  if (region === null) return undefined;
  const names = [region, ...(isRegion(region) && partitionOf(region) === "aws" ? [COMMERCIAL_REGIONS] : [])];
  return others.find((price) => price.item === item && names.includes(price.region));
}
