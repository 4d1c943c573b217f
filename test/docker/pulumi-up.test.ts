/**
 * Stacks on a Docker host by the project's own commands, the Pulumi CLI and its Docker provider. Stacks of the GPU tier have
 * stand-ins for NVIDIA's images and toolkit; engines are built by containers that `up` waits for.
 */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { baseImage, builtImage } from "../harness/docker/images.ts";
import { freePorts } from "../harness/ports.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { eventually } from "../harness/stack.ts";
import { exampleValues } from "../infra/plan/docker/stacks.ts";
import { PulumiStack } from "./pulumi-stack.ts";

const SERVICES = ["encoders", "gateway", "mongo", "smollm2", "vector"];

describeWithEngine(
  "a stack of tier cpu on a Docker host, by the Pulumi CLI",
  ({ socketPath, api }) => {
    let stack: PulumiStack;
    let config: Record<string, unknown>;

    beforeAll(async () => {
      // So that `up` takes their layers from Docker's cache.
      for (const image of ["services", "cpu-models"] as const) await builtImage(socketPath, image);
      const ports = await freePorts(9);
      const take = () => ports.pop();
      const triton = () => ({ http: take(), grpc: take(), metrics: take() });
      config = {
        tier: "cpu",
        models: [{ name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512, ports: triton() }],
        encoders: { ports: triton() },
        databasePorts: { mongo: take(), vector: take() },
        gateway: { port: take() },
        images: {
          bases: {
            services: await baseImage(socketPath, "services"),
            "cpu-models": await baseImage(socketPath, "cpu-models"),
          },
        },
      };
      stack = new PulumiStack(socketPath, api, config);
      await stack.buildImages();
    });

    afterAll(() => stack?.dispose());

    /** Other tests have containers on the same engine. */
    const ownVolumes = async () =>
      (await api.volumes()).filter((volume) => volume.startsWith(`${stack.stack.name}-`)).toSorted();

    test("preview of a cpu stack creates neither a container nor a folder", async () => {
      const { stdout } = await stack.succeed("preview");
      expect(stdout).toMatch(/\+ create +\S+ \(Container\)/);
      expect(await stack.ids()).toEqual({});
      expect(existsSync(stack.stack.directory)).toBe(false);
      expect((await stack.run("status")).code).toBe(1);
    });

    test("up of a cpu stack starts every service, and every check of smoke passes", async () => {
      await stack.succeed("preflight");
      await stack.succeed("up");
      expect((await stack.succeed("smoke")).stdout).toMatch(/(\d+) of \1 checks passed/);
      expect(Object.keys(await stack.ids())).toEqual(SERVICES);
    });

    test("status, logs, outputs, connect and ask know the containers of a cpu stack", async () => {
      expect(await stack.states()).toEqual(Object.fromEntries(SERVICES.map((name) => [name, "RUNNING"])));
      expect(
        (await stack.succeed("logs", "encoders")).stdout + (await stack.succeed("logs", "encoders")).stderr,
      ).toContain("Started GRPCInferenceService");
      expect((await stack.run("logs", "redis")).stderr).toMatch(
        /^Unknown service "redis"\. Choose from .*gateway/,
      );
      expect((await stack.succeed("outputs")).stdout).toContain(
        `http://127.0.0.1:${portOf(config, "gateway")}`,
      );
      expect((await stack.succeed("connect")).stdout).toContain("Nothing has to be forwarded.");
      const question = ["--text", "What is the capital of France?", "--endpoint", "gateway"];
      expect((await stack.succeed("ask", ...question)).stdout).toContain("Paris");
    });

    test("a second up of a cpu stack changes nothing", async () => {
      const before = await stack.ids();
      const { stderr } = await stack.succeed("up");
      expect(stderr).toMatch(/^ {2}\d+ unchanged$/m);
      expect(await stack.ids()).toEqual(before);
      await stack.succeed("preview", "--expect-no-changes");
    });

    test("a changed model replaces its own Triton, and neither encoders nor databases", async () => {
      const before = await stack.ids();
      const [model] = config.models as [Record<string, unknown>];
      stack.configure({ ...config, models: [{ ...model, contextTokens: 768 }] });
      expect((await stack.run("preview", "--expect-no-changes")).code).toBe(1);
      expect(await stack.ids()).toEqual(before);
      await stack.succeed("up");
      const after = await stack.ids();
      expect(SERVICES.filter((name) => after[name] !== before[name])).toContain("smollm2");
      for (const kept of ["encoders", "mongo", "vector"]) expect(after[kept]).toBe(before[kept]);
      await stack.succeed("smoke");
    });

    test("up removes the containers that a killed up has left, and completes", async () => {
      const before = await stack.ids();
      await api.removeContainer(`${stack.stack.name}-encoders`);
      const killed = stack.stack.spawnWith(stack.environment, "up");
      await eventually(async () => ((await stack.ids()).encoders === undefined ? undefined : true));
      const ended = new Promise((resolve) => killed.once("close", resolve));
      killed.kill("SIGKILL");
      await ended;
      // Without its parent the CLI ends with the next line that it prints.
      const { code, stderr } = await eventually(async () => {
        const result = await stack.run("up");
        return result.stderr.includes("is locked by the Pulumi CLI") ? undefined : result;
      });
      expect(code, stderr).toBe(0);
      expect(stderr).toContain(`Removed leftovers of a killed command: ${stack.stack.name}-encoders.`);
      const after = await stack.ids();
      expect(after.encoders).not.toBe(before.encoders);
      expect(Object.keys(after)).toEqual(SERVICES);
      await stack.succeed("smoke");
    });

    test("down keeps the documents, and down --delete-data removes them", async () => {
      const { stderr } = await stack.succeed("down");
      const volumes = ["mock-mongo", "mock-vector"].map((name) => `${stack.stack.name}-${name}`);
      expect(stderr).toContain(`The documents are kept in the volumes ${volumes.join(" and ")}`);
      expect(await stack.ids()).toEqual({});
      expect(await api.networks()).not.toContain(`${stack.stack.name}-network`);
      expect(await ownVolumes()).toEqual(volumes);
      expect(existsSync(stack.stack.directory)).toBe(false);
      await stack.succeed("down", "--delete-data");
      expect(await ownVolumes()).toEqual([]);
    });
  },
  missingPulumiPrograms("docker"),
);

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
      // So that `up` takes their layers from Docker's cache.
      for (const image of ["trtllm", "services"] as const) await builtImage(socketPath, image);
      writeFileSync(join(weights, "config.json"), "{}");
      giveWeights();
      // The containers have another user.
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
      // Engines are always kept.
      if (stack !== undefined) await api.removeVolume(`${stack.stack.name}-store`);
      rmSync(weights, { recursive: true, force: true });
    });

    test("up of a gpu stack builds the engine, and then serves it", async () => {
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

    test("neither a second up of a gpu stack nor plain `pulumi up` changes anything", async () => {
      const before = await stack.ids();
      expect((await stack.succeed("up")).stderr).toMatch(/^ {2}\d+ unchanged$/m);
      expect(await stack.plain("up", "--yes")).toMatch(/\d+ unchanged/);
      expect(await stack.ids()).toEqual(before);
    });

    test("changed limits build another engine, and only then replace the server", async () => {
      const before = await stack.ids();
      stack.configure(withOutputTokens(256));
      await stack.succeed("up");
      const after = await stack.ids();
      expect(buildOf(after)).not.toBe(buildOf(before));
      expect(after.llava).not.toBe(before.llava);
      expect(await stack.states()).toMatchObject({ [buildOf(after)]: "DONE", llava: "RUNNING" });
    });

    test.each([
      ["up", 128],
      ["plain `pulumi up --replace`", 64],
    ])("a failed build ends up with its message, and %s tries the build again", async (command, tokens) => {
      rmSync(join(weights, "model.safetensors"));
      stack.configure(withOutputTokens(tokens));
      const { code, stdout, stderr } = await stack.run("up");
      expect(code).not.toBe(0);
      expect(stdout + stderr).toMatch(/engine_builder: convert: .* has no weights\./);
      const failed = buildOf(await stack.states());
      expect((await stack.states())[failed]).toBe("FAILED");
      giveWeights();
      if (command === "up") await stack.succeed("up");
      else await stack.plain("up", "--yes", "--replace", stack.urnOf(failed));
      const states = await stack.states();
      expect(states).toMatchObject({ [buildOf(states)]: "DONE", gateway: "RUNNING", llava: "RUNNING" });
    });

    test("plain `pulumi destroy` keeps the engines, and the next up finds them", async () => {
      await stack.plain("destroy", "--yes");
      expect(await stack.ids()).toEqual({});
      expect(await api.volumes()).toContain(`${stack.stack.name}-store`);
      stack.configure(config);
      await stack.succeed("up");
      expect(await events(buildOf(await stack.ids()))).toContain('"isNew": false');
    });
  },
  missingPulumiPrograms("docker"),
);

function portOf(config: Readonly<Record<string, unknown>>, name: string): number | undefined {
  return (config[name] as { port?: number }).port;
}
