/** What a stack costs stays below what its stack file allows. The number is the plan's, which all scripts show. */
import { type Finding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at } from "../values.ts";

export const priceIsBelowCap: Rule = {
  description: "The stack costs no more by the hour than policies.hourlyUsdCap of its stack file.",
  scope: "outputs",
  check({ outputs, facts: { hourlyUsdCap, platform } }): readonly Finding[] {
    if (hourlyUsdCap === null) return [];
    const hourlyUsd = at(outputs, "cost", "hourlyUsd");
    // null: nothing that the stack pays for has a price.
    const atLeastUsd = hourlyUsd === null ? 0 : hourlyUsd;
    if (typeof atLeastUsd !== "number" || at(outputs, "cost") === UNKNOWN)
      return [{ resource: null, ...undecided("cost.hourlyUsd") }];
    const withoutPrice = namesOf(at(outputs, "cost", "withoutPrice"));
    if (atLeastUsd <= hourlyUsdCap)
      return hourlyUsd === null || withoutPrice.length > 0
        ? [{ resource: null, ...unjudged(hourlyUsdCap, withoutPrice) }]
        : [];
    return [
      {
        resource: null,
        reason: `The stack costs ${atLeastUsd.toFixed(2)} USD an hour with all machines of its plan, and its cap is ${hourlyUsdCap.toFixed(2)} USD.`,
        fix: `Plan fewer or smaller machines (\`npm run plan\` says what each costs on ${platform}), or raise policies.hourlyUsdCap.`,
      },
    ];
  },
};

function unjudged(hourlyUsdCap: number, withoutPrice: readonly string[]): Pick<Finding, "reason" | "fix"> {
  const what = withoutPrice.length === 0 ? "what the stack pays for" : withoutPrice.join(", ");
  return {
    reason: `Whether the stack costs less than its cap of ${hourlyUsdCap.toFixed(2)} USD an hour can't be judged: there is no price of ${what}.`,
    fix: "Write what an hour costs into the stack file; `npm run plan` names the keys.",
  };
}

function namesOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : [];
}
