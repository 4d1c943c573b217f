/** The CPU tier as a Docker host runs it: both images, the planned containers, the checks of `npm run smoke`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { DockerCpuPlan } from "../../infra/plan/cpu-stack.ts";
import type { DockerStack } from "../../infra/plan/docker/types.ts";
import { smokeChecks } from "../../scripts/smoke/checks.ts";
import { CheckSkipped } from "../../scripts/smoke/requests.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { buildImage } from "../harness/docker/images.ts";
import { RunningStack } from "../harness/docker/stack.ts";
import { eventually } from "../harness/stack.ts";
import { cpuTierStack } from "./cpu-tier-stack.ts";

describeWithEngine("a stack of tier cpu on a Docker host", ({ socketPath, api }) => {
  let plan: DockerCpuPlan;
  let stack: DockerStack;
  let outputs: StackOutputs;
  let running: RunningStack;
  const nameOf = (role: string) =>
    stack.containers.find((container) => container.role === role)?.name ?? role;

  beforeAll(async () => {
    const services = await buildImage(socketPath, "services");
    const cpuModels = await buildImage(socketPath, "cpu-models");
    const name = `test-${process.pid}`;
    ({ plan, stack, outputs } = await cpuTierStack(name, { services, "cpu-models": cpuModels }));
    running = new RunningStack(api, stack);
    await running.up();
  });

  afterAll(async () => {
    await running?.remove();
  });

  test("every endpoint answers as it should, at the published ports", async () => {
    expect(await failedChecks(plan, outputs)).toEqual([]);
  });

  test("ports are bound to loopback alone", async () => {
    const addresses = (await api.containers()).flatMap(({ Ports }) =>
      Ports.filter((port) => port.PublicPort !== undefined).map((port) => port.IP),
    );
    expect(addresses).toHaveLength(stack.containers.flatMap(({ ports }) => ports).length);
    expect(new Set(addresses)).toEqual(new Set(["127.0.0.1"]));
  });

  test("a killed Triton comes back by itself, and the gateway with it", async () => {
    const name = nameOf("triton");
    // As a crash would end it: the engine starts what was stopped by command no more.
    const { State } = await api.inspectContainer(name);
    process.kill(State.Pid, "SIGKILL");
    await eventually(async () => ((await api.inspectContainer(name)).RestartCount > 0 ? true : undefined));
    await running.healthy(name);
    expect(await failedChecks(plan, outputs)).toEqual([]);
  });

  test("documents outlive the containers of the databases", async () => {
    const { gateway } = outputs.endpoints;
    const document = { id: "kept", text: "The boiler in the attic was made in Kraków." };
    const added = await fetch(`${gateway}/v1/documents`, {
      method: "POST",
      body: JSON.stringify(document),
      headers: { "content-type": "application/json" },
    });
    expect(added.status).toBe(200);
    for (const role of ["mongo", "vector"]) {
      await running.replace(nameOf(role));
      await running.healthy(nameOf(role));
    }
    const found = await eventually(async () => {
      const answer = await fetch(`${gateway}/v1/match`, {
        method: "POST",
        body: JSON.stringify({ text: "Where was the boiler made?" }),
        headers: { "content-type": "application/json" },
      });
      return answer.ok ? ((await answer.json()) as { matches: { id: string }[] }) : undefined;
    });
    expect(found.matches[0]?.id).toBe(document.id);
  });

  test("all stop in order when they are told, and nothing is left", async () => {
    const codes = await running.stop();
    expect(codes).toEqual(Object.fromEntries(stack.containers.map(({ name }) => [name, 0])));
    await running.remove();
    expect(await api.containers()).toEqual([]);
    expect(await api.volumes()).toEqual([]);
    expect(await api.networks()).not.toContain(stack.network);
  });
});

/** Each with what came back instead. A stack without the samples has nothing for the check of their question. */
async function failedChecks(plan: DockerCpuPlan, outputs: StackOutputs): Promise<string[]> {
  const failed: string[] = [];
  for (const check of smokeChecks(plan, outputs, undefined))
    await check.run().catch((error: unknown) => {
      // The sample collection is nobody's here.
      if (!(error instanceof CheckSkipped)) failed.push(`${check.name}: ${error}`);
    });
  return failed;
}
