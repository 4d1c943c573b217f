/** Smoke checks of language models of the GPU tier, against servers that answer in each model's own shape. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Skipped } from "../../../scripts/ask/golden.ts";
import { asked } from "../../../scripts/ask/question.ts";
import { stackReference } from "../../../scripts/program/stack-file.ts";
import { readPlan } from "../../../scripts/program/targets.ts";
import { gatewayModelChecks, generateChecks } from "../../../scripts/smoke/checks.ts";
import { type FakeStack, startFakeStack } from "../verify/fake-stack.ts";

let servers: FakeStack;
beforeAll(async () => {
  servers = await startFakeStack(["gpt2-medium", "llava"]);
});
afterAll(() => servers.close());

/** Outcomes of checks by name. */
async function outcomes(example: string, name: string): Promise<Readonly<Record<string, string>>> {
  const server = servers.endpoints.models[name];
  if (server === undefined) throw new Error(`no server ${name}`);
  const plan = readPlan(stackReference("test", `examples/${example}.yaml`));
  const rest = { server, gateway: servers.endpoints.gateway, apiKey: undefined, whenUnreachable: "" };
  const model = { name, ...asked(plan, name), ...rest };
  const results: Record<string, string> = {};
  for (const check of [...gatewayModelChecks(model), ...generateChecks(model)]) {
    results[check.name] = await check
      .run()
      .catch((error: Error) => `${error instanceof Skipped ? "skipped" : "failed"}: ${error.message}`);
  }
  return results;
}

test("a model that needs a picture is asked about one at the gateway and at Triton", async () => {
  expect(await outcomes("llava-1.5", "llava")).toEqual({
    "gateway POST /v1/chat/completions llava": '" a cup of coffee"',
    "gateway POST /v1/chat/completions llava (stream)": '" a cup of coffee"',
    "llava generate": '" a cup of coffee"',
    "llava generate_stream": '" a cup of coffee"',
  });
});

test("a model without a chat template is asked to complete a text", async () => {
  const results = await outcomes("gpt2-medium-encoders", "gpt2-medium");
  expect(Object.keys(results)).toEqual([
    "gateway POST /v1/completions gpt2-medium",
    "gpt2-medium generate",
    "gpt2-medium generate_stream",
  ]);
  expect(Object.values(results).filter((text) => /^(failed|skipped)/.test(text))).toEqual([]);
});

test("a failing gateway is reported", async () => {
  servers.fault = "error of the gateway";
  const results = await outcomes("gpt2-medium-encoders", "gpt2-medium");
  servers.fault = undefined;
  expect(results["gateway POST /v1/completions gpt2-medium"]).toMatch(/^failed: .*503/);
});
