/**
 * The GPU tier on a Docker host as its user has it: the project's own commands, the Pulumi CLI and its Docker provider, on
 * stand-ins for NVIDIA's images and toolkit. Engines are built by containers that `up` waits for.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { baseImage } from "../harness/docker/images.ts";
import { freePorts } from "../harness/docker/ports.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { exampleValues } from "../infra/plan/docker/stacks.ts";
import { PulumiStack } from "./pulumi-stack.ts";

describeWithEngine(
  "a stack of tier gpu on a Docker host, by the Pulumi CLI",
  ({ socketPath, api }) => {
    const weights = mkdtempSync(join(tmpdir(), "engine-room-weights-"));
    let stack: PulumiStack;
    let model: Record<string, unknown>;
    let config: Record<string, unknown>;

    /** The stack file with other limits, which make another engine. */
    const withOutputTokens = (maxOutputTokens: number) => ({
      ...config,
      models: [{ ...model, limits: { ...(model.limits as object), maxOutputTokens } }],
    });
    const buildOf = (services: Readonly<Record<string, unknown>>) =>
      Object.keys(services).find((name) => name.startsWith("llava-1.5-7b-")) ?? "";
    const events = async (build: string) => api.logs(`${stack.stack.name}-${build}`);
    const giveWeights = () => writeFileSync(join(weights, "model.safetensors"), "weights");

    beforeAll(async () => {
      writeFileSync(join(weights, "config.json"), "{}");
      giveWeights();
      // The containers' user is another one.
      chmodSync(weights, 0o755);
      const [http, grpc, metrics, gateway] = await freePorts(4);
      const { host, models, ...values } = exampleValues("llava-1.5");
      model = {
        ...(models as readonly Record<string, unknown>[])[0],
        weights: { from: "folder", path: weights, revision: "of-the-test" },
        ports: { http, grpc, metrics },
      };
      config = {
        ...values,
        host,
        models: [model],
        gateway: { port: gateway },
        image: { base: await baseImage(socketPath, "trtllm") },
        images: { bases: { services: await baseImage(socketPath, "services") } },
      };
      stack = new PulumiStack(socketPath, api, config);
      await stack.buildImages();
    });

    afterAll(async () => {
      await stack?.dispose();
      // Engines are kept, whatever else goes.
      if (stack !== undefined) await api.removeVolume(`${stack.stack.name}-store`);
      rmSync(weights, { recursive: true, force: true });
    });

    test("up builds the engine, and then serves it", async () => {
      await stack.succeed("up");
      const states = await stack.states();
      const build = buildOf(states);
      expect(states).toEqual({ [build]: "DONE", gateway: "RUNNING", llava: "RUNNING" });
      expect(await events(build)).toContain('"event": "complete"');
      const { stdout } = await stack.succeed("outputs", "--json");
      const { endpoints, models } = JSON.parse(stdout) as {
        endpoints: { gateway: string; models: Record<string, { http: string }> };
        models: readonly { engineKey: string }[];
      };
      expect(build).toBe(`llava-1.5-7b-${models[0]?.engineKey.slice(0, 12)}`);
      expect((await fetch(`${endpoints.models.llava?.http}/v2/health/ready`)).status).toBe(200);
      expect(await (await fetch(`${endpoints.gateway}/v1/models`)).json()).toMatchObject({
        data: [{ id: "llava" }],
      });
    });

    test("a second up changes nothing", async () => {
      const before = await stack.ids();
      expect((await stack.succeed("up")).stderr).toMatch(/Resources:\n\s+\d+ unchanged\n/);
      expect(await stack.ids()).toEqual(before);
    });

    test("other limits build another engine, and only then replace the server", async () => {
      const before = await stack.ids();
      stack.configure(withOutputTokens(256));
      await stack.succeed("up");
      const after = await stack.ids();
      expect(buildOf(after)).not.toBe(buildOf(before));
      expect(after.llava).not.toBe(before.llava);
      expect(await stack.states()).toMatchObject({ [buildOf(after)]: "DONE", llava: "RUNNING" });
    });

    test("a build that fails ends up with its own words, and the next up tries it again", async () => {
      rmSync(join(weights, "model.safetensors"));
      stack.configure(withOutputTokens(128));
      const { code, stdout, stderr } = await stack.run("up");
      expect(code).not.toBe(0);
      expect(stdout + stderr).toMatch(/engine_builder: convert: .* has no weights\./);
      expect((await stack.states())[buildOf(await stack.states())]).toBe("FAILED");
      giveWeights();
      await stack.succeed("up");
      const states = await stack.states();
      expect(states).toMatchObject({ [buildOf(states)]: "DONE", gateway: "RUNNING", llava: "RUNNING" });
    });

    test("down leaves the engines, and the next up finds them", async () => {
      await stack.succeed("down");
      expect(await stack.ids()).toEqual({});
      expect(await api.volumes()).toContain(`${stack.stack.name}-store`);
      stack.configure(config);
      await stack.succeed("up");
      expect(await events(buildOf(await stack.ids()))).toContain('"isNew": false');
    });
  },
  missingPulumiPrograms("docker"),
);
