/**
 * On-demand prices of EC2 instance types, Linux, shared tenancy, in US dollars; and of storage, as far as a source was found.
 *
 * Karpenter's AWS provider publishes prices of three regions; the others are unpriced, since prices differ between
 * regions. Spot prices change by the hour and are in no table. scripts/catalogue/update-prices.ts refreshes prices-data.ts.
 */
import { priceData } from "./prices-data.ts";
import { isRegion, partitionOf } from "./regions.ts";

/** Regions that the table has, in the order of the alphabet. */
export const PRICE_REGIONS: readonly string[] = Object.keys(priceData);

/** Day of the oldest price of the table, ISO 8601; {@link pricesAsOf} has the day of a region. */
export const PRICES_AS_OF: string = Object.values(priceData)
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

function tableOf(region: string): (typeof priceData)[string] | undefined {
  return Object.hasOwn(priceData, region) ? priceData[region] : undefined;
}

/**
 * Of AWS's own price list, in the words in which others quoted it; the day is that of its publication.
 * https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
 */
const priceList = (offer: string, asOf: string) => ({
  region: "us-east-1",
  asOf,
  source: `https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/${offer}/current/us-east-1/index.csv`,
});

const EC2_LIST = priceList("AmazonEC2", "2026-08-17");

interface DatedPrice {
  readonly region: string;
  /** ISO 8601. */
  readonly asOf: string;
  readonly source: string;
}

/** What a GB kept for a month costs. */
export interface StoragePrice extends DatedPrice {
  readonly storage: "EFS Standard, regional" | "EBS gp3";
  readonly usdPerGBMonth: number;
}

/** Without requests and backups, which are billed apart; {@link gp3ThroughputPrices} has what gp3 costs besides. */
export const storagePrices: readonly StoragePrice[] = [
  {
    storage: "EFS Standard, regional",
    region: "us-east-1",
    usdPerGBMonth: 0.3,
    asOf: "2026-03-03",
    source: "https://cloudburn.io/blog/amazon-efs-pricing",
  },
  { storage: "EBS gp3", usdPerGBMonth: 0.08, ...EC2_LIST },
];

/** Of a gp3 disk, for each MiB/s above those that its price has already: https://aws.amazon.com/ebs/pricing/ */
export const gp3ThroughputPrices: readonly (DatedPrice & { readonly usdPerMiBpsMonth: number })[] = [
  { usdPerMiBpsMonth: 0.04, ...EC2_LIST },
];
export const GP3_INCLUDED_MIBPS = 125;

/** Of an EFS file system with provisioned throughput, for each MiB/s of it above what its storage has already. */
export const efsThroughputPrices: readonly (DatedPrice & { readonly usdPerMiBpsMonth: number })[] = [
  {
    region: "us-east-1",
    usdPerMiBpsMonth: 6,
    // The day on which it was read: the page has none.
    asOf: "2026-11-21",
    source: "https://www.emnode.com/learn/lesson/right-size-efs-throughput/",
  },
];
/** "50 KB/s per GB of throughput included with the price of EFS Standard storage": https://www.amazonaws.cn/en/efs/pricing/ */
export const EFS_INCLUDED_MIBPS_PER_GB = 0.05;

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

const VPC_LIST = priceList("AmazonVPC", "2026-07-24");

/** Stands for every region that is neither China's, which is billed in yuan, nor GovCloud's. */
const COMMERCIAL_REGIONS = "commercial regions";

/** Without what is billed by the byte, the request or the unit of a load balancer's capacity. */
export const servicePrices: readonly ServicePrice[] = [
  {
    service: "EKS control plane",
    // AWS names one price and no region: "you will continue to pay $0.10 per cluster per hour",
    // https://aws.amazon.com/blogs/containers/amazon-eks-extended-support-for-kubernetes-versions-pricing
    region: COMMERCIAL_REGIONS,
    hourlyUsd: 0.1,
    asOf: "2026-04-01",
    source: "https://cloudburn.io/blog/amazon-eks-pricing",
  },
  { service: "NAT gateway", hourlyUsd: 0.045, ...EC2_LIST },
  { service: "public IPv4 address", hourlyUsd: 0.005, ...VPC_LIST },
  { service: "interface endpoints", hourlyUsd: 0.01, ...VPC_LIST },
  // The day on which they read it.
  { service: "application load balancer", hourlyUsd: 0.0225, ...priceList("AWSELB", "2026-08-17") },
];

/** undefined where no price of the service is known for the region, or the region is not. */
export function servicePrice(
  service: ServicePrice["service"],
  region: string | null,
): ServicePrice | undefined {
  if (region === null) return undefined;
  return servicePrices.find(
    (row) =>
      row.service === service &&
      (row.region === region ||
        (row.region === COMMERCIAL_REGIONS && isRegion(region) && partitionOf(region) === "aws")),
  );
}
