/** The encoders of the GPU tier as a Docker host serves them, on a stand-in for NVIDIA's image, from a store that a test filled. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SPEC_FILES } from "../../infra/plan/container-specs.ts";
import type { DockerStack } from "../../infra/plan/docker/types.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { buildImage } from "../harness/docker/images.ts";
import { freePorts } from "../harness/docker/ports.ts";
import { RunningStack } from "../harness/docker/stack.ts";
import { exampleValues, stackOf } from "../infra/plan/docker/stacks.ts";
import { containerOf, type EncodersSpec, fillEncoders, partOf } from "./gpu-tier-stack.ts";

describeWithEngine("encoders of tier gpu on a Docker host", ({ socketPath, api }) => {
  const store = mkdtempSync(join(tmpdir(), "engine-room-store-"));
  let stack: DockerStack;
  let running: RunningStack;

  beforeAll(async () => {
    const reference = await buildImage(socketPath, "encoders");
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
      JSON.parse(containerOf(stack, "encoders").files[SPEC_FILES.server] ?? "") as EncodersSpec,
    );
    running = new RunningStack(api, stack);
    await running.up();
  });

  afterAll(async () => {
    await running?.remove();
    rmSync(store, { recursive: true, force: true });
  });

  test("the server serves every model of the plan, and stops in order", async () => {
    const server = containerOf(stack, "encoders");
    const { repository } = JSON.parse(server.files[SPEC_FILES.server] ?? "") as EncodersSpec;
    expect(await api.logs(server.name)).toContain(
      `models: ${repository.models
        .map(({ name }) => name)
        .toSorted()
        .join(" ")}\n`,
    );
    expect(await running.stop()).toEqual({ [server.name]: 0 });
  });

  test("both programs are there, for the user by number", async () => {
    const server = containerOf(stack, "encoders");
    expect(await running.outputOf(server, ["encoder_builder", "--help"])).toMatch(/^usage: encoder_builder/m);
    expect(await running.outputOf(server, ["triton_entrypoint", "--help"])).toMatch(
      /^usage: triton_entrypoint/m,
    );
    expect((await running.outputOf(server, ["id", "-u"])).trim()).toBe("1000");
    // What export and calibration import, of the interpreter that Triton starts its models with.
    await running.outputOf(server, ["python3", "-c", "import numpy, onnx, onnxruntime, PIL, tokenizers"]);
  });
});
