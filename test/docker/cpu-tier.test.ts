/** The CPU tier on a Docker host: both images, the planned containers, the checks of `npx engine-room smoke` and `verify`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadPlan } from "../../infra/load-plan.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { DockerCpuPlan } from "../../infra/plan/cpu-stack.ts";
import { type DockerStack, dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { DockerImage } from "../../infra/plan/docker/images.ts";
import { Skipped } from "../../scripts/ask/golden.ts";
import { stackContainers } from "../../scripts/docker-host/containers.ts";
import { hostProbe } from "../../scripts/preflight/host-probe.ts";
import { smokeChecks } from "../../scripts/smoke/checks.ts";
import { verifyStack } from "../../scripts/verify/verify-stack.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { builtImage } from "../harness/docker/images.ts";
import { RunningStack } from "../harness/docker/stack.ts";
import { freePorts } from "../harness/ports.ts";
import { eventually } from "../harness/stack.ts";

describeWithEngine("a stack of tier cpu on a Docker host", ({ socketPath, api }) => {
  const name = `test-${process.pid}`;
  let plan: DockerCpuPlan;
  let stack: DockerStack;
  let outputs: StackOutputs;
  let running: RunningStack;
  const nameOf = (role: string) =>
    stack.containers.find(({ container }) => container.role === role)?.args.name ?? role;

  /** Other tests have containers on the same engine. */
  const ownContainers = async () =>
    (await api.containers()).filter(({ Names }) => Names.some((own) => own.startsWith(`/${name}-`)));

  beforeAll(async () => {
    const services = await builtImage(socketPath, "services");
    const cpuModels = await builtImage(socketPath, "cpu-models");
    ({ plan, stack, outputs } = await plannedStack(name, { services, "cpu-models": cpuModels }));
    running = new RunningStack(api, stack);
    await running.up();
  });

  afterAll(async () => {
    await running?.remove();
  });

  test("every check of smoke passes at the published ports", async () => {
    expect(await failedChecks(plan, outputs)).toEqual([]);
  });

  test("verify passes every check of a CPU, and measures both starts", async () => {
    const probe = hostProbe(`unix://${socketPath}`);
    const host = { probe, containers: await stackContainers(name, probe) };
    const { endpoints } = outputs;
    const verified = await verifyStack({ name, plan, endpoints, apiKey: undefined, host }, () => {});
    const results = verified.flatMap(({ name: server, results: found }) =>
      found.map(({ record, text }) => ({ check: `${server} ${record.name}`, ...record, text })),
    );
    expect(results.filter(({ outcome }) => outcome === "failed")).toEqual([]);
    expect(results.filter(({ outcome }) => outcome === "skipped").map(({ check }) => check)).toEqual([
      "encoders captions",
    ]);
    const starts = results.filter((result) => result.name === "start");
    expect(starts.map(({ figures }) => figures.startSeconds)).toEqual([
      expect.any(Number),
      expect.any(Number),
    ]);
    expect(new Set(results.map(({ level }) => level))).toEqual(new Set(["cpu"]));
  });

  test("ports are bound only to loopback", async () => {
    const addresses = (await ownContainers()).flatMap(({ Ports }) =>
      Ports.filter((port) => port.PublicPort !== undefined).map((port) => port.IP),
    );
    expect(addresses).toHaveLength(stack.containers.flatMap(({ args }) => args.ports).length);
    expect(new Set(addresses)).toEqual(new Set(["127.0.0.1"]));
  });

  test("a killed Triton is started again, and the gateway reaches it", async () => {
    const triton = nameOf("triton");
    // Like a crash: Docker does not restart a container that was stopped by command.
    const { State } = await api.inspectContainer(triton);
    process.kill(State.Pid, "SIGKILL");
    await eventually(async () => ((await api.inspectContainer(triton)).RestartCount > 0 ? true : undefined));
    await running.healthy(triton);
    expect(await failedChecks(plan, outputs)).toEqual([]);
  });

  test("documents survive a replacement of the databases' containers", async () => {
    const { gateway } = outputs.endpoints;
    const document = { id: "kept", text: "The boiler in the attic was made in Kraków." };
    const added = await fetch(`${gateway}/v1/documents`, {
      method: "POST",
      body: JSON.stringify(document),
      headers: { "content-type": "application/json" },
    });
    expect(added.status).toBe(200);
    await Promise.all(
      ["mongo", "vector"].map(async (role) => {
        await running.replace(nameOf(role));
        await running.healthy(nameOf(role));
      }),
    );
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

  test("all containers of a cpu stack stop with exit code 0, and their removal leaves nothing", async () => {
    const codes = await running.stop();
    expect(codes).toEqual(Object.fromEntries(stack.containers.map(({ args }) => [args.name, 0])));
    await running.remove();
    expect(await ownContainers()).toEqual([]);
    expect((await api.volumes()).filter((volume) => volume.startsWith(`${name}-`))).toEqual([]);
    expect(await api.networks()).not.toContain(stack.network);
  });
});

/** Errors of failed checks. A stack without the samples skips the check of their question. */
async function failedChecks(plan: DockerCpuPlan, outputs: StackOutputs): Promise<string[]> {
  const failed: string[] = [];
  for (const check of smokeChecks(plan, outputs, undefined))
    await check.run().catch((error: unknown) => {
      if (!(error instanceof Skipped)) failed.push(`${check.name}: ${error}`);
    });
  return failed;
}

/** Plans a stack on free ports. @param references - References of images that are on the host, by name. */
async function plannedStack(
  name: string,
  references: Readonly<Record<"services" | "cpu-models", string>>,
): Promise<{ readonly plan: DockerCpuPlan; readonly stack: DockerStack; readonly outputs: StackOutputs }> {
  const ports = await freePorts(9);
  const take = () => ports.pop() ?? 0;
  const triton = () => ({ http: take(), grpc: take(), metrics: take() });
  const plan = await loadPlan({
    platform: "docker",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512, ports: triton() }],
    encoders: { ports: triton() },
    databasePorts: { mongo: take(), vector: take() },
    gateway: { port: take() },
  });
  if (plan.platform !== "docker" || plan.tier !== "cpu") throw new Error("The plan is of another kind.");
  const images = Object.entries(references).map(
    ([image, reference]) =>
      ({ kind: "locked", name: image as keyof typeof references, reference }) satisfies DockerImage,
  );
  const stack = dockerStack(plan, { stack: name, images });
  const { release, cost } = plan;
  const models = plan.models.map((model) => ({
    ...{ name: model.name, model: model.model },
    ...{ release, engineKey: null, nodePool: "host" },
  }));
  const { endpoints, notes } = stack;
  return { plan, stack, outputs: { endpoints, models, release, engineStore: "", cost, notes } };
}
