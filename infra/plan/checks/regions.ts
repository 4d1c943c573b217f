/** The region of a stack on AWS: whether there is one of that name, what it has, and what is known of its prices. */
import { nearestName } from "../../nearest-name.ts";
import { hasWordsOfRegions, isRegion, REGION_NAMES, REGIONS_AS_OF } from "../catalogue/aws.ts";
import { PRICE_REGIONS, pricesAsOf } from "../catalogue/prices.ts";
import { isPricedByTable } from "../cost/pool-price.ts";
import { awsCheck, type Check, stackCheck } from "./finding.ts";

/**
 * Partitions whose services have other domains and principals than those that stacks name, as `amazonaws.com.cn` and
 * `ec2.amazonaws.com.cn` in China: https://docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-arns.html
 */
const OTHER_PARTITIONS = /^(cn-|[a-z]{2}-iso)/;

export const regionChecks = {
  regionHasDomainsOfAws: awsCheck(["region"], ({ region }) =>
    OTHER_PARTITIONS.test(region)
      ? [
          {
            path: "region",
            reason: `${region} has names of services and registries of its own, and stacks name those of amazonaws.com.`,
            fix: "Take a region outside of China and of AWS's isolated clouds; GovCloud is one.",
          },
        ]
      : [],
  ),

  // Rests on no key but its own: checks that do are left out where it finds a misspelt name.
  regionIsOfAws: awsCheck([], ({ region }) => {
    if (isRegion(region) || OTHER_PARTITIONS.test(region)) return [];
    const reason = `AWS's list of its regions, as of ${REGIONS_AS_OF}, has no ${region}.`;
    const meant = meantRegion(region);
    if (meant !== undefined) return [{ path: "region", reason, fix: `Did you mean \`${meant}\`?` }];
    const nearest = nearestName(region, REGION_NAMES);
    return [
      {
        severity: "warning",
        path: "region",
        reason,
        fix: `Check its name${nearest === undefined ? "" : ` (${nearest} is like it)`}; nothing has to change where AWS has opened it since.`,
      },
    ];
  }),

  regionIsPriced: stackCheck(
    ["region", "otherHourlyUsd", "pools.hourlyUsd", "pools.capacity"],
    ({ spec: { region, pools, rented } }) => {
      if (region === null || pricesAsOf(region) !== null) return [];
      const isUnpriced = pools.some(isPricedByTable);
      const keys = [
        ...(isUnpriced ? ["hourlyUsd for each pool"] : []),
        ...(rented.otherHourlyUsd === undefined ? ["otherHourlyUsd for all else"] : []),
      ];
      if (keys.length === 0) return [];
      return [
        {
          severity: "warning",
          path: "region",
          reason: `There is no price table for ${region}, and ${isUnpriced ? "its machines are" : "what is rented there besides machines is"} in no sum of the costs; prices are of ${PRICE_REGIONS.join(", ")}.`,
          fix: `Write ${keys.join(" and ")}.`,
        },
      ];
    },
  ),
} satisfies Record<string, Check>;

/**
 * The region that a misspelt name was meant to be; undefined for a name that is well spelt or like no other. Well spelt is one of
 * words that AWS uses: it may be newer than the table.
 */
export function meantRegion(region: string): string | undefined {
  const isWellSpelt = OTHER_PARTITIONS.test(region) || hasWordsOfRegions(region);
  return isWellSpelt ? undefined : nearestName(region, REGION_NAMES);
}
