/**
 * A budget of the stack by its tag, which must be activated once an account as a cost allocation tag; mails at four fifths
 * of it and where AWS forecasts more. Cost: none.
 */
import { Budget } from "@pulumi/aws/budgets/budget.js";
import * as pulumi from "@pulumi/pulumi";
import { plainName } from "../../infra/plan/aws/plain-name.ts";
import type { AwsContext, GuardPlan } from "../../infra/plan/aws/types.ts";
import { namedTags } from "./tags.ts";

interface GuardArgs {
  readonly context: AwsContext;
  readonly plan: GuardPlan;
}

/** https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html */
const LONGEST_BUDGET_NAME = 100;

/** Percent of the month's amount. */
const ALARMS = [
  { notificationType: "ACTUAL", threshold: 80 },
  { notificationType: "FORECASTED", threshold: 100 },
] as const;

export class Guard extends pulumi.ComponentResource {
  constructor(name: string, { context, plan }: GuardArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Guard", name, {}, opts);

    if (plan.budget !== null) this.#createBudget(name, plan.budget, context);
    this.registerOutputs({});
  }

  #createBudget(name: string, budget: NonNullable<GuardPlan["budget"]>, context: AwsContext): void {
    new Budget(
      `${name}-budget`,
      {
        name: plainName(context.name, LONGEST_BUDGET_NAME),
        budgetType: "COST",
        timeUnit: "MONTHLY",
        limitAmount: String(budget.monthlyUsd),
        limitUnit: "USD",
        costFilters: [{ name: "TagKeyValue", values: [budget.tagFilter] }],
        notifications: ALARMS.map((alarm) => ({
          ...alarm,
          comparisonOperator: "GREATER_THAN",
          thresholdType: "PERCENTAGE",
          subscriberEmailAddresses: [...budget.emails],
        })),
        tags: namedTags(context, "budget"),
      },
      { parent: this },
    );
  }
}
