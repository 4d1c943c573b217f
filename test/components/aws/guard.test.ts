import { expect, test } from "vitest";
import { Guard } from "../../../components/aws/guard.ts";
import type { GuardPlan } from "../../../infra/plan/aws/types.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const made = (plan: GuardPlan) =>
  registeredBy(() => {
    new Guard("guard", { context: CONTEXT, plan });
  });

test("a budget tells at four fifths of it, and where AWS forecasts more", async () => {
  const emails = ["ops@example.org", "boss@example.org"];
  const found = await made({
    budget: { monthlyUsd: 1200, emails, tagFilter: "user:engine-room:stack$demo" },
  });
  expect(treeOf(found)).toEqual([
    "aws:budgets/budget:Budget guard-budget < guard",
    "engine-room:aws:Guard guard < engine-room-demo",
  ]);
  const told = {
    comparisonOperator: "GREATER_THAN",
    thresholdType: "PERCENTAGE",
    subscriberEmailAddresses: emails,
  };
  expect(byName(found, "guard-budget").inputs).toEqual({
    name: "engine-room-demo",
    budgetType: "COST",
    timeUnit: "MONTHLY",
    limitAmount: "1200",
    limitUnit: "USD",
    costFilters: [{ name: "TagKeyValue", values: ["user:engine-room:stack$demo"] }],
    notifications: [
      { notificationType: "ACTUAL", threshold: 80, ...told },
      { notificationType: "FORECASTED", threshold: 100, ...told },
    ],
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-budget" },
  });
});

test("without anybody to tell there is none", async () => {
  expect(treeOf(await made({ budget: null }))).toEqual(["engine-room:aws:Guard guard < engine-room-demo"]);
});
