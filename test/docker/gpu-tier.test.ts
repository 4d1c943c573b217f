/**
 * The GPU tier on a Docker host, with stand-ins for NVIDIA's images: an engine is built, served and stopped by the containers
 * of an example's plan, and encoders are served from a store that a test filled.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SPEC_FILES } from "../../infra/plan/container-specs.ts";
import type { DockerContainer } from "../../infra/plan/docker/container-args.ts";
import type { DockerStack } from "../../infra/plan/docker/docker-stack.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { builtImage } from "../harness/docker/images.ts";
import { RunningStack } from "../harness/docker/stack.ts";
import { freePorts } from "../harness/ports.ts";
import { exampleValues, stackOf, type Values } from "../infra/plan/docker/stacks.ts";
import { containerOf, type EncodersSpec, fillEncoders, partOf } from "./gpu-tier-stack.ts";

describeWithEngine("an engine of tier gpu on a Docker host", ({ socketPath, api }) => {
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
    const reference = await builtImage(socketPath, "trtllm");
    writeFileSync(join(weights, "config.json"), "{}");
    writeFileSync(join(weights, "model.safetensors"), "weights");
    // The containers have another user.
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

  test("a build leaves a complete engine in the store", async () => {
    const build = containerOf(stack, "engineBuild");
    expect(await lastEvent(build.args.name)).toMatchObject({ event: "complete", isNew: true });
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
    // The checkpoint and temporary folders are removed.
    expect((await running.outputOf(build, ["find", "/scratch", "-type", "f"])).trim()).toBe("");
  });

  test("a second build finds the engine and builds nothing", async () => {
    const build = containerOf(stack, "engineBuild");
    await running.replace(build.args.name);
    expect(await lastEvent(build.args.name)).toMatchObject({ event: "complete", isNew: false });
  });

  test("the server serves the tutorials' models from the store, with their templates filled in", async () => {
    const server = containerOf(stack, "triton");
    const answer = await fetch(`http://127.0.0.1:${server.args.ports[0]?.external}/v2/health/ready`);
    expect(answer.status).toBe(200);
    expect(await api.logs(server.args.name)).toContain("models: llava-1.5 tensorrt_llm vision_encoder");
    const config = await running.outputOf(server, [
      "cat",
      "/tutorials/Popular_Models_Guide/Llava1.5/model_repository/tensorrt_llm/config.pbtxt",
    ]);
    expect(config).toContain('name: "seed"');
  });

  test("the containers of a gpu stack stop with exit code 0, and their removal leaves nothing", async () => {
    expect(await running.stop()).toEqual(
      Object.fromEntries(stack.containers.map(({ args }) => [args.name, 0])),
    );
    await running.remove();
    expect((await api.volumes()).filter((volume) => volume.startsWith(`${name}-`))).toEqual([]);
    expect(await api.networks()).not.toContain(stack.network);
  });
});

describeWithEngine("encoders of tier gpu on a Docker host", ({ socketPath, api }) => {
  const store = mkdtempSync(join(tmpdir(), "engine-room-store-"));
  let stack: DockerStack;
  let running: RunningStack;

  beforeAll(async () => {
    const reference = await builtImage(socketPath, "encoders");
    const [http, grpc, metrics] = await freePorts(3);
    const values = exampleValues("gpt2-medium-encoders");
    const planned = stackOf(
      {
        ...values,
        encoders: { device: "cpu", ports: { http, grpc, metrics } },
        engineStore: { path: store },
      },
      `test-encoders-${process.pid}`,
    );
    stack = partOf(planned, { encoders: reference }, ["encoders"]);
    fillEncoders(
      store,
      JSON.parse(containerOf(stack, "encoders").container.files[SPEC_FILES.server] ?? "") as EncodersSpec,
    );
    running = new RunningStack(api, stack);
    await running.up();
  });

  afterAll(async () => {
    await running?.remove();
    rmSync(store, { recursive: true, force: true });
  });

  test("the server of the encoders serves every model of the plan, and stops with exit code 0", async () => {
    const server = containerOf(stack, "encoders");
    const { repository } = JSON.parse(server.container.files[SPEC_FILES.server] ?? "") as EncodersSpec;
    expect(await api.logs(server.args.name)).toContain(
      `models: ${repository.models
        .map(({ name }) => name)
        .toSorted()
        .join(" ")}\n`,
    );
    expect(await running.stop()).toEqual({ [server.args.name]: 0 });
  });

  test("uid 1000 can run both programs of the encoders, with all that they import", async () => {
    const server = containerOf(stack, "encoders");
    const [user, builder, entrypoint] = await Promise.all([
      running.outputOf(server, ["id", "-u"]),
      running.outputOf(server, ["encoder_builder", "--help"]),
      running.outputOf(server, ["triton_entrypoint", "--help"]),
      // Imports of export and calibration, in the interpreter of Triton's Python backend.
      running.outputOf(server, ["python3", "-c", "import numpy, onnx, onnxruntime, PIL, tokenizers"]),
    ]);
    expect(user.trim()).toBe("1000");
    expect(builder).toMatch(/^usage: encoder_builder/m);
    expect(entrypoint).toMatch(/^usage: triton_entrypoint/m);
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

function planOf({ container: { files } }: DockerContainer): {
  readonly key: string;
  readonly directory: string;
} {
  const spec = JSON.parse(files["/etc/engine-room/engine.json"] ?? "{}") as {
    plan: { key: string; directory: string };
  };
  return spec.plan;
}
