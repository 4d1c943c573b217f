/** Models and encoders of `tier: cpu`, and `platform: local`: real Tritons on a CPU of this machine. */
import { z } from "zod";
import { MODEL_NAMES, VISION_WEIGHTS } from "../plan/catalogue/cpu-models.ts";
import { batching, policies, resourceName, tritonPorts } from "./common.ts";
import { localDatabases, localGateway } from "./services.ts";

/** One language model: which, under what name, and how much of the machine it may take. */
export const cpuModel = z.strictObject({
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

export const cpuEncoders = z.strictObject({
  ...batching,
  dynamicBatching: z.boolean().default(true),
  /** CPU threads of one encoder; 0 takes what the machine has. */
  threads: z.int().min(0).max(256).default(0),
  /** `auto`: CLIP from the model hub where it answers, else what a package carries, else seeded. */
  visionWeights: z.enum(VISION_WEIGHTS).default("auto"),
});

export const MOST_MODELS = 16;

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
