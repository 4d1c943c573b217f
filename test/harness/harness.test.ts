import { expect, test } from "vitest";
import { container } from "../../infra/plan/containers/container.ts";
import {
  type ContainerArgs,
  type DockerContainer,
  dockerContainer,
} from "../../infra/plan/docker/container-args.ts";
import { createBody } from "./docker/create-body.ts";
import { npmCommands, parseNpmCommand } from "./npm-commands.ts";

test("npm commands are found across lines, pipes, quotes and comments", () => {
  expect(
    npmCommands(
      'npm ci\nnpx engine-room ci drift --stack "$S" \\\n  --preview f | tee x\nnode scripts/cli.mjs render\n' +
        '$ npx engine-room ask "Born in France, Soyer; who?"   # to the first\nsay `npx engine-room down --stack dev`, or not',
    ),
  ).toEqual([
    { script: "ci", args: ["drift", "--stack", "$S", "--preview", "f"] },
    { script: "render", args: [] },
    { script: "ask", args: ["Born in France, Soyer; who?"] },
    { script: "down", args: ["--stack", "dev"] },
  ]);
});

test.each([
  "npx engine-room nothing",
  "npx engine-room outputs --jsn",
  "npx engine-room ci dance",
  "npx engine-room up now",
])("the wrong command `%s` is found", async (line) => {
  for (const command of npmCommands(line)) await expect(parseNpmCommand(command)).rejects.toThrow();
});

const PLAIN = dockerContainer(
  container({ role: "triton", image: "cpu-models", name: "llava", model: "llava", stopSeconds: 30 }),
  {
    ...{
      stack: "stack",
      gpus: null,
      publishedPorts: {},
      publishedAddress: "127.0.0.1",
      sources: {},
      hubTokenPath: null,
      after: [],
    },
    image: { kind: "locked", name: "cpu-models", reference: "image:tag" },
  },
);

function bodyOf(args: Partial<ContainerArgs>, gpus: DockerContainer["gpus"] = null) {
  return createBody({ ...PLAIN, gpus, args: { ...PLAIN.args, ...args } }, "image:tag", "stack-network");
}

test("a request to create a container leaves out the defaults of the image and of Docker", () => {
  expect(bodyOf({})).toEqual({
    Image: "image:tag",
    Env: [],
    Labels: { "engine-room.model": "llava", "engine-room.role": "triton", "engine-room.stack": "stack" },
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
  const args: Partial<ContainerArgs> = {
    entrypoints: ["engine_builder"],
    command: ["build", "/etc/engine-room/engine.json"],
    envs: ["A=1", "B=x=y"],
    mounts: [
      { type: "volume", source: "stack-store", target: "/store", readOnly: true },
      { type: "bind", source: "/srv/weights", target: "/weights", readOnly: false },
    ],
    ipcMode: "host",
    shmSize: 2048,
    ulimits: [
      { name: "memlock", soft: -1, hard: -1 },
      { name: "stack", soft: 67_108_864, hard: 67_108_864 },
    ],
    ports: [
      { internal: 8000, external: 8010, ip: "127.0.0.1" },
      { internal: 8000, external: 8011, ip: "10.0.0.5" },
    ],
    healthcheck: { tests: ["CMD", "true"], interval: "10s", timeout: "5s", retries: 3, startPeriod: "10m0s" },
    restart: "no",
    user: "1000",
    readOnly: true,
    tmpfs: { "/tmp": "size=1048576,mode=1777" },
  };
  const body = bodyOf(args, [2, 3]);
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
    },
  });
});

test("a request for all GPUs has a count in place of device ids", () => {
  expect(bodyOf({}, "all")).toMatchObject({
    HostConfig: { DeviceRequests: [{ Driver: "nvidia", Capabilities: [["gpu"]], Count: -1 }] },
  });
});
