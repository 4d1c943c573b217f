import * as pulumi from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { containerArgs } from "../../../components/docker/container-args.ts";
import type { DockerContainer } from "../../../infra/plan/docker/types.ts";
import { FULL_SERVICE, PLAIN_SERVICE, TASK } from "./fixtures.ts";

const PLACEMENT = {
  image: "sha256:1",
  network: "demo",
  volumes: { "demo-store": "demo-store" },
  secrets: { hubToken: "hf_hush" },
};

const args = (container: DockerContainer) => containerArgs(container, PLACEMENT);

/** The value of an input, secret or not. */
function plain<T>(input: pulumi.Input<T> | undefined): Promise<unknown> {
  return new Promise((resolve) => pulumi.output(input).apply(resolve));
}

describe("inputs of a container", () => {
  test("of a service that asks for all that there is", () => {
    expect(args(FULL_SERVICE)).toEqual({
      name: "demo-llava",
      image: "sha256:1",
      entrypoints: ["/usr/bin/tini", "--"],
      command: ["triton_entrypoint", "serve", "/etc/engine-room/server.json"],
      envs: ["A_FIRST=1", "Z_LAST=2"],
      uploads: [
        { file: "/etc/engine-room/a.json", content: "[]\n", permissions: "0444" },
        { file: "/etc/engine-room/server.json", content: "{}\n", permissions: "0444" },
      ],
      mounts: [
        { type: "volume", source: "demo-store", target: "/store", readOnly: true },
        { type: "bind", source: "/data/weights", target: "/weights", readOnly: true },
      ],
      tmpfs: { "/model-repository": "size=1024,mode=1777", "/tmp": "size=67108864,mode=1777" },
      deviceRequests: [{ driver: "nvidia", deviceIds: ["0", "1"], capabilities: ["gpu"] }],
      ipcMode: "private",
      shmSize: 2048,
      memory: 4096,
      memorySwap: 4096,
      ulimits: [
        { name: "memlock", soft: -1, hard: -1 },
        { name: "stack", soft: 67_108_864, hard: 67_108_864 },
      ],
      user: "1000:1000",
      readOnly: false,
      networksAdvanced: [{ name: "demo", aliases: ["llava"] }],
      ports: [
        { internal: 8000, external: 8010, ip: "127.0.0.1" },
        { internal: 8002, external: 8012, ip: "127.0.0.1" },
      ],
      healthcheck: {
        tests: ["CMD", "curl", "-f", "http://127.0.0.1:8000/v2/health/ready"],
        interval: "10s",
        timeout: "5s",
        startPeriod: "2m0s",
        retries: 3,
      },
      mustRun: true,
      restart: "unless-stopped",
      wait: true,
      waitTimeout: 195,
      stopTimeout: 30,
      destroyGraceSeconds: 30,
      logDriver: "json-file",
      logOpts: { "max-file": "3", "max-size": "10m" },
      labels: [
        { label: "engine-room.model", value: "llava" },
        { label: "engine-room.stack", value: "demo" },
      ],
    });
  });

  test("of a service that asks for nothing leave to Docker what is Docker's", () => {
    expect(args(PLAIN_SERVICE)).toEqual({
      name: "demo-gateway",
      image: "sha256:1",
      envs: [],
      mounts: [],
      tmpfs: {},
      ipcMode: "private",
      ulimits: [],
      readOnly: false,
      networksAdvanced: [{ name: "demo", aliases: ["gateway"] }],
      ports: [],
      mustRun: true,
      restart: "unless-stopped",
      stopTimeout: 30,
      destroyGraceSeconds: 30,
      logDriver: "json-file",
      logOpts: { "max-file": "3", "max-size": "10m" },
      labels: [],
    });
  });

  test("of a task wait for its end, and keep its logs for the error", () => {
    const { mustRun, restart, attach, logs, wait, gpus, deviceRequests } = args(TASK);
    expect({ mustRun, restart, attach, logs, wait, gpus, deviceRequests }).toEqual({
      ...{ mustRun: false, restart: "no", attach: true, logs: true, wait: undefined },
      ...{ gpus: "all", deviceRequests: undefined },
    });
  });

  test("with a secret file mark all files, for the provider keeps no order of them", async () => {
    const { uploads } = args(TASK);
    expect(await pulumi.isSecret(pulumi.output(uploads))).toBe(true);
    expect(await plain(uploads)).toEqual([
      { file: "/etc/engine-room/engine.json", content: "{}\n", permissions: "0444" },
      { file: "/run/secrets/hub-token", content: "hf_hush", permissions: "0444" },
    ]);
    expect(await pulumi.isSecret(pulumi.output(args(FULL_SERVICE).uploads))).toBe(false);
  });

  test("are the same whatever the order of what has none", () => {
    const reversed = <T>(record: Readonly<Record<string, T>>) =>
      Object.fromEntries(Object.entries(record).toReversed());
    const { environment, files, ulimits, tmpfsBytes, labels, ports } = FULL_SERVICE;
    const other = {
      ...FULL_SERVICE,
      ...{ environment: reversed(environment), files: reversed(files), ulimits: reversed(ulimits) },
      ...{ tmpfsBytes: reversed(tmpfsBytes), labels: reversed(labels), ports: ports.toReversed() },
    };
    expect(JSON.stringify(args(other))).toBe(JSON.stringify(args(FULL_SERVICE)));
  });

  test.each([
    [5, "5s"],
    [59.2, "1m0s"],
    [120, "2m0s"],
    [3630, "1h0m30s"],
    [7200, "2h0m0s"],
  ])("say %d s as Go does, in which the provider reads it back", async (startPeriodSeconds, text) => {
    const health = { test: ["true"], intervalSeconds: 10, timeoutSeconds: 5, retries: 3, startPeriodSeconds };
    const { healthcheck, waitTimeout } = args({ ...PLAIN_SERVICE, health });
    expect(await plain(healthcheck)).toMatchObject({ startPeriod: text });
    expect(waitTimeout).toBe(Math.ceil(startPeriodSeconds) + 75);
  });

  test("round shared memory up to what the provider counts in", () => {
    expect(args({ ...PLAIN_SERVICE, shmBytes: 1024 ** 2 + 1 }).shmSize).toBe(2);
  });
});

describe("what can't be made", () => {
  test("files in a read-only root", () => {
    expect(() => args({ ...FULL_SERVICE, readOnlyRoot: true })).toThrow(
      "The container demo-llava has 2 files and a read-only root, into which Docker copies none.",
    );
    expect(args({ ...PLAIN_SERVICE, readOnlyRoot: true }).readOnly).toBe(true);
  });

  test("a secret file without its secret", () => {
    expect(() => containerArgs(TASK, { ...PLACEMENT, secrets: {} })).toThrow(
      "No value for the secret hubToken",
    );
  });
});
