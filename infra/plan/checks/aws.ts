/** Region, prices, budget and capacity of a stack on AWS. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { counted, nearestName } from "../../problems.ts";
import { hasWordsOfRegions, isRegion, partitionOf, REGION_NAMES, REGIONS_AS_OF } from "../catalogue/aws.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, PRICE_REGIONS, pricesAsOf, regionsOffering } from "../catalogue/prices.ts";
import { stackCost } from "../cost/cost.ts";
import { instanceTypes, isPricedByTable, poolHourlyUsd } from "../cost/pool-price.ts";
import { rowOf } from "../resolve/names.ts";
import { type CheckedStack, type Checks, eachPool } from "./check.ts";
import { cheapestTypes } from "./machines.ts";
import { oneOf } from "./shared-messages.ts";

/**
 * Partitions whose services have other domains and principals than those that stacks name, as `amazonaws.com.cn` and
 * `ec2.amazonaws.com.cn` in China: https://docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-arns.html
 */
const OTHER_PARTITIONS = /^(cn-|[a-z]{2}-iso)/;

type AwsChecks = Checks<CheckedStack<AwsConfig>>;

export const regionChecks = {
  typeIsOffered: eachPool((pool, { spec: { region } }) => {
    const { path, hourlyUsd, capacity, machine } = pool;
    const asOf = region === null ? null : pricesAsOf(region);
    if (region === null || asOf === null || hourlyUsd !== undefined || capacity !== "onDemand") return [];
    return instanceTypes(pool).map((instanceType, index) => {
      if (onDemandHourlyUsd(region, instanceType) !== null) return false;
      if (rowOf(machineTypes, instanceType) === undefined) {
        return {
          path: `${path}.hourlyUsd`,
          reason: `The price of ${instanceType} is unknown: the price table has only the types of the catalogue.`,
          fix: "Write its price in USD an hour.",
        };
      }
      const others = regionsOffering(instanceType);
      const elsewhere = others.length === 0 ? "" : ` It is offered in ${oneOf(others)}.`;
      const sameGpu = cheapestTypes(region, (type) => type.gpu === machine.gpu).filter(
        (type) => onDemandHourlyUsd(region, type) !== null,
      );
      return {
        path: index === 0 ? `${path}.instanceType` : `${path}.otherInstanceTypes[${index - 1}]`,
        reason: `AWS does not offer ${instanceType} on demand in ${region} (prices of ${asOf}).${elsewhere}`,
        fix: `Use ${sameGpu.length === 0 ? "another region" : oneOf(sameGpu)}, or write hourlyUsd if you have capacity of your own.`,
      };
    });
  }),

  regionHasDomainsOfAws: ({ config: { region } }) =>
    OTHER_PARTITIONS.test(region) && {
      path: "region",
      reason: `Services in ${region} have other domains than amazonaws.com, which stacks use.`,
      fix: "Use a region outside China and AWS's isolated partitions; GovCloud is supported.",
    },

  regionIsOfAws: ({ config: { region } }) => {
    if (isRegion(region) || OTHER_PARTITIONS.test(region)) return [];
    const reason = `AWS has no region ${region} (list of ${REGIONS_AS_OF}).`;
    const meant = meantRegion(region);
    if (meant !== undefined) return { path: "region", reason, fix: `Did you mean \`${meant}\`?` };
    const nearest = nearestName(region, REGION_NAMES);
    return {
      severity: "warning",
      path: "region",
      reason,
      fix: `Check the name${nearest === undefined ? "" : ` (similar: ${nearest})`}; keep it if AWS has opened the region since.`,
    };
  },

  regionIsPriced: ({ spec: { region, pools, rented } }) => {
    if (region === null || pricesAsOf(region) !== null) return [];
    const isUnpriced = pools.some(isPricedByTable);
    const keys = [
      ...(isUnpriced ? ["hourlyUsd for each pool"] : []),
      ...(rented.otherHourlyUsd === undefined ? ["otherHourlyUsd for all else"] : []),
    ];
    if (keys.length === 0) return [];
    return {
      severity: "warning",
      path: "region",
      reason: `There is no price table for ${region}: cost sums lack ${isUnpriced ? "its machines" : "everything except machines"}. There are tables for ${PRICE_REGIONS.join(", ")}.`,
      fix: `Write ${keys.join(" and ")}.`,
    };
  },
} satisfies AwsChecks;

/**
 * The region that a misspelt name was meant to be; undefined for a name that is well spelt or like no other. Well spelt is one of
 * words that AWS uses: it may be newer than the table.
 */
export function meantRegion(region: string): string | undefined {
  const isWellSpelt = OTHER_PARTITIONS.test(region) || hasWordsOfRegions(region);
  return isWellSpelt ? undefined : nearestName(region, REGION_NAMES);
}

/** Tags of one resource: https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html. The project has ten at most. */
const MOST_TAGS = 40;

/** Keys of AWS, its drivers, Kubernetes and this project. IAM refuses keys that differ only in capital letters. */
const TAKEN_KEY =
  /^(aws:|eks:|engine-room:)|^(name|csivolumename)$|(^|[./-])(kubernetes\.io|k8s\.io|csi\.aws\.com)(\/|$)/;

export const accountChecks = {
  tagsAreFree: ({ config: { tags } }) =>
    Object.keys(tags).map((key, index, keys) => {
      const isTaken = TAKEN_KEY.test(key.toLowerCase());
      const isRepeated = keys.findIndex((other) => other.toLowerCase() === key.toLowerCase()) < index;
      if (!isTaken && !isRepeated) return false;
      return {
        path: `tags.${key}`,
        value: key,
        reason: isTaken
          ? "AWS, Kubernetes or the stack itself sets tags of this name."
          : "Another key differs only in capital letters, and IAM treats both as the same key.",
        fix: "Use another name.",
      };
    }),

  tagsAreFew: ({ config: { tags } }) =>
    Object.keys(tags).length > MOST_TAGS && {
      path: "tags",
      value: counted(Object.keys(tags).length, "tag"),
      reason: "AWS allows 50 tags per resource, and the stack sets up to ten of them.",
      fix: `Keep ${MOST_TAGS}.`,
    },

  // Each role is made in the stack's account.
  boundaryIsOfAccount: ({ config: { iam, account, region } }) => {
    const [, partition = "", , , owner = ""] = iam.permissionsBoundaryArn?.split(":") ?? [];
    if (iam.permissionsBoundaryArn === undefined) return [];
    const own = partitionOf(region);
    if (partition === own && [account, "aws"].includes(owner)) return [];
    return {
      path: "iam.permissionsBoundaryArn",
      reason: `The policy is in ${partition === own ? `account ${owner}` : `the partition ${partition}`}, and IAM takes one of account ${account} or of AWS itself, in ${own}.`,
      fix: `Write arn:${own}:iam::${account}:policy/NAME, of a policy that exists.`,
    };
  },

  // The name of the stack is not known here: the file belongs to every stack that `retain` names.
  ttlEndsNoRetained: ({
    config: {
      guard: { ttlHours },
      retain,
    },
  }) =>
    ttlHours !== undefined &&
    retain.length > 0 && {
      path: "guard.ttlHours",
      reason: `\`retain\` protects the stacks that it names (${oneOf(retain)}), and this would destroy them ${counted(ttlHours, "hour")} after their last \`up\`.`,
      fix: "Remove it, or write `retain: []`.",
    },

  budgetsAreOffered: ({ config: { guard, region } }) => {
    if (hasBudgets(region)) return [];
    const given = [
      ...(guard.monthlyUsd === undefined ? [] : ["monthlyUsd"]),
      ...(guard.emails.length === 0 ? [] : ["emails"]),
    ];
    return given.map((key) => ({
      path: `guard.${key}`,
      reason: `AWS Budgets is not available in GovCloud (${region}): costs are on the bill of the linked standard account.`,
      fix: "Remove it, and create a budget in that account.",
    }));
  },

  budgetIsSent: ({
    config: {
      guard: { emails, monthlyUsd },
      region,
    },
  }) => {
    if (emails.length > 0 || !hasBudgets(region)) return [];
    if (monthlyUsd !== undefined)
      return {
        path: "guard.monthlyUsd",
        reason: "A budget needs recipients, and guard.emails is empty.",
        fix: "Add guard.emails, or remove it.",
      };
    return {
      severity: "warning",
      path: "guard.emails",
      reason:
        "No budget is created: no one is notified when the stack costs more than planned or is left running.",
      fix: "Add an address.",
    };
  },

  // An alarm at a sum that leaves machines out would fire on the first day.
  budgetHasAmount: ({ config: { guard, region }, spec }) => {
    if (guard.emails.length === 0 || guard.monthlyUsd !== undefined || !hasBudgets(region)) return [];
    const unpriced = spec.pools.filter((pool) => poolHourlyUsd(spec, pool) === null);
    if (unpriced.length === 0) return [];
    return {
      path: "guard.monthlyUsd",
      reason: `The budget would be 1.2 times the planned cost, and the plan has no price for machines of ${unpriced.map(({ name }) => name).join(", ")}.`,
      fix: "Write what a month may cost, or hourlyUsd of each of them.",
    };
  },

  spotIsNotReserved: ({ config: { pools } }) =>
    pools.map(
      ({ capacity, capacityReservationId }, index) =>
        capacity === "spot" &&
        capacityReservationId !== undefined && {
          path: `pools[${index}].capacityReservationId`,
          reason: `A capacity reservation is for on-demand machines: with capacity: spot, ${capacityReservationId} would be paid for and never used.`,
          fix: "Write capacity: onDemand, or remove it.",
        },
    ),

  ownPriceIsNeeded: ({ spec }) => {
    const { otherHourlyUsd, ...rented } = spec.rented;
    if (otherHourlyUsd === undefined) return [];
    const { lines } = stackCost({ ...spec, rented }, []);
    if (lines.slice(spec.pools.length).some(({ hourlyUsd }) => hourlyUsd === null)) return [];
    return {
      path: "otherHourlyUsd",
      reason: `Everything except the pools has a price in ${spec.region}; ${otherHourlyUsd} USD would be ignored.`,
      fix: "Remove it.",
    };
  },
} satisfies AwsChecks;

/** https://docs.aws.amazon.com/general/latest/gr/billing.html */
function hasBudgets(region: string): boolean {
  return partitionOf(region) !== "aws-us-gov";
}
