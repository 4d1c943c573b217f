import { ByteBudget } from "@engine-room/service-process";
import { expect, test } from "vitest";

test("a budget refuses what is not free, and is as large as before when all is given back", () => {
  const budget = new ByteBudget(10);
  expect([budget.tryTake(4), budget.tryTake(7), budget.tryTake(6), budget.tryTake(1)]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  expect(budget.taken).toBe(10);
  budget.give(4);
  budget.give(6);
  expect([budget.taken, budget.tryTake(10)]).toEqual([0, true]);
});

test("who waits for bytes gets them in the order of asking, and nobody passes", async () => {
  const budget = new ByteBudget(10);
  const order: string[] = [];
  await budget.take(8);
  const large = budget.take(9).then(() => order.push("large"));
  const small = budget.take(1).then(() => order.push("small"));
  expect(budget.tryTake(1)).toBe(false);
  budget.give(8);
  await Promise.all([large, small]);
  expect(order).toEqual(["large", "small"]);
  expect(budget.taken).toBe(10);
});
