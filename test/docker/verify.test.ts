/** `npm run verify` on containers: its checks, and times read from a real engine. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { stackContainers } from "../../scripts/docker-host/containers.ts";
import { hostProbe } from "../../scripts/preflight/host-probe.ts";
import { type RunningStack as StackToVerify, verifyStack } from "../../scripts/verify/verify-stack.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { buildImage } from "../harness/docker/images.ts";
import { RunningStack } from "../harness/docker/stack.ts";
import { cpuTierStack } from "./cpu-tier-stack.ts";

describeWithEngine("a stack of tier cpu on a Docker host", ({ socketPath, api }) => {
  let toVerify: StackToVerify;
  let running: RunningStack;

  beforeAll(async () => {
    const services = await buildImage(socketPath, "services");
    const cpuModels = await buildImage(socketPath, "cpu-models");
    const name = `test-verify-${process.pid}`;
    const { plan, stack, outputs } = await cpuTierStack(name, { services, "cpu-models": cpuModels });
    running = new RunningStack(api, stack);
    await running.up();
    const probe = hostProbe(`unix://${socketPath}`);
    const host = { probe, containers: await stackContainers(name, probe) };
    toVerify = { name, plan, endpoints: outputs.endpoints, apiKey: undefined, host };
  });

  afterAll(async () => {
    await running?.remove();
  });

  test("passes every check of a CPU, and its starts are measured", async () => {
    const verified = await verifyStack(toVerify, () => {});
    const results = verified.flatMap(({ name, results: found }) =>
      found.map(({ record, text }) => ({ check: `${name} ${record.name}`, ...record, text })),
    );
    expect(results.filter(({ outcome }) => outcome === "failed")).toEqual([]);
    expect(results.filter(({ outcome }) => outcome === "skipped").map(({ check }) => check)).toEqual([
      "encoders captions",
    ]);
    const starts = results.filter(({ name }) => name === "start").map(({ figures }) => figures.startSeconds);
    expect(starts).toEqual([expect.any(Number), expect.any(Number)]);
    expect(new Set(results.map(({ level }) => level))).toEqual(new Set(["cpu"]));
  });
});
