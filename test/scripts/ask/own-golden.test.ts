import { expect, test } from "vitest";
import { parseConfig } from "../../../infra/config/config.ts";
import { engineBuildSpec } from "../../../infra/plan/container-specs.ts";
import { planStack } from "../../../infra/plan/plan-stack.ts";
import type { StackPlan } from "../../../infra/plan/stack-plan.ts";
import { asked } from "../../../scripts/ask/question.ts";

const golden = { prompt: "2 + 2 =", maxTokens: 4, answerContains: ["4"] };

function planned(config: Readonly<Record<string, unknown>>): StackPlan {
  const { plan, problems } = planStack(parseConfig(config));
  if (plan === null) throw new Error(JSON.stringify(problems));
  return plan;
}

const models = [
  { name: "gpt", model: "gpt2-medium" },
  { name: "llava", model: "llava-1.5-7b", flavour: "llava" },
] as const;
const gpuPlan = (own: object) => {
  const plan = planned({
    platform: "docker",
    host: { instanceType: "g5.12xlarge", diskGiB: 250 },
    encoders: false,
    models: models.map((model) => ({ ...model, ...own })),
  });
  if (plan.tier !== "gpu") throw new Error("A plan on GPUs is expected.");
  return plan;
};

test("smoke and verify ask the golden question of the stack file, by default about the catalogue's picture", () => {
  const plan = gpuPlan({ golden });
  expect(asked(plan, "gpt").golden).toEqual(golden);
  expect(asked(plan, "llava").golden).toEqual({ ...golden, image: "coffee" });
  const local = planned({
    platform: "local",
    models: [{ name: "small", model: "smollm2-135m-instruct", golden }],
  });
  expect(asked(local, "small").golden).toEqual(golden);
});

test("the build asks it too, and no engine is rebuilt for it", () => {
  const [own, usual] = [gpuPlan({ golden }), gpuPlan({})];
  for (const [index, model] of own.models.entries()) {
    expect(JSON.parse(engineBuildSpec(model)).golden).toMatchObject(golden);
    expect(model.engine?.steps.at(-1)?.argv.join(" ")).toContain("2 + 2 =");
    expect(model.engine?.key).toBe(usual.models[index]?.engine?.key);
  }
});
