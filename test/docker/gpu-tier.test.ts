/**
 * The GPU tier as a Docker host runs it, on stand-ins for NVIDIA's images: an engine is built, served and stopped by the
 * containers of an example's plan.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { DockerContainer, DockerStack } from "../../infra/plan/docker/types.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { buildImage } from "../harness/docker/images.ts";
import { freePorts } from "../harness/docker/ports.ts";
import { RunningStack } from "../harness/docker/stack.ts";
import { exampleValues, stackOf, type Values } from "../infra/plan/docker/stacks.ts";
import { containerOf, partOf } from "./gpu-tier-stack.ts";

describeWithEngine("a stack of tier gpu on a Docker host", ({ socketPath, api }) => {
  const name = `test-gpu-${process.pid}`;
  const weights = mkdtempSync(join(tmpdir(), "engine-room-weights-"));
  let stack: DockerStack;
  let running: RunningStack;

  /** The last object that the builder printed. */
  async function lastEvent(container: string): Promise<Record<string, unknown>> {
    const lines = (await api.logs(container)).split("\n").filter((line) => line.startsWith("{"));
    return JSON.parse(lines.at(-1) ?? "{}") as Record<string, unknown>;
  }

  beforeAll(async () => {
    const reference = await buildImage(socketPath, "trtllm");
    writeFileSync(join(weights, "config.json"), "{}");
    writeFileSync(join(weights, "model.safetensors"), "weights");
    // The containers' user is another one.
    chmodSync(weights, 0o755);
    stack = partOf(stackOf(await llavaValues(weights), name), { trtllm: reference }, [
      "engineBuild",
      "triton",
    ]);
    running = new RunningStack(api, stack);
    await running.up();
  });

  afterAll(async () => {
    await running?.remove();
    rmSync(weights, { recursive: true, force: true });
  });

  test("the build leaves a complete engine in the store", async () => {
    const build = containerOf(stack, "engineBuild");
    expect(await lastEvent(build.name)).toMatchObject({ event: "complete", isNew: true });
    const plan = planOf(build);
    const manifest = JSON.parse(
      await running.outputOf(build, ["cat", `${plan.directory}/manifest.json`]),
    ) as Manifest;
    expect(manifest).toMatchObject({ key: plan.key, model: "llava-1.5-7b", worldSize: 1 });
    expect(manifest.files.map(({ path }) => path).toSorted()).toEqual([
      "llm/config.json",
      "llm/rank0.engine",
      "vision/config.json",
      "vision/model.engine",
    ]);
    const owners = await running.outputOf(build, ["find", "/store", "/scratch", "-printf", "%U:%G\\n"]);
    expect(new Set(owners.trim().split("\n"))).toEqual(new Set(["1000:1000"]));
    // Nothing of the checkpoint or of temporary folders is left.
    expect((await running.outputOf(build, ["find", "/scratch", "-type", "f"])).trim()).toBe("");
  });

  test("a second build finds the engine and does nothing", async () => {
    const build = containerOf(stack, "engineBuild");
    await running.replace(build.name);
    expect(await lastEvent(build.name)).toMatchObject({ event: "complete", isNew: false });
  });

  test("the server serves the tutorials' models, filled in, from the store", async () => {
    const server = containerOf(stack, "triton");
    const answer = await fetch(`http://127.0.0.1:${server.ports[0]?.hostPort}/v2/health/ready`);
    expect(answer.status).toBe(200);
    expect(await api.logs(server.name)).toContain("models: llava-1.5 tensorrt_llm vision_encoder");
    const config = await running.outputOf(server, [
      "cat",
      "/tutorials/Popular_Models_Guide/Llava1.5/model_repository/tensorrt_llm/config.pbtxt",
    ]);
    expect(config).toContain('name: "seed"');
  });

  test("stops in its time and in order, and nothing is left", async () => {
    expect(await running.stop()).toEqual(
      Object.fromEntries(stack.containers.map((container) => [container.name, 0])),
    );
    await running.remove();
    expect(await api.volumes()).toEqual([]);
    expect(await api.networks()).not.toContain(stack.network);
  });
});

interface Manifest {
  readonly files: readonly { readonly path: string }[];
}

/** The example with its weights in a folder, and on ports that are free. */
async function llavaValues(folder: string): Promise<Values> {
  const values = exampleValues("llava-1.5");
  const [model] = values.models as readonly Record<string, unknown>[];
  const [http, grpc, metrics] = await freePorts(3);
  return {
    ...values,
    models: [
      {
        ...model,
        weights: { from: "folder", path: folder, revision: "of-the-test" },
        ports: { http, grpc, metrics },
      },
    ],
  };
}

function planOf({ files }: DockerContainer): { readonly key: string; readonly directory: string } {
  const spec = JSON.parse(files["/etc/engine-room/engine.json"] ?? "{}") as {
    plan: { key: string; directory: string };
  };
  return spec.plan;
}
