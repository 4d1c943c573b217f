import { container } from "../../../infra/plan/docker/container.ts";
import type { DockerContainer } from "../../../infra/plan/docker/types.ts";

/** A container that asks for nothing but what it must. */
export const PLAIN_SERVICE: DockerContainer = {
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
export const FULL_SERVICE: DockerContainer = {
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

export const TASK: DockerContainer = {
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
