/** What a stack on AWS says of its end and of its budget. */
import { partitionOf } from "../catalogue/aws.ts";
import { poolHourlyUsd } from "../cost/pool-price.ts";
import { awsCheck, type Check, stackCheck } from "./finding.ts";
import { count, oneOf } from "./words.ts";

export const awsGuardChecks = {
  // Which stack it is, no check knows: the file is that of all which `retain` names, or the list says nothing.
  ttlEndsNoRetained: awsCheck(["guard", "retain"], ({ guard: { ttlHours }, retain }) => {
    if (ttlHours === undefined || retain.length === 0) return [];
    return [
      {
        path: "guard.ttlHours",
        reason: `A stack that \`retain\` names (${oneOf(retain)}) is never ended by itself, and ${count(ttlHours, "hour")} after its last \`up\` this would end it.`,
        fix: "Remove it, or write `retain: []`.",
      },
    ];
  }),

  budgetsAreOffered: awsCheck(["guard", "region"], ({ guard, region }) => {
    if (hasBudgets(region)) return [];
    const given = (["monthlyUsd", "emails"] as const).filter((key) =>
      key === "emails" ? guard.emails.length > 0 : guard.monthlyUsd !== undefined,
    );
    return given.map((key) => ({
      path: `guard.${key}`,
      reason: `AWS has no budgets in GovCloud, and ${region} is of it: what it costs is on the bill of the standard account that it is linked to.`,
      fix: "Remove it, and make a budget in that account.",
    }));
  }),

  budgetIsSent: awsCheck(["guard", "region"], ({ guard: { emails, monthlyUsd }, region }) => {
    if (emails.length > 0 || !hasBudgets(region)) return [];
    if (monthlyUsd !== undefined)
      return [
        {
          path: "guard.monthlyUsd",
          reason: "A budget is made where somebody gets its mails, and guard.emails has nobody.",
          fix: "Add guard.emails, or remove it.",
        },
      ];
    return [
      {
        severity: "warning",
        path: "guard.emails",
        reason:
          "No budget is made: nobody is told of a stack that costs more than planned, or was left running.",
        fix: "Add an address.",
      },
    ];
  }),

  // A person who types `down` may know whose images are in them; an hourly one does not.
  ttlLeavesOthersImages: awsCheck(["guard", "images"], ({ guard: { ttlHours }, images }) => {
    if (ttlHours === undefined || images.registry !== undefined || images.repositories === "existing")
      return [];
    return [
      {
        severity: "warning",
        path: "images.repositories",
        reason: `The stack makes the repositories of the account's registry, and what ends it ${count(ttlHours, "hour")} after its last \`up\` deletes them with all images in them, those of other stacks too.`,
        fix: "Write existing where another stack makes them.",
      },
    ];
  }),

  // An alarm at a sum that leaves machines out comes on the first day, and is not looked at on the last.
  budgetHasAmount: stackCheck(
    ["guard", "region", "pools.hourlyUsd", "pools.capacity", "pools.instanceType"],
    ({ config, spec }) => {
      if (config.platform !== "aws" || config.guard.emails.length === 0) return [];
      if (!hasBudgets(config.region)) return [];
      const unpriced = spec.pools.filter((pool) => poolHourlyUsd(spec, pool) === null);
      if (config.guard.monthlyUsd !== undefined || unpriced.length === 0) return [];
      return [
        {
          path: "guard.monthlyUsd",
          reason: `The budget would be 1.2 times what the plan says, and the plan has no price for machines of ${unpriced.map(({ name }) => name).join(", ")}.`,
          fix: "Write what a month may cost, or hourlyUsd of each of them.",
        },
      ];
    },
  ),
} satisfies Record<string, Check>;

/** https://docs.aws.amazon.com/general/latest/gr/billing.html */
function hasBudgets(region: string): boolean {
  return partitionOf(region) !== "aws-us-gov";
}
