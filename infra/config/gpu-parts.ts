/** What stacks on GPUs have in common, whatever platform they are on. */
import { z } from "zod";
import { TEXT_ENCODER_NAMES, VISION_ENCODER_NAMES } from "../plan/catalogue/encoders.ts";
import { DEFAULT_RELEASE } from "../plan/catalogue/releases.ts";
import { IMAGE_LAYOUTS } from "../plan/catalogue/types.ts";
import { type Explanation, formattedText, publishedTritonPorts, resourceName } from "./common.ts";
import { customModel, gpuModel } from "./gpu-models.ts";
import { minEncoderReplicas } from "./kubernetes-cluster.ts";
import { policies } from "./policies.ts";

/** A machine described by its parts, where it is no EC2 instance type. */
export const machine = z.strictObject({
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

export const hourlyUsd = z.number().min(0).max(1000);

export const pool = z.strictObject({
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
export const clusterEncodersOrNone = z
  .union([z.literal(false), encoders.extend({ minReplicas: minEncoderReplicas })])
  .prefault({});

/** Ports of a Docker host. */
const ports = { ports: publishedTritonPorts };
export const hostEncodersOrNone = z.union([z.literal(false), encoders.extend(ports)]).prefault({});
export const hostModels = z.array(gpuModel.extend(ports)).max(64);

const WHEN_FULL = ["fail", "stopServer"] as const;

export function engines(whenFull: (typeof WHEN_FULL)[number]) {
  return z
    .strictObject({
      /** When an engine must be built and every GPU of its pool serves: end with a problem, or stop the server for it. */
      whenFull: z.enum(WHEN_FULL).default(whenFull),
    })
    .prefault({});
}

/** YAML reads `25.10` as the number 25.1, and the text that the Pulumi runtime makes of it is `25.1`. */
function cutRelease(value: unknown): readonly Explanation[] {
  const digits = /^\d\d(\.\d{1,2})?$/.exec(String(value))?.[0];
  if (digits === undefined) return [];
  return [
    {
      reason: "A release is a text of two and two digits; YAML reads it as a number, and 25.10 as 25.1.",
      fix: `Write \`release: "${Number(digits).toFixed(2)}"\`, in quotes.`,
    },
  ];
}

export const shared = {
  tier: z.literal("gpu").default("gpu"),
  /** Tag of NVIDIA's Triton image with TensorRT-LLM, which builds the engines and serves them. */
  release: formattedText(
    /^\d\d\.\d\d$/,
    "must be a release, two and two digits in quotes",
    `"${DEFAULT_RELEASE}"`,
    cutRelease,
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

export type MachineConfig = Readonly<z.infer<typeof machine>>;
