import { expect, test } from "vitest";
import { parseConfig } from "../../../infra/config/config.ts";
import { planStack } from "../../../infra/plan/stack-plan.ts";
import { stackFiles } from "../../../scripts/bench/plan.ts";
import { runCommand } from "./run-plan.ts";

test("the stacks of the benchmark hold exactly the models that are asked for, 64 at most each, and plan", () => {
  const stacks = stackFiles(130).map(parseConfig);
  const results = stacks.map(planStack);
  expect(stacks.map(({ models }) => models.length)).toEqual([64, 64, 2]);
  expect(results.flatMap(({ problems }) => problems)).toEqual([]);
  const keys = results.flatMap(({ plan }) =>
    plan === null || plan.tier === "cpu" ? [] : plan.models.map(({ engine }) => engine?.key),
  );
  expect(new Set(keys).size).toBeGreaterThan(80);
});

test("an unknown benchmark is a mistake of the command line", async () => {
  const { exitCode, stderr } = await runCommand("bench", "plans");
  expect(exitCode).toBe(2);
  expect(stderr).toContain(
    'There is no benchmark "plans"; there are plan, preview, retrieval, vectors and engine-copy.',
  );
});
