/** `platform: docker`: one machine whose Docker engine runs everything, with GPUs or without. */
import { z } from "zod";
import { LOOPBACK } from "../plan/catalogue/published-ports.ts";
import {
  absolutePath,
  cpuImages,
  formattedText,
  gpuImages,
  ipv4Address,
  policies,
  publishedTritonPorts,
  secret,
} from "./common.ts";
import {
  diskGiB,
  engines,
  hostEncodersOrNone,
  hostModels,
  hourlyUsd,
  instanceType,
  machine,
  shared,
} from "./gpu-parts.ts";
import { cpuEncoders, cpuModel, MOST_MODELS } from "./local-stack.ts";
import { dockerDatabases, dockerGateway } from "./services.ts";

const dockerHost = z.strictObject({
  uri: formattedText(
    /^(unix:\/\/\/\S+|ssh:\/\/[^\s@-][^\s@]*@[^\s/]+)$/,
    "must be unix:///PATH or ssh://USER@HOST",
    "ssh://ubuntu@gpu.example.org",
  ).default("unix:///var/run/docker.sock"),
  /** Address of the host that the gateway binds to with `gateway.exposure: internal`; all else stays on loopback. */
  address: ipv4Address("must be an IPv4 address of the host", "10.0.0.5").default(LOOPBACK),
});

const host = dockerHost.extend({
  instanceType,
  machine: machine.optional(),
  /** Price of an hour of it; absent: it is owned. */
  hourlyUsd: hourlyUsd.optional(),
  diskGiB,
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

/** The same services in containers: for machines without NVIDIA GPU, and with other systems than Linux. */
export const dockerCpuStack = z.strictObject({
  platform: z.literal("docker"),
  tier: z.literal("cpu"),
  models: z
    .array(cpuModel.extend({ ports: publishedTritonPorts }))
    .min(1)
    .max(MOST_MODELS),
  encoders: cpuEncoders.extend({ ports: publishedTritonPorts }).prefault({}),
  ...dockerDatabases,
  gateway: dockerGateway,
  /** The machine whose Docker engine runs everything. */
  host: dockerHost.prefault({}),
  images: cpuImages,
  policies,
});
