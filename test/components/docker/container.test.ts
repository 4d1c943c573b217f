import * as pulumi from "@pulumi/pulumi";
import { expect, test } from "vitest";
import { containerArgs } from "../../../components/docker/container-args.ts";
import { taskFailure } from "../../../components/docker/task-result.ts";
import { container } from "../../../infra/plan/docker/container.ts";
import type { DockerContainer } from "../../../infra/plan/docker/types.ts";

/** A container that asks for nothing but what it must. */
const PLAIN_SERVICE: DockerContainer = {
  ...container("demo", {
    role: "gateway",
    image: "services",
    networkAlias: "gateway",
    lifecycle: "service",
    stopTimeoutSeconds: 30,
  }),
  labels: {},
};

/** Asks for all that there is. */
const FULL_SERVICE: DockerContainer = {
  ...PLAIN_SERVICE,
  name: "demo-llava",
  role: "triton",
  model: "llava",
  image: "trtllm",
  entrypoint: ["/usr/bin/tini", "--"],
  command: ["triton_entrypoint", "serve", "/etc/engine-room/server.json"],
  environment: { Z_LAST: "2", A_FIRST: "1" },
  files: { "/etc/engine-room/server.json": "{}\n", "/etc/engine-room/a.json": "[]\n" },
  mounts: [
    { source: { volume: "demo-store" }, path: "/store", readOnly: true },
    { source: { hostPath: "/data/weights" }, path: "/weights", readOnly: true },
  ],
  gpus: [0, 1],
  shmBytes: 2 * 1024 ** 3,
  ulimits: { stack: 67_108_864, memlock: -1 },
  networkAlias: "llava",
  ports: [
    { containerPort: 8002, hostPort: 8012, hostAddress: "127.0.0.1" },
    { containerPort: 8000, hostPort: 8010, hostAddress: "127.0.0.1" },
  ],
  health: {
    test: ["curl", "-f", "http://127.0.0.1:8000/v2/health/ready"],
    intervalSeconds: 10,
    timeoutSeconds: 5,
    retries: 3,
    startPeriodSeconds: 120,
  },
  user: "1000:1000",
  tmpfsBytes: { "/tmp": 67_108_864, "/model-repository": 1024 },
  memoryMiB: 4096,
  labels: { "engine-room.stack": "demo", "engine-room.model": "llava" },
};

const TASK: DockerContainer = {
  ...PLAIN_SERVICE,
  name: "demo-llava-0123456789ab",
  role: "engineBuild",
  model: "llava",
  image: "trtllm",
  command: ["engine_builder", "build", "/etc/engine-room/engine.json"],
  files: { "/etc/engine-room/engine.json": "{}\n" },
  secretFiles: { "/run/secrets/hub-token": "hubToken" },
  gpus: "all",
  networkAlias: "llava-0123456789ab",
  lifecycle: "task",
  timeoutSeconds: 3600,
};

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

test("a container's inputs have the provider's formats and orders", () => {
  expect(args(FULL_SERVICE)).toMatchObject({
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
    shmSize: 2048,
    // Without swap.
    memory: 4096,
    memorySwap: 4096,
    ulimits: [
      { name: "memlock", soft: -1, hard: -1 },
      { name: "stack", soft: 67_108_864, hard: 67_108_864 },
    ],
    ports: [
      { internal: 8000, external: 8010, ip: "127.0.0.1" },
      { internal: 8002, external: 8012, ip: "127.0.0.1" },
    ],
    healthcheck: { tests: ["CMD", "curl", "-f", "http://127.0.0.1:8000/v2/health/ready"] },
    labels: [
      { label: "engine-room.model", value: "llava" },
      { label: "engine-room.stack", value: "demo" },
    ],
  });
});

test("a container without options leaves Docker's defaults", () => {
  const given = Object.keys(args(PLAIN_SERVICE));
  for (const option of ["entrypoints", "command", "uploads", "deviceRequests", "gpus", "shmSize", "memory"])
    expect(given).not.toContain(option);
  for (const option of ["user", "healthcheck", "wait", "waitTimeout"]) expect(given).not.toContain(option);
});

test("a task is attached and its logs are kept", () => {
  const { mustRun, restart, attach, logs, wait, gpus, deviceRequests } = args(TASK);
  expect({ mustRun, restart, attach, logs, wait, gpus, deviceRequests }).toEqual({
    ...{ mustRun: false, restart: "no", attach: true, logs: true, wait: undefined },
    ...{ gpus: "all", deviceRequests: undefined },
  });
});

test("a secret file makes all uploads of a container secret", async () => {
  const { uploads } = args(TASK);
  expect(await pulumi.isSecret(pulumi.output(uploads))).toBe(true);
  expect(await plain(uploads)).toEqual([
    { file: "/etc/engine-room/engine.json", content: "{}\n", permissions: "0444" },
    { file: "/run/secrets/hub-token", content: "hf_hush", permissions: "0444" },
  ]);
  expect(await pulumi.isSecret(pulumi.output(args(FULL_SERVICE).uploads))).toBe(false);
});

test("a container's inputs do not depend on the order of keys", () => {
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
])("%d s are written as Go's duration %s", async (startPeriodSeconds, text) => {
  const health = { test: ["true"], intervalSeconds: 10, timeoutSeconds: 5, retries: 3, startPeriodSeconds };
  const { healthcheck, waitTimeout } = args({ ...PLAIN_SERVICE, health });
  expect(await plain(healthcheck)).toMatchObject({ startPeriod: text });
  expect(waitTimeout).toBe(Math.ceil(startPeriodSeconds) + 75);
});

test("shared memory is rounded up to MiB", () => {
  expect(args({ ...PLAIN_SERVICE, shmBytes: 1024 ** 2 + 1 }).shmSize).toBe(2);
});

test("files in a container with a read-only root are refused", () => {
  expect(() => args({ ...FULL_SERVICE, readOnlyRoot: true })).toThrow(
    "The container demo-llava has 2 files and a read-only root, into which Docker copies none.",
  );
  expect(args({ ...PLAIN_SERVICE, readOnlyRoot: true }).readOnly).toBe(true);
});

test("a secret file without a value is an error", () => {
  expect(() => containerArgs(TASK, { ...PLACEMENT, secrets: {} })).toThrow(
    "No value for the secret hubToken",
  );
});

const NAME = "demo-llava-0123456789ab";

const failure = (end: Partial<Parameters<typeof taskFailure>[0]>) =>
  taskFailure({ name: NAME, exitCode: 1, logs: "", secrets: [], ...end });

test("a task that exits with 0 has not failed", () => {
  expect(failure({ exitCode: 0, logs: "error: none\n" })).toBeUndefined();
});

test("a failed task's error has the exit code, the last lines and a command", () => {
  expect(failure({ exitCode: 3, logs: "step convert\nno space left\n" })).toBe(
    `The container ${NAME} ended with exit code 3. Its last lines:\n  step convert\n  no space left\n` +
      `\`docker logs ${NAME}\` on the host shows all of it; \`npm run up\` runs it again.`,
  );
});

test.each([
  [137, " (it was killed, most often because the memory was used up)."],
  [127, " (its command is not in the image)."],
  [2, "."],
])("exit code %d of a failed task is reported followed by %j", (exitCode, meaning) => {
  expect(failure({ exitCode })).toContain(`ended with exit code ${exitCode}${meaning}`);
});

test.each([null, undefined])("a task with the exit code %s has not ended in time", (exitCode) => {
  expect(failure({ exitCode, logs: null })).toContain(
    `The container ${NAME} did not end in the time it has.`,
  );
});

test("a failed task's error has no secrets of the log", () => {
  const text = failure({
    logs: "token hf_hush\nhttps://x/?t=hf_hush&u=hf_hush\n",
    secrets: ["", "hf_hush"],
  });
  expect(text).not.toContain("hf_hush");
  expect(text).toContain("https://x/?t=[secret]&u=[secret]");
});

test("a failed task's error has the last 20 lines, shortened, without empty ones and overwritten progress", () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  const text = failure({ logs: `${lines.join("\n")}\n\n10 %\r50 %\r100 %\r\n${"x".repeat(500)}\n` }) ?? "";
  const shown = text.split("\n").slice(1, -1);
  expect(shown).toHaveLength(20);
  expect(shown[0]).toBe("  line 12");
  expect(shown.at(-2)).toBe("  100 %");
  expect(shown.at(-1)).toBe(`  ${"x".repeat(400)}…`);
});
