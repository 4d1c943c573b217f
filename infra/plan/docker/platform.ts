/** `platform: docker` on GPUs. */
import type { GpuStackConfig } from "../../config/config.ts";
import { databaseChecks, externalDatabaseChecks, hubChecks } from "../checks/access.ts";
import { dockerChecks, hostChecks } from "../checks/docker.ts";
import { driverChecks } from "../checks/release.ts";
import { type GpuPlatform, NOT_RENTED } from "../gpu-platform.ts";
import { dockerGpuHost } from "./host.ts";

/** The only pool: the host. */
const HOST_POOL = "host";

export const dockerPlatform: GpuPlatform<Extract<GpuStackConfig, { platform: "docker" }>> = {
  runsOn: "host",
  isRented: false,
  hasPools: false,
  pools: ({ host: { instanceType, machine, hourlyUsd, diskGiB } }) => [
    {
      name: HOST_POOL,
      instanceType,
      machine,
      sharing: { mode: "none" },
      nodes: { min: 1, max: 1 },
      capacity: "owned",
      hourlyUsd,
      diskGiB,
      path: "host",
    },
  ],
  store: ({ engineStore: { path, readMBPerSecond } }) => ({
    kind: path === undefined ? "volume" : "folder",
    readMBPerSecond,
    sizeGiB: null,
    provisionedMiBps: null,
  }),
  gateways: () => 1,
  region: () => null,
  rented: () => NOT_RENTED,
  checks: {
    ...dockerChecks,
    ...databaseChecks,
    ...externalDatabaseChecks("mongo.uri and vector.url"),
    ...driverChecks,
    ...hostChecks,
    ...hubChecks(() => "hub.tokenFile"),
  },
  plan: (config, parts) => ({ ...parts, platform: "docker", host: dockerGpuHost(config) }),
};
