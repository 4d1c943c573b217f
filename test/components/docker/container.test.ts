import { expect, test } from "vitest";
import { StackContainer, taskFailure } from "../../../components/docker/container.ts";
import { type Container, container } from "../../../infra/plan/containers/container.ts";
import { type DockerContainer, dockerContainer } from "../../../infra/plan/docker/container-args.ts";
import { SECRET_SIGNATURE, SIGNATURE_KEY } from "../../../scripts/program/serialized.ts";
import { byName, registeredBy } from "../aws/registered.ts";

const PLACEMENT = {
  ...{ stack: "demo", gpus: null, hubTokenPath: null, after: [] },
  image: { kind: "locked" as const, name: "trtllm" as const, reference: "trtllm@sha256:1" },
  ...{ publishedPorts: {}, publishedAddress: "127.0.0.1" },
  sources: { store: "demo-store" },
};

function planned(
  options: Partial<Container> = {},
  placement: Partial<Parameters<typeof dockerContainer>[1]> = {},
): DockerContainer {
  return dockerContainer(
    container({ role: "gateway", image: "services", name: "gateway", stopSeconds: 30, ...options }),
    { ...PLACEMENT, ...placement },
  );
}

const SERVER: Partial<Container> = {
  ...{ role: "triton", model: "llava", image: "trtllm", name: "llava" },
  arguments: ["triton_entrypoint", "serve", "/etc/engine-room/server.json"],
  environment: { Z_LAST: "2", A_FIRST: "1" },
  files: { "/etc/engine-room/server.json": "{}\n", "/etc/engine-room/a.json": "[]\n" },
  mounts: [
    { purpose: "store", path: "/store", readOnly: true },
    { purpose: "weights", path: "/data/weights", readOnly: true },
    { purpose: "repository", path: "/model-repository", readOnly: false },
  ],
  ports: { metrics: 8002, http: 8000, grpc: 8001 },
  readiness: { kind: "exec", command: ["curl", "-f", "http://127.0.0.1:8000/v2/health/ready"] },
  startSeconds: 120,
  sharedMemoryBytes: 2 * 1024 ** 3,
};

const PUBLISHED = {
  metrics: 8012,
  http: 8010,
};

const BUILD: Partial<Container> = {
  ...{ role: "engineBuild", model: "llava", image: "trtllm", name: "llava-0123456789ab" },
  files: { "/etc/engine-room/engine.json": "{}\n" },
  secretFiles: { "/run/secrets/hub-token": "hubToken" },
  timeoutSeconds: 3600,
};

test("a container's inputs have the provider's formats and orders", () => {
  const { args } = planned(SERVER, { gpus: [0, 1], publishedPorts: PUBLISHED });
  expect(args).toMatchObject({
    name: "demo-llava",
    envs: ["A_FIRST=1", "Z_LAST=2"],
    uploads: [
      { file: "/etc/engine-room/a.json", content: "[]\n", permissions: "0444" },
      { file: "/etc/engine-room/server.json", content: "{}\n", permissions: "0444" },
    ],
    // The repository is in the container's own layer.
    mounts: [
      { type: "volume", source: "demo-store", target: "/store", readOnly: true },
      { type: "bind", source: "/data/weights", target: "/data/weights", readOnly: true },
    ],
    deviceRequests: [{ driver: "nvidia", deviceIds: ["0", "1"], capabilities: ["gpu"] }],
    shmSize: 2048,
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
      { label: "engine-room.role", value: "triton" },
      { label: "engine-room.stack", value: "demo" },
    ],
  });
});

test("a container without options leaves Docker's defaults", () => {
  const given = Object.keys(planned().args);
  for (const option of ["entrypoints", "command", "uploads", "deviceRequests", "gpus", "shmSize"])
    expect(given).not.toContain(option);
  for (const option of ["user", "healthcheck", "wait", "waitTimeout"]) expect(given).not.toContain(option);
});

test("a task is attached and its logs are kept", () => {
  const { args } = planned(BUILD, { gpus: "all" });
  const { mustRun, restart, attach, logs, wait, gpus, deviceRequests } = args;
  expect({ mustRun, restart, attach, logs, wait, gpus, deviceRequests }).toEqual({
    ...{ mustRun: false, restart: "no", attach: true, logs: true, wait: undefined },
    ...{ gpus: "all", deviceRequests: undefined },
  });
});

test("all uploads of a container with a secret file are secret", async () => {
  const registrations = await registeredBy(() => {
    const args = { image: "sha256:1", network: "demo", volumes: {}, after: [] };
    new StackContainer("build", { ...args, planned: planned(BUILD), secrets: { hubToken: "hf_hush" } });
    new StackContainer("llava", { ...args, planned: planned(SERVER), secrets: {} });
  });
  const uploadsOf = (name: string) => byName(registrations, `${name}-container`).inputs.uploads;
  expect(uploadsOf("build")).toEqual({
    [SIGNATURE_KEY]: SECRET_SIGNATURE,
    value: [
      { file: "/etc/engine-room/engine.json", content: "{}\n", permissions: "0444" },
      { file: "/run/secrets/hub-token", content: "hf_hush", permissions: "0444" },
    ],
  });
  expect(uploadsOf("llava")).toHaveLength(2);
});

test("a container's inputs do not depend on the order of keys", () => {
  const reversed = <T>(record: Readonly<Record<string, T>> = {}) =>
    Object.fromEntries(Object.entries(record).toReversed());
  const { environment, files, ports } = SERVER;
  const other = {
    ...SERVER,
    ...{ environment: reversed(environment), files: reversed(files), ports: reversed(ports) },
  };
  const args = (options: Partial<Container>) =>
    JSON.stringify(planned(options, { publishedPorts: PUBLISHED }).args);
  expect(args(other)).toBe(args(SERVER));
});

test.each([
  [5, "5s"],
  [59.2, "1m0s"],
  [120, "2m0s"],
  [3630, "1h0m30s"],
  [7200, "2h0m0s"],
])("%d s are written as Go's duration %s", (startSeconds, text) => {
  const { healthcheck, waitTimeout } = planned({ ...SERVER, startSeconds }).args;
  expect(healthcheck).toMatchObject({ startPeriod: text });
  expect(waitTimeout).toBe(Math.ceil(startSeconds) + 75);
});

test("a check by HTTP is a program of the image", () => {
  const readiness = { kind: "http", path: "/healthz", port: 8080 } as const;
  const tests = (options: Partial<Container>) =>
    planned({ ...options, readiness, startSeconds: 30 }).args.healthcheck?.tests;
  expect(tests({})?.slice(0, 2)).toEqual(["CMD", "node"]);
  expect(tests(SERVER)?.slice(0, 2)).toEqual(["CMD", "python3"]);
});

test("shared memory is rounded up to MiB", () => {
  expect(planned({ sharedMemoryBytes: 1024 ** 2 + 1 }).args.shmSize).toBe(2);
});

test("files in a container with a read-only root are refused", () => {
  expect(() => planned({ ...SERVER, readOnlyRoot: true })).toThrow(
    "The container demo-llava has files and a read-only root, into which Docker copies none.",
  );
  expect(planned({ readOnlyRoot: true }).args.readOnly).toBe(true);
});

test("a secret file without a value is an error", async () => {
  const made = registeredBy(() => {
    const args = { image: "sha256:1", network: "demo", volumes: {}, after: [], secrets: {} };
    new StackContainer("build", { ...args, planned: planned(BUILD) });
  });
  await expect(made).rejects.toThrow("No value for the secret hubToken");
});

const NAME = "demo-llava-0123456789ab";

const failure = (end: Partial<Parameters<typeof taskFailure>[0]>) =>
  taskFailure({ name: NAME, resource: "llava-container", exitCode: 1, logs: "", secrets: [], ...end });

test("a task that exits with 0 has not failed", () => {
  expect(failure({ exitCode: 0, logs: "error: none\n" })).toBeUndefined();
});

test("a failed task's error has the exit code, the last lines and a command", () => {
  expect(failure({ exitCode: 3, logs: "step convert\nno space left\n" })).toBe(
    `The container ${NAME} ended with exit code 3. Its last lines:\n  step convert\n  no space left\n` +
      `\`docker logs ${NAME}\` on the host shows all of it; \`npx engine-room up\` runs it again, as \`pulumi up --replace '**::llava-container'\` does.`,
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

test("a failed task's error has the last 20 lines, shortened, without empty lines and overwritten progress", () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  const text = failure({ logs: `${lines.join("\n")}\n\n10 %\r50 %\r100 %\r\n${"x".repeat(500)}\n` }) ?? "";
  const shown = text.split("\n").slice(1, -1);
  expect(shown).toHaveLength(20);
  expect(shown[0]).toBe("  line 12");
  expect(shown.at(-2)).toBe("  100 %");
  expect(shown.at(-1)).toBe(`  ${"x".repeat(400)}…`);
});
