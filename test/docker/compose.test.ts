/**
 * Start of a machine on EC2 by its own programs: the planned tasks with Docker Compose and a Docker engine. Its folders are
 * below a folder of the test; stand-ins are systemd, AWS, the disk, the removal of unused images, and the images' programs.
 */

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { awsContext } from "../../infra/plan/aws/context.ts";
import { instancePlan } from "../../infra/plan/aws/machine/instance.ts";
import { dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import { neededImages } from "../../infra/plan/images.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { baseImage, docker } from "../harness/docker/images.ts";
import { buildGoModules } from "../harness/kubernetes/go-build.ts";
import { findGo } from "../harness/kubernetes/go-toolchain.ts";
import { freePorts } from "../harness/ports.ts";
import { tell } from "../harness/progress.ts";
import { ec2Plan, ec2Values, type Values } from "../infra/plan/aws/machine/stacks.ts";

const MACHINE_SECONDS = 240;
const SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** Programs of the images: a builder fails if the store says so, and a check succeeds. */
const IMAGE_PROGRAMS: Readonly<Record<string, string>> = {
  builder:
    'test -s "$2" || exit 3\nif [ -e /store/fail ]; then echo "out of memory"; echo "token hf_hush"; exit 1; fi',
  check: "exit 0",
  server: "trap 'exit 0' TERM\nwhile :; do sleep 1 & wait $!; done",
};
const NAMES: Readonly<Record<string, readonly string[]>> = {
  builder: ["engine_builder", "encoder_builder"],
  check: ["python3", "node"],
  server: ["triton_entrypoint", "gateway", "mock-mongo", "mock-vector"],
};

const toolchain = await findGo();

describeWithEngine(
  "a machine with Docker Compose",
  ({ socketPath, api }) => {
    const root = mkdtempSync(join(tmpdir(), "engine-room-machine-"));
    const stack = `test-machine-${process.pid}`;
    let ports: Values = {};
    let plugins = "";

    beforeAll(async () => {
      const built = await buildGoModules(["compose"], tell);
      if ("reason" in built) throw new Error(built.reason);
      plugins = join(root, "docker/cli-plugins");
      mkdirSync(plugins, { recursive: true });
      copyFileSync(join(built.compose, "docker-compose"), join(plugins, "docker-compose"));
      await makeImages(await baseImage(socketPath, "cpu-models"));
      for (const folder of ["srv/engine-room/store", "var/lib/engine-room", "etc/systemd/system"])
        mkdirSync(join(root, folder), { recursive: true });
      writeFileSync(join(root, "var/lib/engine-room/machine-ready"), "");
      ports = await freePublished();
    });

    afterAll(async () => {
      await remove();
      rmSync(root, { recursive: true, force: true });
    });

    async function makeImages(debian: string): Promise<void> {
      const context = join(root, "image");
      mkdirSync(context);
      for (const [program, text] of Object.entries(IMAGE_PROGRAMS))
        writeFileSync(join(context, program), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
      const copies = Object.entries(NAMES).flatMap(([program, names]) =>
        names.map((name) => `COPY ${program} /usr/local/bin/${name}`),
      );
      for (const name of ["services", "trtllm", "encoders"]) {
        const lines = [`FROM ${debian}`, ...copies, `ENV IMAGE=${name}`, "USER 1000"];
        writeFileSync(join(context, "Dockerfile"), lines.join("\n"));
        await docker(socketPath, ["build", "--quiet", "--tag", `${stack}-${name}`, context]);
      }
    }

    async function freePublished(): Promise<Values> {
      const free = await freePorts(9);
      const triton = () => ({ http: free.pop(), grpc: free.pop(), metrics: free.pop() });
      return {
        models: [{ name: "gpt", model: "gpt2-medium", ports: triton() }],
        encoders: { device: "cpu", ports: triton() },
        databasePorts: { mongo: free.pop(), vector: free.pop() },
        gateway: { port: free.pop() },
      };
    }

    async function remove(): Promise<void> {
      const own = (names: readonly string[]) => names.filter((name) => name.startsWith(`${stack}-`));
      const containers = (await api.containers()).flatMap(({ Names }) => Names.map((name) => name.slice(1)));
      for (const name of own(containers)) await api.removeContainer(name);
      for (const name of own(await api.volumes())) await api.removeVolume(name);
      for (const name of own(await api.networks())) await api.removeNetwork(name);
    }

    /** Runs the tasks of a stack until one fails. @returns The failed task, and the output of the last task. */
    function up(changes: Values = {}): { readonly failed: string | null; readonly output: string } {
      const plan = ec2Plan({ ...ec2Values, ...ports, hub: { token: { secure: "v1:abc" } }, ...changes });
      const images = neededImages(plan).map((name) => ({
        kind: "locked" as const,
        name,
        reference: `${stack}-${name}:latest`,
      }));
      const host = dockerStack(plan, { stack, images });
      let output = "";
      for (const { name, script } of instancePlan(plan, host, awsContext(plan.config, stack)).tasks) {
        const run = onMachine(below(script));
        output = run.output;
        if (run.status !== 0) return { failed: name, output };
      }
      return { failed: null, output };
    }

    /** A script with the machine's folders below the test's folder, also in files that it writes. */
    function below(script: string): string {
      const moved = (text: string) =>
        text.replace(
          /(?<![\w/])\/(?=(etc\/(engine-room|systemd)|run\/engine-room|srv|opt\/engine-room|var\/lib)\b)/g,
          `${root}/`,
        );
      return moved(script).replace(
        /^put (\S+) (\S+) (\S+)$/gm,
        (_, mode: string, path: string, text: string) =>
          `put ${mode} ${path} ${Buffer.from(moved(Buffer.from(text, "base64").toString())).toString("base64")}`,
      );
    }

    const engineRoom = (command: string) =>
      onMachine(`exec ${join(root, "opt/engine-room/engine-room")} ${command}`);

    function onMachine(script: string): { readonly status: number | null; readonly output: string } {
      const programs = {
        aws: "echo hf_hush",
        blockdev: "echo 99999999999999",
        "cloud-init": "",
        curl: "",
        // Other tests have images in the same engine.
        docker: `[ "$1 $2" = "image prune" ] || PATH=${SYSTEM_PATH} exec docker "$@"`,
        findmnt: "echo /dev/disk",
        systemctl: `case "$1" in reload-or-restart) exec ${root}/opt/engine-room/engine-room up ;; esac`,
        xfs_growfs: "",
      };
      const bin = join(root, "bin");
      mkdirSync(bin, { recursive: true });
      for (const [name, text] of Object.entries(programs))
        writeFileSync(join(bin, name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
      const { status, stdout, stderr } = spawnSync("bash", ["-s"], {
        input: script,
        encoding: "utf8",
        timeout: MACHINE_SECONDS * 1000,
        env: {
          PATH: `${bin}:${SYSTEM_PATH}`,
          HOME: root,
          DOCKER_HOST: `unix://${socketPath}`,
          DOCKER_CONFIG: join(root, "docker"),
        },
      });
      return { status, output: `${stdout}${stderr}` };
    }

    /** Ids of the stack's containers by their names without the stack's, and their states. */
    async function containers(): Promise<Readonly<Record<string, { id: string; status: string }>>> {
      const names = (await api.containers()).flatMap(({ Names }) => Names.map((name) => name.slice(1)));
      const found = names.filter((name) => name.startsWith(`${stack}-`)).toSorted();
      const inspected = await Promise.all(
        found.map(async (name) => {
          const { Id, State } = await api.inspectContainer(name);
          const short = name.slice(stack.length + 1).replace(/-[0-9a-f]{12}$/, "-KEY");
          return [
            short,
            { id: Id, status: State.Health?.Status ?? `${State.Status} ${State.ExitCode}` },
          ] as const;
        }),
      );
      return Object.fromEntries(inspected);
    }

    const healthy = (...names: readonly string[]) =>
      Object.fromEntries(names.map((name) => [name, expect.objectContaining({ status: "healthy" })]));
    const ended = expect.objectContaining({ status: "exited 0" });
    const all = {
      ...healthy("encoders", "gateway", "gpt", "mongo", "vector"),
      ...{ "encoders-KEY": ended, "gpt2-medium-KEY": ended },
    };

    test("the tasks build, start all containers and end when all are healthy", async () => {
      expect(up()).toMatchObject({ failed: null });
      expect(await containers()).toEqual(all);
    });

    test("the same tasks again change no container", async () => {
      const before = await containers();
      expect(up()).toMatchObject({ failed: null });
      expect(await containers()).toEqual(before);
    });

    test("a machine that starts again runs the same containers, and fetches its secrets again", async () => {
      const before = await containers();
      expect(engineRoom("down").status).toBe(0);
      rmSync(join(root, "run"), { recursive: true });
      expect(engineRoom("up").status).toBe(0);
      expect(existsSync(join(root, "run/engine-room/secrets/hub-token"))).toBe(true);
      const ids = (found: typeof before) => Object.values(found).map(({ id }) => id);
      expect(ids(await containers())).toEqual(ids(before));
    });

    test("another configuration of the gateway replaces only the gateway", async () => {
      expect(up()).toMatchObject({ failed: null });
      const before = await containers();
      expect(up({ gateway: { ...(ports.gateway as object), requestsPerMinute: 7 } })).toMatchObject({
        failed: null,
      });
      const after = await containers();
      expect(after.gateway?.id).not.toBe(before.gateway?.id);
      expect({ ...after, gateway: before.gateway }).toEqual(before);
    });

    test("a build that fails ends the tasks with its log without secrets, and its server runs again", async () => {
      const [model] = ports.models as readonly object[];
      const changed = { models: [{ ...model, limits: { maxBatchSize: 2 } }] };
      const before = await containers();
      writeFileSync(join(root, "srv/engine-room/store/fail"), "");
      const { failed, output } = up(changed);
      expect(failed).toMatch(/^build-gpt2-medium-/);
      expect(output).toContain("failed (exited 1)");
      expect(output).toContain("out of memory");
      expect(output).not.toContain("hf_hush");
      const after = await containers();
      expect(after.gpt?.id).toBe(before.gpt?.id);
      expect(after.gpt?.status).not.toContain("exited");
      rmSync(join(root, "srv/engine-room/store/fail"));
      expect(up(changed)).toMatchObject({ failed: null });
      expect(await containers()).toEqual(all);
    });

    test("services that the stack no longer has are removed, and documents are kept", async () => {
      const external = {
        databases: "external",
        externalDatabases: { mongo: { uri: { secure: "v1:def" } }, vector: { url: "http://10.0.0.5:6333" } },
      };
      const { databasePorts: _, ...others } = ports;
      ports = others;
      expect(up(external)).toMatchObject({ failed: null });
      expect(Object.keys(await containers())).not.toEqual(expect.arrayContaining(["mongo"]));
      expect(await api.volumes()).toEqual(expect.arrayContaining([`${stack}-mock-mongo`]));
    });
  },
  "reason" in toolchain ? toolchain.reason : undefined,
);
