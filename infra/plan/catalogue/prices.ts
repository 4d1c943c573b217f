/**
 * On-demand prices of EC2 instance types, Linux, shared tenancy, in US dollars; and of storage, as far as a source was found.
 *
 * Karpenter's AWS provider publishes prices of three regions; the others are unpriced, since prices differ between
 * regions. Spot prices change by the hour and are in no table. scripts/catalogue/update-prices.ts refreshes prices-data.ts.
 */
import { priceData } from "./prices-data.ts";

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

/** Region whose prices order instance types where a stack's own region is unknown or not in the table. */
const REGION_OF_ORDER = "us-east-1";

/**
 * US dollars an hour to order instance types by, and never to show: prices of the region, or of us-east-1 where the region
 * is null or has no table. Infinity where no price is known, so that such a type comes last.
 */
export function orderingHourlyUsd(region: string | null, instanceType: string): number {
  const known = region !== null && tableOf(region) !== undefined ? region : REGION_OF_ORDER;
  return onDemandHourlyUsd(known, instanceType) ?? Infinity;
}

/** Regions of the table that have an on-demand price for a type; there may be more that offer it. */
export function regionsOffering(instanceType: string): readonly string[] {
  return PRICE_REGIONS.filter((region) => onDemandHourlyUsd(region, instanceType) !== null);
}

function tableOf(region: string): (typeof priceData)[string] | undefined {
  return Object.hasOwn(priceData, region) ? priceData[region] : undefined;
}

/** What a GB kept for a month costs. */
export interface StoragePrice {
  readonly storage: "EFS Standard, regional" | "EBS gp3";
  readonly region: string;
  /** null where no source was found that could be dated. */
  readonly usdPerGBMonth: number | null;
  /** ISO 8601; null where there is no price. */
  readonly asOf: string | null;
  readonly source: string;
}

/** Without requests, throughput and backups, which are billed apart. */
export const storagePrices: readonly StoragePrice[] = [
  {
    storage: "EFS Standard, regional",
    region: "us-east-1",
    usdPerGBMonth: 0.3,
    asOf: "2026-03-03",
    source: "https://cloudburn.io/blog/amazon-efs-pricing",
  },
  {
    storage: "EBS gp3",
    region: "us-east-1",
    usdPerGBMonth: null,
    asOf: null,
    source: "https://aws.amazon.com/ebs/pricing/",
  },
];

/** What a service of AWS costs for each hour that it is there, whoever uses it. */
export interface ServicePrice {
  readonly service:
    | "EKS control plane"
    | "NAT gateway"
    | "interface endpoint, a zone"
    | "application load balancer";
  readonly region: string;
  /** null where no source was found that could be dated. */
  readonly hourlyUsd: number | null;
  /** ISO 8601; null where there is no price. */
  readonly asOf: string | null;
  readonly source: string;
}

/** Without what is billed by the byte or the request. */
export const servicePrices: readonly ServicePrice[] = [
  {
    service: "EKS control plane",
    region: "us-east-1",
    hourlyUsd: 0.1,
    asOf: "2026-04-01",
    source: "https://cloudburn.io/blog/amazon-eks-pricing",
  },
  {
    service: "NAT gateway",
    region: "us-east-1",
    hourlyUsd: 0.045,
    asOf: "2026-04-10",
    source: "https://zeonedge.com/en/blog/eliminating-aws-nat-gateway-costs-vpc-endpoints-privatelink-ipv6",
  },
  {
    service: "interface endpoint, a zone",
    region: "us-east-1",
    hourlyUsd: 0.01,
    asOf: "2026-04-10",
    source: "https://zeonedge.com/en/blog/eliminating-aws-nat-gateway-costs-vpc-endpoints-privatelink-ipv6",
  },
  {
    service: "application load balancer",
    region: "us-east-1",
    hourlyUsd: null,
    asOf: null,
    source: "https://aws.amazon.com/elasticloadbalancing/pricing/",
  },
];
