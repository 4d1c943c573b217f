/** `tier: cpu`: real Tritons on a CPU, of this machine (`platform: local`), of a Docker host, or of a cluster. */
import { z } from "zod";
import { MODEL_NAMES, VISION_WEIGHTS } from "../plan/catalogue/cpu-models.ts";
import { publishedTritonPorts, resourceName, tritonPorts } from "./common.ts";
import { dockerDatabases, localDatabases } from "./databases.ts";
import { cpuImages, dockerHost } from "./docker-host.ts";
import { dockerGateway, localGateway } from "./gateway.ts";
import { cpuClusterParts, minEncoderReplicas, minReplicas } from "./kubernetes-cluster.ts";
import { policies } from "./policies.ts";

/** One language model: which, under what name, and how much of the machine it may take. */
const cpuModel = z.strictObject({
  name: resourceName,
  model: z.enum(MODEL_NAMES),
  /** Requests generated at the same time (slots of continuous batching); each has its own context. */
  parallelRequests: z.int().min(1).max(32).default(4),
  /** Prompt and answer together, per request, in tokens. */
  contextTokens: z.int().min(256).max(131_072).default(2048),
  /** Most tokens that one request may ask for; absent: half of the context. */
  maxTokens: z.int().min(1).max(131_071).optional(),
  /** CPU threads; 0 takes all cores but one, which is left to the servers around it. */
  threads: z.int().min(0).max(256).default(0),
});

const cpuEncoders = z.strictObject({
  /** Most requests that Triton joins into one run of an encoder. */
  maxBatchSize: z.int().min(1).max(256).default(32),
  /** How long a request may wait for others to join its batch; 0 joins those that came during the last run. */
  maxQueueDelayMicroseconds: z.int().min(0).max(1_000_000).default(0),
  dynamicBatching: z.boolean().default(true),
  /** CPU threads of one encoder; 0 takes what the machine has. */
  threads: z.int().min(0).max(256).default(0),
  /** `auto`: CLIP from the model hub where it answers, else what a package carries, else seeded. */
  visionWeights: z.enum(VISION_WEIGHTS).default("auto"),
});

const MOST_MODELS = 16;

export const localStack = z.strictObject({
  platform: z.literal("local"),
  tier: z.literal("cpu").default("cpu"),
  models: z
    .array(cpuModel.extend({ ports: tritonPorts }))
    .min(1)
    .max(MOST_MODELS),
  encoders: cpuEncoders.extend({ ports: tritonPorts }).prefault({}),
  ...localDatabases,
  gateway: localGateway,
  /** Python of the services: `3.10` to `3.12`; absent takes the newest that is installed. */
  pythonVersion: z.enum(["3.10", "3.11", "3.12"]).optional(),
  policies,
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

/** The same services in any cluster: kind, minikube, or one whose GPUs are others'. */
export const kubernetesCpuStack = z.strictObject({
  platform: z.literal("kubernetes"),
  tier: z.literal("cpu"),
  models: z
    .array(cpuModel.extend({ replicas: z.int().min(1).max(64).default(1), minReplicas }))
    .min(1)
    .max(MOST_MODELS),
  encoders: cpuEncoders
    .extend({ replicas: z.int().min(1).max(64).default(1), minReplicas: minEncoderReplicas })
    .prefault({}),
  ...cpuClusterParts,
  policies,
});
