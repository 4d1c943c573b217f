import { expect, test } from "vitest";
import { awsValues } from "../plan/checks/stacks.ts";
import { rendered } from "./program.ts";

// Both replicas are on the one machine of their pool, which is ended before there is another one.
test("an update gets past a budget that no machine can keep, where EKS starts none first", async () => {
  const { resources } = await rendered({
    ...awsValues,
    models: [{ name: "gpt", model: "gpt2-medium", replicas: 2 }],
    pools: [
      { name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 1 } },
      { name: "front", instanceType: "m7i.2xlarge", zones: ["a"] },
    ],
    engines: { whenFull: "stopServer" },
  });
  const budget = resources.find(({ name }) => name === "gpt-budget");
  expect(budget?.inputs.spec).toMatchObject({ maxUnavailable: 1 });
  const groups = resources.filter(({ type }) => type === "aws:eks/nodeGroup:NodeGroup");
  expect(groups.map(({ name, inputs }) => [name, inputs.updateConfig, inputs.forceUpdateVersion])).toEqual([
    ["front-machines-group", { maxUnavailable: 1, updateStrategy: "DEFAULT" }, undefined],
    ["gpu-machines-group", { maxUnavailable: 1, updateStrategy: "MINIMAL" }, true],
    ["system-machines-group", { maxUnavailable: 1, updateStrategy: "DEFAULT" }, undefined],
  ]);
});
