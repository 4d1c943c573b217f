/** The CPU tier on a Docker host as its user has it: the project's own commands, the Pulumi CLI and its Docker provider. */
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { baseImage } from "../harness/docker/images.ts";
import { freePorts } from "../harness/docker/ports.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { eventually } from "../harness/stack.ts";
import { PulumiStack } from "./pulumi-stack.ts";

const SERVICES = ["encoders", "gateway", "mongo", "smollm2", "vector"];

describeWithEngine(
  "a stack on a Docker host, by the Pulumi CLI",
  ({ socketPath, api }) => {
    let stack: PulumiStack;
    let config: Record<string, unknown>;

    beforeAll(async () => {
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

    test("a look at it leaves nothing", async () => {
      const { stdout } = await stack.succeed("preview");
      expect(stdout).toContain("docker:index/container:Container");
      expect(await stack.ids()).toEqual({});
      expect(existsSync(stack.stack.directory)).toBe(false);
      expect((await stack.run("status")).code).toBe(1);
    });

    test("up brings up what answers at every endpoint", async () => {
      await stack.succeed("preflight");
      await stack.succeed("up");
      expect((await stack.succeed("smoke")).stdout).toMatch(/(\d+) of \1 checks passed/);
      expect(Object.keys(await stack.ids())).toEqual(SERVICES);
    });

    test("the commands know its containers", async () => {
      expect(await stack.states()).toEqual(Object.fromEntries(SERVICES.map((name) => [name, "RUNNING"])));
      expect(
        (await stack.succeed("logs", "encoders")).stdout + (await stack.succeed("logs", "encoders")).stderr,
      ).toContain("Started GRPCInferenceService");
      expect((await stack.run("logs", "redis")).stderr).toMatch(
        /^Say which service: .*gateway.* \(not redis\)\.\n$/,
      );
      expect((await stack.succeed("outputs")).stdout).toContain(
        `http://127.0.0.1:${portOf(config, "gateway")}`,
      );
      expect((await stack.succeed("connect")).stdout).toContain("Nothing has to be forwarded.");
      const question = ["--text", "What is the capital of France?", "--endpoint", "gateway"];
      expect((await stack.succeed("ask", ...question)).stdout).toContain("Paris");
    });

    test("a second up changes nothing", async () => {
      const before = await stack.ids();
      const { stderr } = await stack.succeed("up");
      expect(stderr).toMatch(/Resources:\n\s+\d+ unchanged\n/);
      expect(await stack.ids()).toEqual(before);
      await stack.succeed("preview", "--expect-no-changes");
    });

    test("a changed model replaces its own Triton, and what asks it", async () => {
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

    test("what a killed up has left is in nobody's way", async () => {
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
      expect(stderr).toContain(
        `Removed what a command that was killed had left: ${stack.stack.name}-encoders.`,
      );
      const after = await stack.ids();
      expect(after.encoders).not.toBe(before.encoders);
      expect(Object.keys(after)).toEqual(SERVICES);
      await stack.succeed("smoke");
    });

    test("down leaves the documents, and nothing with --delete-data", async () => {
      const { stderr } = await stack.succeed("down");
      const volumes = ["mock-mongo", "mock-vector"].map((name) => `${stack.stack.name}-${name}`);
      expect(stderr).toContain(`The documents are kept in the volumes ${volumes.join(" and ")}`);
      expect(await stack.ids()).toEqual({});
      expect(await api.networks()).not.toContain(`${stack.stack.name}-network`);
      expect((await api.volumes()).toSorted()).toEqual(volumes);
      expect(existsSync(stack.stack.directory)).toBe(false);
      await stack.succeed("down", "--delete-data");
      expect(await api.volumes()).toEqual([]);
    });
  },
  missingPulumiPrograms("docker"),
);

function portOf(config: Readonly<Record<string, unknown>>, name: string): number | undefined {
  return (config[name] as { port?: number }).port;
}
