import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import * as schemas from "../../../infra/plan/container-spec-schemas.ts";
import { encoderBuildSpec, encoderServerSpec, serverSpec } from "../../../infra/plan/container-specs.ts";
import type { GpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { exampleValues, gpuValues, type Values } from "./docker/stacks.ts";

/** The tests of the programs that read server.json and encoders.json take the same files. */
const RECORDED = join(projectRoot, "test/recorded");

const host = { instanceType: "g5.12xlarge" };
const model: Values = {
  platform: "docker",
  host: { instanceType: "g5.4xlarge" },
  hub: { tokenFile: "/etc/hub-token" },
  encoders: false,
};

/** Every example, and the flavours, releases and devices that no example has. */
const STACKS: Readonly<Record<string, Values>> = {
  "gpt2-medium-encoders": exampleValues("gpt2-medium-encoders"),
  "llama-2-7b-chat-kubernetes": exampleValues("llama-2-7b-chat-kubernetes"),
  "llama-2-7b-tutorial": exampleValues("llama-2-7b-tutorial"),
  "llava-1.5": exampleValues("llava-1.5"),
  "multimodal-guide": exampleValues("multimodal-guide"),
  "gpt-flavour": {
    ...model,
    models: [{ name: "gpt", model: "gpt2-medium", flavour: "gpt", triton: { streaming: false } }],
  },
  llmapi: {
    ...model,
    models: [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi" }],
  },
  "llmapi-2-ranks": {
    ...model,
    release: "25.12",
    host,
    models: [{ name: "chat", model: "llama-2-7b-chat", runtime: "llmapi", tensorParallel: 2 }],
  },
  "4-ranks": {
    ...model,
    host,
    models: [{ name: "chat", model: "llama-2-7b-chat", tensorParallel: 4 }],
  },
  "encoders-cpu": { ...gpuValues, encoders: { device: "cpu" } },
};

function specs(values: Values): readonly (readonly [string, string])[] {
  const { plan } = checkedPlan(values);
  if (plan.tier === "cpu") throw new Error("This stack has no GPU.");
  const { encoders, release } = plan;
  const models = plan.models.map((model) => [model.name, serverSpec(model)] as const);
  if (encoders === null) return models;
  return [...models, ["encoders", encoderServerSpec(encoders, release, encoderTarget(plan))]];
}

function encoderTarget({ encoders, spec }: GpuPlan) {
  const gpu = spec.pools[0]?.gpu ?? null;
  return encoders?.device === "gpu" && gpu !== null ? { gpu } : null;
}

async function expectRecorded(folder: string, name: string, text: string): Promise<void> {
  const readable = `${JSON.stringify(JSON.parse(text), null, 2)}\n`;
  await expect(readable).toMatchFileSnapshot(join(RECORDED, folder, `${name}.json`));
}

describe.each(Object.entries(STACKS))("%s", (stack, values) => {
  test.each(specs(values))("server.json of %s", async (name, text) => {
    schemas.serverSpec.parse(JSON.parse(text));
    await expectRecorded("server-specs", `${stack}.${name}`, text);
  });

  test("encoders.json", async () => {
    const { plan } = checkedPlan(values);
    if (plan.tier === "cpu" || plan.encoders === null) return;
    const text = encoderBuildSpec(plan.encoders, plan.release, encoderTarget(plan));
    schemas.encoderBuildSpec.parse(JSON.parse(text));
    await expectRecorded("encoder-specs", stack, text);
  });
});
