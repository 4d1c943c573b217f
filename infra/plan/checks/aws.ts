/** Region, prices, budget and capacity of a stack on AWS. */

import type { AwsConfig } from "../../config/aws-stacks.ts";
import { nearestName } from "../../nearest-name.ts";
import { hasWordsOfRegions, isRegion, partitionOf, REGION_NAMES, REGIONS_AS_OF } from "../catalogue/aws.ts";
import { machineTypes } from "../catalogue/machines.ts";
import { onDemandHourlyUsd, PRICE_REGIONS, pricesAsOf, regionsOffering } from "../catalogue/prices.ts";
import { stackCost } from "../cost/cost.ts";
import { isPricedByTable, poolHourlyUsd } from "../cost/pool-price.ts";
import { rowOf } from "../resolve/names.ts";
import { type CheckedStack, type Checks, eachPool } from "./check.ts";
import { cheapestTypes } from "./machines.ts";
import { count, oneOf } from "./words.ts";

/**
 * Partitions whose services have other domains and principals than those that stacks name, as `amazonaws.com.cn` and
 * `ec2.amazonaws.com.cn` in China: https://docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-arns.html
 */
const OTHER_PARTITIONS = /^(cn-|[a-z]{2}-iso)/;

type AwsChecks = Checks<CheckedStack<AwsConfig>>;

export const regionChecks = {
  typeIsOffered: eachPool(({ instanceType, path, hourlyUsd, capacity, machine }, { spec: { region } }) => {
    const asOf = region === null ? null : pricesAsOf(region);
    if (region === null || asOf === null || instanceType === null) return [];
    if (hourlyUsd !== undefined || capacity !== "onDemand") return [];
    if (onDemandHourlyUsd(region, instanceType) !== null) return [];
    if (rowOf(machineTypes, instanceType) === undefined) {
      return {
        path: `${path}.hourlyUsd`,
        reason: `What an hour of ${instanceType} costs is not known: the price table has the types of the catalogue alone.`,
        fix: "Write its price in USD.",
      };
    }
    const others = regionsOffering(instanceType);
    const elsewhere = others.length === 0 ? "" : ` It is offered in ${oneOf(others)}.`;
    const sameGpu = cheapestTypes(region, (type) => type.gpu === machine.gpu).filter(
      (type) => onDemandHourlyUsd(region, type) !== null,
    );
    return {
      path: `${path}.instanceType`,
      reason: `AWS's on-demand prices in ${region} (${asOf}) have no ${instanceType}: it can't simply be rented there.${elsewhere}`,
      fix: `Use ${sameGpu.length === 0 ? "another region" : oneOf(sameGpu)}, or write hourlyUsd where you have capacity of your own.`,
    };
  }),

  regionHasDomainsOfAws: ({ config: { region } }) =>
    OTHER_PARTITIONS.test(region) && {
      path: "region",
      reason: `${region} has names of services and registries of its own, and stacks name those of amazonaws.com.`,
      fix: "Take a region outside of China and of AWS's isolated clouds; GovCloud is one.",
    },

  regionIsOfAws: ({ config: { region } }) => {
    if (isRegion(region) || OTHER_PARTITIONS.test(region)) return [];
    const reason = `AWS's list of its regions, as of ${REGIONS_AS_OF}, has no ${region}.`;
    const meant = meantRegion(region);
    if (meant !== undefined) return { path: "region", reason, fix: `Did you mean \`${meant}\`?` };
    const nearest = nearestName(region, REGION_NAMES);
    return {
      severity: "warning",
      path: "region",
      reason,
      fix: `Check its name${nearest === undefined ? "" : ` (${nearest} is like it)`}; nothing has to change where AWS has opened it since.`,
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
      reason: `There is no price table for ${region}, and ${isUnpriced ? "its machines are" : "what is rented there besides machines is"} in no sum of the costs; prices are of ${PRICE_REGIONS.join(", ")}.`,
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

export const accountChecks = {
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
      reason: `A stack that \`retain\` names (${oneOf(retain)}) is never ended by itself, and ${count(ttlHours, "hour")} after its last \`up\` this would end it.`,
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
      reason: `AWS has no budgets in GovCloud, and ${region} is of it: what it costs is on the bill of the standard account that it is linked to.`,
      fix: "Remove it, and make a budget in that account.",
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
        reason: "A budget is made where somebody gets its mails, and guard.emails has nobody.",
        fix: "Add guard.emails, or remove it.",
      };
    return {
      severity: "warning",
      path: "guard.emails",
      reason:
        "No budget is made: nobody is told of a stack that costs more than planned, or was left running.",
      fix: "Add an address.",
    };
  },

  // A person who types `down` may know whose images are in them; an hourly one does not.
  ttlLeavesOthersImages: ({
    config: {
      guard: { ttlHours },
      images,
    },
  }) =>
    ttlHours !== undefined &&
    images.registry === undefined &&
    images.repositories === "create" && {
      severity: "warning",
      path: "images.repositories",
      reason: `The stack makes the repositories of the account's registry, and what ends it ${count(ttlHours, "hour")} after its last \`up\` deletes them with all images in them, those of other stacks too.`,
      fix: "Write existing where another stack makes them.",
    },

  // An alarm at a sum that leaves machines out would fire on the first day.
  budgetHasAmount: ({ config: { guard, region }, spec }) => {
    if (guard.emails.length === 0 || guard.monthlyUsd !== undefined || !hasBudgets(region)) return [];
    const unpriced = spec.pools.filter((pool) => poolHourlyUsd(spec, pool) === null);
    if (unpriced.length === 0) return [];
    return {
      path: "guard.monthlyUsd",
      reason: `The budget would be 1.2 times what the plan says, and the plan has no price for machines of ${unpriced.map(({ name }) => name).join(", ")}.`,
      fix: "Write what a month may cost, or hourlyUsd of each of them.",
    };
  },

  spotIsNotReserved: ({ config: { pools } }) =>
    pools.map(
      ({ capacity, capacityReservationId }, index) =>
        capacity === "spot" &&
        capacityReservationId !== undefined && {
          path: `pools[${index}].capacityReservationId`,
          reason: `A reservation holds on-demand machines, and with capacity: spot the pool asks for others: ${capacityReservationId} would be paid for and never used.`,
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
      reason: `All but the pools has a price in ${spec.region}, and ${otherHourlyUsd} USD would be ignored.`,
      fix: "Remove it.",
    };
  },
} satisfies AwsChecks;

/** https://docs.aws.amazon.com/general/latest/gr/billing.html */
function hasBudgets(region: string): boolean {
  return partitionOf(region) !== "aws-us-gov";
}
