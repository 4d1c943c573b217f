/**
 * On-demand prices of EC2 instance types, Linux, shared tenancy, in US dollars; and of storage, as far as a source was found.
 *
 * Karpenter's AWS provider publishes prices of three regions; the others are unpriced, since prices differ between
 * regions. Spot prices change by the hour and are in no table. scripts/catalogue/update-prices.ts renews those of machines;
 * the others are AWS's own price list, in the words in which others quoted it, and are renewed by hand.
 */

import { isRegion, partitionOf } from "./aws.ts";
import file from "./data/prices.json" with { type: "json" };

/** What data/prices.json holds. */
export interface PriceFile {
  readonly machines: {
    readonly source: string;
    readonly regions: Readonly<Record<string, RegionPrices>>;
  };
  /** Without requests and backups, which are billed apart; {@link gp3ThroughputPrices} has what gp3 costs besides. */
  readonly storage: readonly StoragePrice[];
  readonly gp3Throughput: readonly ThroughputPrice[];
  readonly efsThroughput: readonly ThroughputPrice[];
  /** Without what is billed by the byte, the request or the unit of a load balancer's capacity. */
  readonly services: readonly ServicePrice[];
}

interface RegionPrices {
  /** ISO 8601. */
  readonly asOf: string;
  /** By instance type. */
  readonly hourlyUsd: Readonly<Record<string, number>>;
}

interface DatedPrice {
  readonly region: string;
  /** ISO 8601: of the publication, or of the day on which it was read. */
  readonly asOf: string;
  readonly source: string;
}

/** What a GB kept for a month costs. */
export interface StoragePrice extends DatedPrice {
  readonly storage: "EFS Standard, regional" | "EBS gp3";
  readonly usdPerGBMonth: number;
}

interface ThroughputPrice extends DatedPrice {
  readonly usdPerMiBpsMonth: number;
}

/** What a service of AWS costs for each hour that it is there, whoever uses it. */
export interface ServicePrice extends DatedPrice {
  readonly service:
    | "EKS control plane"
    | "NAT gateway"
    | "public IPv4 address"
    /** Of one service in one zone. */
    | "interface endpoints"
    | "application load balancer";
  readonly hourlyUsd: number;
}

const prices = file as PriceFile;
const { regions } = prices.machines;

export const storagePrices = prices.storage;

/** Of a gp3 disk, for each MiB/s above those that its price has already: https://aws.amazon.com/ebs/pricing/ */
export const gp3ThroughputPrices = prices.gp3Throughput;
export const GP3_INCLUDED_MIBPS = 125;

/** Of an EFS file system with provisioned throughput, for each MiB/s of it above what its storage has already. */
export const efsThroughputPrices = prices.efsThroughput;
/** "50 KB/s per GB of throughput included with the price of EFS Standard storage": https://www.amazonaws.cn/en/efs/pricing/ */
export const EFS_INCLUDED_MIBPS_PER_GB = 0.05;

/** Regions that the table has, in the order of the alphabet. */
export const PRICE_REGIONS: readonly string[] = Object.keys(regions);

/** Day of the oldest price of the table, ISO 8601; {@link pricesAsOf} has the day of a region. */
export const PRICES_AS_OF: string = Object.values(regions)
  .map(({ asOf }) => asOf)
  .reduce((oldest, asOf) => (asOf < oldest ? asOf : oldest));

/** Day of a region's prices, ISO 8601; null where the table does not have the region. */
export function pricesAsOf(region: string): string | null {
  return tableOf(region)?.asOf ?? null;
}

/** US dollars an hour of one machine; null where the table has no price. */
export function onDemandHourlyUsd(region: string, instanceType: string): number | null {
  const table = tableOf(region)?.hourlyUsd;
  return table !== undefined && Object.hasOwn(table, instanceType) ? (table[instanceType] ?? null) : null;
}

/** Region whose prices order instance types, and stand for a stack's, where its own region is unknown or not in the table. */
export const REFERENCE_REGION = "us-east-1";

/**
 * US dollars an hour to order instance types by, and never to show: prices of the region, or of us-east-1 where the region
 * is null or has no table. Infinity where no price is known, so that such a type comes last.
 */
export function orderingHourlyUsd(region: string | null, instanceType: string): number {
  const known = region !== null && tableOf(region) !== undefined ? region : REFERENCE_REGION;
  return onDemandHourlyUsd(known, instanceType) ?? Infinity;
}

/** Regions of the table that have an on-demand price for a type; there may be more that offer it. */
export function regionsOffering(instanceType: string): readonly string[] {
  return PRICE_REGIONS.filter((region) => onDemandHourlyUsd(region, instanceType) !== null);
}

function tableOf(region: string): RegionPrices | undefined {
  return Object.hasOwn(regions, region) ? regions[region] : undefined;
}

/**
 * Every region that is neither China's, which is billed in yuan, nor GovCloud's. AWS names one price of the control plane and no
 * region: "you will continue to pay $0.10 per cluster per hour",
 * https://aws.amazon.com/blogs/containers/amazon-eks-extended-support-for-kubernetes-versions-pricing
 */
const COMMERCIAL_REGIONS = "commercial regions";

/** undefined where no price of the service is known for the region, or the region is not. */
export function servicePrice(
  service: ServicePrice["service"],
  region: string | null,
): ServicePrice | undefined {
  if (region === null) return undefined;
  return prices.services.find(
    (row) =>
      row.service === service &&
      (row.region === region ||
        (row.region === COMMERCIAL_REGIONS && isRegion(region) && partitionOf(region) === "aws")),
  );
}
