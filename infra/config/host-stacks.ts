/** Stacks of one machine: `platform: local`, and `platform: docker` with GPUs or without. */
import { z } from "zod";
import { LOOPBACK } from "../plan/catalogue/published-ports.ts";
import {
  absolutePath,
  cpuImages,
  dockerDatabases,
  dockerGateway,
  formattedText,
  gpuImages,
  ipv4Address,
  localDatabases,
  localGateway,
  policies,
  publishedTritonPorts,
  secret,
  section,
  tritonPorts,
} from "./common.ts";
import { cpuEncoders, hostEncodersOrNone } from "./encoders.ts";
import {
  cpuModels,
  diskGiB,
  dockerModels,
  engines,
  hourlyUsd,
  instanceType,
  machine,
  shared,
} from "./models.ts";

const dockerHost = z.strictObject({
  /** Address of the Docker engine; with `ssh://` it is on another machine. */
  uri: formattedText(
    /^(unix:\/\/\/\S+|ssh:\/\/[^\s@-][^\s@]*@[^\s/]+)$/,
    "unix:///PATH or ssh://USER@HOST",
    "ssh://ubuntu@gpu.example.org",
  ).default("unix:///var/run/docker.sock"),
  /** Address of the host that the gateway binds to with `gateway.exposure: internal`; all other services stay on loopback. */
  address: ipv4Address("an IPv4 address of the host", "10.0.0.5").default(LOOPBACK),
});

/** A first stack file is likely to lack it. */
const MISSING_HOST =
  "It is required.\nAdd it, such as `engine-room:host: { instanceType: g5.4xlarge, diskGiB: 250 }`; without `uri` it is this machine.";

export const dockerStack = z.strictObject({
  platform: z.literal("docker"),
  ...shared,
  models: dockerModels,
  encoders: hostEncodersOrNone,
  gateway: dockerGateway,
  ...dockerDatabases,
  // A machine with a single GPU cannot serve the model while a new engine is built.
  engines: engines("stopServer"),
  /** The machine whose Docker engine runs everything. */
  host: z.strictObject(
    {
      ...dockerHost.shape,
      instanceType,
      machine: machine.optional(),
      /** Price of the machine; absent: it is owned. */
      hourlyUsd: hourlyUsd.optional(),
      diskGiB,
    },
    { error: ({ input }) => (input === undefined ? MISSING_HOST : undefined) },
  ),
  images: gpuImages.prefault({}),
  engineStore: section({
    /** Folder of the host; absent: a volume of Docker's, which `down` leaves. */
    path: absolutePath("/data/engine-room").optional(),
    /** Read throughput of the engine store. */
    readMBPerSecond: z.int().min(1).max(100_000).default(1000),
  }),
  /** Token of the model hub, for gated models. */
  hub: section({
    token: secret.optional(),
    /** File on the host that holds the token. */
    tokenFile: absolutePath("/etc/engine-room/hub-token").optional(),
  }),
});

/** The same services in containers: for machines without NVIDIA GPU, and with other systems than Linux. */
export const dockerCpuStack = z.strictObject({
  platform: z.literal("docker"),
  tier: z.literal("cpu"),
  /** Language models: a name, a row of the catalogue, and limits each. */
  models: cpuModels({ ports: publishedTritonPorts }),
  encoders: cpuEncoders.extend({ ports: publishedTritonPorts }).prefault({}),
  ...dockerDatabases,
  gateway: dockerGateway,
  /** The machine whose Docker engine runs everything. */
  host: dockerHost.prefault({}),
  images: cpuImages.prefault({}),
  policies,
});

export const localStack = z.strictObject({
  platform: z.literal("local"),
  tier: z.literal("cpu").default("cpu"),
  /** Language models: a name, a row of the catalogue, and limits each. */
  models: cpuModels({ ports: tritonPorts }),
  encoders: cpuEncoders.extend({ ports: tritonPorts }).prefault({}),
  ...localDatabases,
  gateway: localGateway,
  /** Python of the services; absent: the newest that is installed. */
  pythonVersion: z.enum(["3.10", "3.11", "3.12"]).optional(),
  policies,
});
