import { expect, test } from "vitest";
import { container } from "../../infra/plan/docker/container.ts";
import type { DockerContainer } from "../../infra/plan/docker/types.ts";
import { createBody } from "./docker/create-body.ts";
import { npmCommands, parseNpmCommand } from "./npm-commands.ts";

test("npm commands are found across lines, pipes, quotes and comments", () => {
  expect(
    npmCommands(
      'npm ci\nnpm run --silent ci -- drift --stack "$S" \\\n  --preview f | tee x\nnpm run test:unit\n' +
        '$ npm run ask -- "Born in France, Soyer; who?"   # to the first\nsay `npm run down -- --stack dev`, or not',
    ),
  ).toEqual([
    { script: "ci", args: ["drift", "--stack", "$S", "--preview", "f"] },
    { script: "test:unit", args: [] },
    { script: "ask", args: ["Born in France, Soyer; who?"] },
    { script: "down", args: ["--stack", "dev"] },
  ]);
});

test.each(["npm run nothing", "npm run outputs -- --jsn", "npm run ci -- dance", "npm run up -- now"])(
  "the wrong command `%s` is found",
  async (line) => {
    for (const command of npmCommands(line)) await expect(parseNpmCommand(command)).rejects.toThrow();
  },
);

const PLAIN: DockerContainer = {
  ...container("stack", {
    role: "triton",
    image: "trtllm",
    networkAlias: "llava",
    lifecycle: "service",
    stopTimeoutSeconds: 30,
  }),
  model: "llava",
  labels: { "engine-room.stack": "stack" },
};

function bodyOf(changes: Partial<DockerContainer>) {
  return createBody({ ...PLAIN, ...changes }, "image:tag", "stack-network");
}

test("a request to create a container leaves out the defaults of the image and of Docker", () => {
  expect(bodyOf({})).toEqual({
    Image: "image:tag",
    Env: [],
    Labels: { "engine-room.stack": "stack" },
    ExposedPorts: {},
    StopTimeout: 30,
    HostConfig: {
      NetworkMode: "stack-network",
      Mounts: [],
      PortBindings: {},
      IpcMode: "private",
      Ulimits: [],
      DeviceRequests: [],
      RestartPolicy: { Name: "unless-stopped" },
      ReadonlyRootfs: false,
      Tmpfs: {},
      LogConfig: { Type: "json-file", Config: { "max-file": "3", "max-size": "10m" } },
    },
    NetworkingConfig: { EndpointsConfig: { "stack-network": { Aliases: ["llava"] } } },
  });
});

test("a request to create a container has every option that a plan sets", () => {
  const body = bodyOf({
    entrypoint: ["engine_builder"],
    command: ["build", "/etc/engine-room/engine.json"],
    environment: { A: "1", B: "x=y" },
    mounts: [
      { source: { volume: "stack-store" }, path: "/store", readOnly: true },
      { source: { hostPath: "/srv/weights" }, path: "/weights", readOnly: false },
    ],
    gpus: [2, 3],
    ipc: "host",
    shmBytes: 2 ** 31,
    ulimits: { memlock: -1, stack: 67_108_864 },
    ports: [
      { containerPort: 8000, hostPort: 8010, hostAddress: "127.0.0.1" },
      { containerPort: 8000, hostPort: 8011, hostAddress: "10.0.0.5" },
    ],
    health: { test: ["true"], intervalSeconds: 10, timeoutSeconds: 5, retries: 3, startPeriodSeconds: 600 },
    lifecycle: "task",
    user: "1000",
    readOnlyRoot: true,
    tmpfsBytes: { "/tmp": 1_048_576 },
    memoryMiB: 512,
  });
  expect(body).toMatchObject({
    Entrypoint: ["engine_builder"],
    Cmd: ["build", "/etc/engine-room/engine.json"],
    Env: ["A=1", "B=x=y"],
    User: "1000",
    ExposedPorts: { "8000/tcp": {} },
    Healthcheck: {
      Test: ["CMD", "true"],
      Interval: 10_000_000_000,
      Timeout: 5_000_000_000,
      StartPeriod: 600_000_000_000,
      Retries: 3,
    },
    HostConfig: {
      Mounts: [
        { Type: "volume", Source: "stack-store", Target: "/store", ReadOnly: true },
        { Type: "bind", Source: "/srv/weights", Target: "/weights", ReadOnly: false },
      ],
      PortBindings: {
        "8000/tcp": [
          { HostIp: "127.0.0.1", HostPort: "8010" },
          { HostIp: "10.0.0.5", HostPort: "8011" },
        ],
      },
      IpcMode: "host",
      ShmSize: 2_147_483_648,
      Ulimits: [
        { Name: "memlock", Soft: -1, Hard: -1 },
        { Name: "stack", Soft: 67_108_864, Hard: 67_108_864 },
      ],
      DeviceRequests: [{ Driver: "nvidia", Capabilities: [["gpu"]], DeviceIDs: ["2", "3"] }],
      RestartPolicy: { Name: "no" },
      ReadonlyRootfs: true,
      Tmpfs: { "/tmp": "size=1048576,mode=1777" },
      Memory: 536_870_912,
      MemorySwap: 536_870_912,
    },
  });
});

test("a request for all GPUs has a count in place of device ids", () => {
  expect(bodyOf({ gpus: "all" })).toMatchObject({
    HostConfig: { DeviceRequests: [{ Driver: "nvidia", Capabilities: [["gpu"]], Count: -1 }] },
  });
});
