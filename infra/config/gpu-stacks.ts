/** `platform: docker | kubernetes | aws`: engines on GPUs. What the platforms share stands first. */
import { z } from "zod";
import { TEXT_ENCODER_NAMES, VISION_ENCODER_NAMES } from "../plan/catalogue/encoders.ts";
import { DEFAULT_RELEASE } from "../plan/catalogue/releases.ts";
import { IMAGE_LAYOUTS } from "../plan/catalogue/types.ts";
import { absolutePath, formattedText, publishedTritonPorts, resourceName, secret } from "./common.ts";
import { dockerDatabases } from "./databases.ts";
import { dockerHost, gpuImages } from "./docker-host.ts";
import { dockerGateway, remoteGateway } from "./gateway.ts";
import { customModel, gpuModel } from "./gpu-models.ts";
import { clusterModels, gpuClusterParts, minEncoderReplicas, poolAccess } from "./kubernetes-cluster.ts";
import { policies } from "./policies.ts";

/** A machine described by its parts, where it is no EC2 instance type. */
const machine = z.strictObject({
  /** Row of the GPU catalogue: `A10G`, `RTX 4090`. Absent: no GPU. */
  gpu: z.string().min(1).max(60).optional(),
  gpus: z.int().min(0).max(16).default(1),
  vcpus: z.int().min(1).max(1024),
  memoryGiB: z.int().min(1).max(16_384),
  localDiskGB: z.int().min(0).max(200_000).default(0),
  networkMbps: z.int().min(1).max(10_000_000).default(1000),
});

const sharing = z
  .discriminatedUnion("mode", [
    z.strictObject({ mode: z.literal("none") }),
    z.strictObject({ mode: z.literal("timeSlicing"), replicas: z.int().min(2).max(48) }),
    z.strictObject({ mode: z.literal("mps"), replicas: z.int().min(2).max(48) }),
    z.strictObject({ mode: z.literal("mig"), profile: z.string().min(1).max(20) }),
  ])
  .prefault({ mode: "none" });

const hourlyUsd = z.number().min(0).max(1000);

const pool = z.strictObject({
  name: resourceName,
  /** EC2 instance type, for what the machine holds and costs. */
  instanceType: z.string().min(1).max(30).optional(),
  machine: machine.optional(),
  nodes: z
    .strictObject({ min: z.int().min(0).max(1000).default(1), max: z.int().min(1).max(1000).default(1) })
    .prefault({}),
  /** Price of one machine, where the table has none or another one is paid; spot machines have no price without it. */
  hourlyUsd: hourlyUsd.optional(),
  /** Disk for images and scratch. */
  diskGiB: z.int().min(20).max(65_536).default(200),
  sharing,
});

const clusterPool = pool.extend({
  capacity: z.enum(["owned", "onDemand", "spot"]).default("owned"),
  ...poolAccess,
});
const awsPool = pool.extend({ capacity: z.enum(["onDemand", "spot"]).default("onDemand") });
const clusterPools = z.array(clusterPool).max(32);
const awsPools = z.array(awsPool).max(32);

const region = formattedText(/^[a-z]{2}(-[a-z]+)+-\d$/, "must be an AWS region", "us-east-1");

const encoders = z.strictObject({
  vision: z.enum(VISION_ENCODER_NAMES).default("clip-vit-base-patch32"),
  text: z.enum(TEXT_ENCODER_NAMES).default("all-MiniLM-L6-v2"),
  device: z.enum(["cpu", "gpu"]).default("cpu"),
  precision: z.enum(["fp32", "fp16", "int8"]).optional(),
  maxBatchSize: z.int().min(1).max(256).default(32),
  maxQueueDelayMicroseconds: z.int().min(0).max(1_000_000).default(0),
  /** Absent: on a CPU the cheapest pool with room, one without GPU where there is any; on a GPU the only pool with GPUs. */
  pool: resourceName.optional(),
  gpuIndices: z.array(z.int().min(0).max(15)).length(1).optional(),
  replicas: z.int().min(1).max(64).default(1),
});

/** `false`: the stack has no encoders. */
const clusterEncodersOrNone = z
  .union([z.literal(false), encoders.extend({ minReplicas: minEncoderReplicas })])
  .prefault({});
const encodersOrNone = z.union([z.literal(false), encoders]).prefault({});

const models = z.array(gpuModel).max(64);

/** Ports of a Docker host. */
const ports = { ports: publishedTritonPorts };
const dockerModels = z.array(gpuModel.extend(ports)).max(64);

const WHEN_FULL = ["fail", "stopServer"] as const;

function engines(whenFull: (typeof WHEN_FULL)[number]) {
  return z
    .strictObject({
      /** When an engine must be built and every GPU of its pool serves: end with a problem, or stop the server for it. */
      whenFull: z.enum(WHEN_FULL).default(whenFull),
    })
    .prefault({});
}

const shared = {
  tier: z.literal("gpu").default("gpu"),
  models: models.min(1),
  encoders: encodersOrNone,
  gateway: remoteGateway,
  /** Tag of NVIDIA's Triton image with TensorRT-LLM, which builds the engines and serves them. */
  release: formattedText(
    /^\d\d\.\d\d$/,
    "must be a release, two and two digits in quotes",
    `"${DEFAULT_RELEASE}"`,
  ).default(DEFAULT_RELEASE),
  /** For an image of one's own, which holds what `release` holds. */
  image: z
    .strictObject({
      base: z.string().min(1).max(300).optional(),
      layout: z.enum(IMAGE_LAYOUTS).default("ngc"),
    })
    .prefault({}),
  /** Allows releases whose facts were not all read in a source. */
  acceptUnverified: z.boolean().default(false),
  engines: engines("fail"),
  policies,
  /** Models that are not in the catalogue, by name. */
  catalogue: z
    .strictObject({
      models: z
        .record(
          formattedText(
            /^[a-z0-9][a-z0-9.-]{0,62}$/,
            "must be named with at most 63 lower-case letters, digits, points and hyphens",
            "vicuna-7b-v1.5",
          ),
          customModel,
        )
        .default({}),
    })
    .prefault({}),
};

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
  models: dockerModels.min(1),
  encoders: z.union([z.literal(false), encoders.extend(ports)]).prefault({}),
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

export const awsStack = z.strictObject({
  platform: z.literal("aws"),
  ...shared,
  region,
  compute: z.enum(["eks", "ec2"]).default("eks"),
  pools: awsPools.min(1),
  access: z
    .strictObject({
      /** Who may reach the cluster's API and, for a public gateway, its endpoint. */
      apiCidrs: z
        .array(formattedText(/^\d{1,3}(\.\d{1,3}){3}\/\d{1,2}$/, "must be a CIDR", "203.0.113.7/32"))
        .default([]),
    })
    .prefault({}),
  engineStore: z
    .strictObject({
      throughput: z.enum(["elastic", "provisioned"]).default("elastic"),
      /** What one reader gets. */
      readMBPerSecond: z.int().min(1).max(100_000).default(500),
      existing: formattedText(
        /^fs-[0-9a-f]{8,17}$/,
        "must be the id of an EFS file system",
        "fs-0123456789abcdef0",
      ).optional(),
    })
    .prefault({}),
  /** Token of the model hub, for gated models. */
  hub: z
    .strictObject({
      token: secret.optional(),
      /** A secret of Secrets Manager that holds the token. */
      tokenSecretArn: formattedText(
        /^arn:aws/,
        "must be the ARN of a secret",
        "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token",
      ).optional(),
    })
    .prefault({}),
});

/**
 * The same without what is required at the top: for what remains of a stack file after its mistakes were taken out, so that
 * it can be checked as far as it goes. The region is that of most price tables, and no finding that rests on it is shown.
 */
export const remainders = {
  docker: dockerStack.extend({ models: dockerModels.default([]), host: host.prefault({}) }),
  kubernetes: kubernetesStack.extend({ models: clusterModels.default([]), pools: clusterPools.default([]) }),
  aws: awsStack.extend({
    models: models.default([]),
    pools: awsPools.default([]),
    region: region.default("us-east-1"),
  }),
};

/** A pool as a stack file has it; `docker` has one host instead. */
export type PoolConfig = Readonly<z.infer<typeof clusterPool> | z.infer<typeof awsPool>>;
export type HostConfig = Readonly<z.infer<typeof dockerStack>["host"]>;
export type MachineConfig = Readonly<z.infer<typeof machine>>;
