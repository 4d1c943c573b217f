/** `platform: docker | kubernetes` with `tier: gpu`: engines on GPUs of a machine or a cluster that is there. */
import { z } from "zod";
import { absolutePath, secret } from "./common.ts";
import { dockerDatabases } from "./databases.ts";
import { dockerHost, gpuImages } from "./docker-host.ts";
import { dockerGateway } from "./gateway.ts";
import {
  clusterEncodersOrNone,
  engines,
  hostEncodersOrNone,
  hostModels,
  hourlyUsd,
  machine,
  pool,
  shared,
} from "./gpu-parts.ts";
import { clusterModels, gpuClusterParts, poolAccess } from "./kubernetes-cluster.ts";

const clusterPool = pool.extend({
  capacity: z.enum(["owned", "onDemand", "spot"]).default("owned"),
  ...poolAccess,
});
const clusterPools = z.array(clusterPool).max(32);

const host = dockerHost.extend({
  instanceType: z.string().min(1).max(30).optional(),
  machine: machine.optional(),
  /** Price of an hour of it; absent: it is owned. */
  hourlyUsd: hourlyUsd.optional(),
  diskGiB: z.int().min(20).max(65_536).default(200),
});

export const dockerStack = z.strictObject({
  platform: z.literal("docker"),
  ...shared,
  models: hostModels.min(1),
  encoders: hostEncodersOrNone,
  gateway: dockerGateway,
  ...dockerDatabases,
  // One machine often has one GPU: a new engine is built while the model is away, as by hand.
  engines: engines("stopServer"),
  /** The machine whose Docker engine runs everything. */
  host,
  images: gpuImages,
  engineStore: z
    .strictObject({
      /** Folder of the host; absent: a volume of Docker's, which `down` leaves. */
      path: absolutePath("/data/engine-room").optional(),
      readMBPerSecond: z.int().min(1).max(100_000).default(1000),
    })
    .prefault({}),
  /** Token of the model hub, for gated models. */
  hub: z
    .strictObject({
      token: secret.optional(),
      /** File on the host that holds the token. */
      tokenFile: absolutePath("/etc/engine-room/hub-token").optional(),
    })
    .prefault({}),
});

export const kubernetesStack = z.strictObject({
  platform: z.literal("kubernetes"),
  ...shared,
  models: clusterModels.min(1),
  encoders: clusterEncodersOrNone,
  /** Machines that are there; the cluster's own autoscaler may add more, up to `max`. */
  pools: clusterPools.min(1),
  ...gpuClusterParts,
});

/** A pool as a stack file has it; `docker` has one host instead. */
export type PoolConfig = Readonly<z.infer<typeof clusterPool>>;
export type HostConfig = Readonly<z.infer<typeof dockerStack>["host"]>;
