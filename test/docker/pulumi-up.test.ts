/** The CPU tier on a Docker host as its user has it: the project's own commands, the Pulumi CLI and its Docker provider. */
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { baseImage, dockerConfigDirectory, machineSettings } from "../harness/docker/images.ts";
import { freePorts } from "../harness/docker/ports.ts";
import { missingPulumiPrograms } from "../harness/docker/pulumi-programs.ts";
import { systemPath } from "../harness/docker/run.ts";
import { eventually, TestStack } from "../harness/stack.ts";

const SERVICES = ["encoders", "gateway", "mongo", "smollm2", "vector"];

describeWithEngine(
  "a stack on a Docker host, by the Pulumi CLI",
  ({ socketPath, api }) => {
    let stack: TestStack;
    let config: Record<string, unknown>;
    const environment = {
      ENGINE_ROOM_RUNNER: "",
      PATH: systemPath(),
      DOCKER_CONFIG: dockerConfigDirectory(socketPath),
    };
    const run = (command: string, ...args: string[]) => stack.runWith(environment, command, ...args);
    const succeed = (command: string, ...args: string[]) => stack.succeedWith(environment, command, ...args);

    /** Ids of the stack's containers, by service. */
    async function ids(): Promise<Record<string, string>> {
      const names = (await api.containers()).flatMap(({ Names }) => Names.map((name) => name.slice(1)));
      const own = names.filter((name) => name.startsWith(`${stack.name}-`)).toSorted();
      const entries = own.map(async (name) => {
        return [name.slice(stack.name.length + 1), (await api.inspectContainer(name)).Id] as const;
      });
      return Object.fromEntries(await Promise.all(entries));
    }

    beforeAll(async () => {
      const ports = await freePorts(9);
      const take = () => ports.pop();
      const triton = () => ({ http: take(), grpc: take(), metrics: take() });
      config = {
        platform: "docker",
        tier: "cpu",
        models: [{ name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512, ports: triton() }],
        encoders: { ports: triton() },
        databasePorts: { mongo: take(), vector: take() },
        gateway: { port: take() },
        host: { uri: `unix://${socketPath}` },
        images: {
          bases: {
            services: await baseImage(socketPath, "services"),
            "cpu-models": await baseImage(socketPath, "cpu-models"),
          },
        },
      };
      stack = new TestStack("docker", config);
      const secrets = Object.entries(machineSettings()).map(([id, path]) => `--secret=id=${id},src=${path}`);
      // `up` then finds every layer in the engine's cache, however it reaches its registries.
      await succeed("images", ...secrets);
    });

    afterAll(() => stack?.dispose(environment));

    test("a look at it leaves nothing", async () => {
      const { stdout } = await succeed("preview");
      expect(stdout).toContain("docker:index/container:Container");
      expect(await ids()).toEqual({});
      expect(existsSync(stack.directory)).toBe(false);
      expect((await run("status")).code).toBe(1);
    });

    test("up brings up what answers at every endpoint", async () => {
      await succeed("preflight");
      await succeed("up");
      expect((await succeed("smoke")).stdout).toMatch(/(\d+) of \1 endpoints answered as they should/);
      expect(Object.keys(await ids())).toEqual(SERVICES);
    });

    test("the commands know its containers", async () => {
      const status = JSON.parse((await succeed("status", "--json")).stdout) as {
        name: string;
        state: string;
      }[];
      expect(status.map(({ name, state }) => `${name} ${state}`).toSorted()).toEqual(
        SERVICES.map((name) => `${name} RUNNING`),
      );
      expect(
        (await succeed("logs", "encoders")).stdout + (await succeed("logs", "encoders")).stderr,
      ).toContain("Started GRPCInferenceService");
      expect((await run("logs", "redis")).stderr).toMatch(
        /^Say which service: .*gateway.* \(not redis\)\.\n$/,
      );
      expect((await succeed("outputs")).stdout).toContain(`http://127.0.0.1:${portOf(config, "gateway")}`);
      expect((await succeed("connect")).stdout).toContain("Nothing has to be forwarded.");
      const question = ["--text", "What is the capital of France?", "--endpoint", "gateway"];
      expect((await succeed("ask", ...question)).stdout).toContain("Paris");
    });

    test("a second up changes nothing", async () => {
      const before = await ids();
      const { stderr } = await succeed("up");
      expect(stderr).toMatch(/Resources:\n\s+\d+ unchanged\n/);
      expect(await ids()).toEqual(before);
      await succeed("preview", "--expect-no-changes");
    });

    test("a changed model replaces its own Triton, and what asks it", async () => {
      const before = await ids();
      const [model] = config.models as [Record<string, unknown>];
      stack.configure({ ...config, models: [{ ...model, contextTokens: 768 }] });
      expect((await run("preview", "--expect-no-changes")).code).toBe(1);
      expect(await ids()).toEqual(before);
      await succeed("up");
      const after = await ids();
      expect(SERVICES.filter((name) => after[name] !== before[name])).toContain("smollm2");
      for (const kept of ["encoders", "mongo", "vector"]) expect(after[kept]).toBe(before[kept]);
      await succeed("smoke");
    });

    test("what a killed up has left is in nobody's way", async () => {
      const before = await ids();
      await api.removeContainer(`${stack.name}-encoders`);
      const killed = stack.spawnWith(environment, "up");
      await eventually(async () => ((await ids()).encoders === undefined ? undefined : true));
      const ended = new Promise((resolve) => killed.once("close", resolve));
      killed.kill("SIGKILL");
      await ended;
      // Without its parent the CLI ends with the next line that it prints.
      const { code, stderr } = await eventually(async () => {
        const result = await run("up");
        return result.stderr.includes("is locked by the Pulumi CLI") ? undefined : result;
      });
      expect(code, stderr).toBe(0);
      expect(stderr).toContain(`Removed what a command that was killed had left: ${stack.name}-encoders.`);
      const after = await ids();
      expect(after.encoders).not.toBe(before.encoders);
      expect(Object.keys(after)).toEqual(SERVICES);
      await succeed("smoke");
    });

    test("down leaves the documents, and nothing with --delete-data", async () => {
      const { stderr } = await succeed("down");
      const volumes = ["mock-mongo", "mock-vector"].map((name) => `${stack.name}-${name}`);
      expect(stderr).toContain(`The documents are kept in the volumes ${volumes.join(" and ")}`);
      expect(await ids()).toEqual({});
      expect(await api.networks()).not.toContain(`${stack.name}-network`);
      expect((await api.volumes()).toSorted()).toEqual(volumes);
      expect(existsSync(stack.directory)).toBe(false);
      await succeed("down", "--delete-data");
      expect(await api.volumes()).toEqual([]);
    });
  },
  missingPulumiPrograms(),
);

function portOf(config: Readonly<Record<string, unknown>>, name: string): number | undefined {
  return (config[name] as { port?: number }).port;
}
