import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { cpuModels, textEncoder, visionWeightSources } from "../../infra/plan/catalogue/cpu-models.ts";
import { GOLDEN_PICTURE_NAMES } from "../../infra/plan/catalogue/types.ts";
import * as schemas from "../../infra/plan/container-spec-schemas.ts";
import { engineBuildSpec } from "../../infra/plan/container-specs.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { exampleValues, gpuValues, type Values } from "../infra/plan/docker/stacks.ts";

const container = join(projectRoot, "containers/trtllm");

const examples = readdirSync(join(projectRoot, "examples")).flatMap(
  (file) => /^(.*)\.yaml$/.exec(file)?.[1] ?? [],
);

/**
 * Compares with the recorded file (`npx vitest run -u` renews it). The builder's own tests read the same files, so both sides
 * agree on the format.
 */
async function recorded(name: string, values: Values): Promise<void> {
  const { plan } = checkedPlan(values);
  if (plan.tier !== "gpu") throw new Error("a stack on GPUs");
  for (const model of plan.models) {
    const path = join(projectRoot, "test/recorded/engine-specs", `${name}.${model.name}.json`);
    const text = engineBuildSpec(model);
    schemas.engineBuildSpec.parse(JSON.parse(text));
    await expect(`${text}\n`).toMatchFileSnapshot(path);
  }
}

test.each(examples)("engine.json of the example %s is as recorded", async (example) => {
  await recorded(example, exampleValues(example));
});

test("engine.json of weights without an engine is as recorded", async () => {
  const models = [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi" }];
  await recorded("weights-alone", { ...gpuValues, models, hub: { tokenFile: "/etc/hub-token" } });
});

test("engine.json of a release with its own test picture is as recorded", async () => {
  const models = [{ name: "llava", model: "llava-1.5-7b" }];
  const pools = [{ name: "gpu", instanceType: "g5.4xlarge", nodes: { min: 1, max: 2 } }];
  const values = { platform: "kubernetes", pools, release: "24.05", acceptUnverified: true, models };
  await recorded("own-picture", values);
});

test.each(["s3", "modelscope", "folder"])("engine.json of weights from %s is as recorded", async (from) => {
  const places: Record<string, Values> = {
    s3: { from, uri: "s3://bucket/gpt", revision: "1" },
    modelscope: { from, repository: "AI-ModelScope/gpt2-medium", revision: "v1.0.0" },
    folder: { from, path: "/data/gpt", revision: "1" },
  };
  const models = [{ name: "gpt", model: "gpt2-medium", weights: places[from] }];
  await recorded(from, { ...gpuValues, models });
});

test.each(GOLDEN_PICTURE_NAMES)("the image of TensorRT-LLM has the picture %s", (name) => {
  expect(existsSync(join(container, "golden", `${name}.png`))).toBe(true);
});

test("the image of the CPU's models lists the artifacts that stacks ask for by default", () => {
  const file = join(projectRoot, "containers/cpu-models/default-artifacts.json");
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual([
    { artifact: "text-encoder", sources: textEncoder.sources },
    { artifact: "vision-encoder", sources: visionWeightSources("auto") },
    ...Object.values(cpuModels).map(({ source }) => ({ artifact: "file", sources: [source] })),
  ]);
});
