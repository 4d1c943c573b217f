/** Schemas of models, encoders and machines, for all platforms. */
import { z } from "zod";
import { MODEL_NAMES } from "../plan/catalogue/cpu-models.ts";
import { LANGUAGE_MODELS } from "../plan/catalogue/language-models.ts";
import { DEFAULT_RELEASE } from "../plan/catalogue/releases.ts";
import {
  DTYPES,
  FLAVOURS,
  GOLDEN_PICTURE_NAMES,
  IMAGE_LAYOUTS,
  IMAGE_PROCESSORS,
  QUANTIZATIONS,
  RECIPES,
  RUNTIMES,
} from "../plan/catalogue/types.ts";
import { VISION_TYPES } from "../plan/catalogue/vision-types.ts";
import {
  absolutePath,
  catalogueName,
  formattedText,
  formMessage,
  policies,
  publishedTritonPorts,
  replicas,
  resourceName,
  revision,
  section,
} from "./common.ts";
import { ownEncoders } from "./encoders.ts";
import { engine, limits, tokens, triton } from "./model-settings.ts";

/**
 * A list that has an entry at least: of one that is absent or empty the example says how an entry is written.
 *
 * @param most - Number of entries.
 */
function entries<Entry extends z.ZodType>(entry: Entry, most: number, example: string) {
  const fix = `Add an entry, such as ${example}.`;
  const missing = ({ input }: { readonly input?: unknown }) =>
    input === undefined ? `It is required.\n${fix}` : undefined;
  return z
    .array(entry, { error: missing })
    .min(1, { error: `The list is empty.\n${fix}` })
    .max(most);
}

/** Models of stacks on GPUs, and on CPUs. */
const GPU_MODELS = `\`- { name: gpt, model: gpt2-medium }\`; the models are ${LANGUAGE_MODELS.join(", ")}, and those under \`catalogue.models\``;
const CPU_MODELS = `\`- { name: smollm2, model: ${MODEL_NAMES[0]} }\`; the models are ${MODEL_NAMES.join(", ")}`;

const POOLS = "`- { name: gpu, instanceType: g5.xlarge }`";

const hubWeights = z.strictObject({
  /** Kind of source: the Hugging Face hub, ModelScope, or a folder of the machine. */
  from: z.literal("hub"),
  /** Repository of the source; absent: that of the catalogue. */
  repository: z.string().min(1).max(200).optional(),
  /** Commit on the Hugging Face hub; absent: that of the catalogue. */
  revision: revision.optional(),
});

const hubWeightsBesideBuckets = hubWeights.extend({
  /** Kind of source: the Hugging Face hub, ModelScope, a bucket of S3, or a folder of the machine. */
  from: z.literal("hub"),
});

const modelScopeWeights = z.strictObject({
  from: z.literal("modelscope"),
  /** Repository of the source; absent: that of the catalogue. */
  repository: z.string().min(1).max(200).optional(),
  /** Branch, tag or commit on ModelScope. */
  revision: z.string().min(1).max(100).default("master"),
});

const folderWeights = z.strictObject({
  from: z.literal("folder"),
  /** Folder of the machine that holds the weights. */
  path: absolutePath("/data/llama-2-7b"),
  /** Your label for the content of the folder; engines are rebuilt when it changes. */
  revision: z.string().min(1).max(100),
});

const s3Weights = z.strictObject({
  from: z.literal("s3"),
  /** Bucket and prefix that hold the weights. */
  uri: formattedText(
    /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w.=+@-]+)+\/?$/,
    "s3://BUCKET/PREFIX, with letters, digits and _ . = + @ - in the prefix",
    "s3://models/llama-2-7b",
  ),
  /** Your label for the content of the prefix; engines are rebuilt when it changes. */
  revision: z.string().min(1).max(100),
});

/** Where weights come from, instead of the catalogue's own source. Credentials are set once, under `hub`. */
const weights = z
  .discriminatedUnion("from", [hubWeights, modelScopeWeights, folderWeights], {
    error: ({ input }) =>
      (input as { readonly from?: unknown } | undefined)?.from === "s3"
        ? "Builds of this platform have no role of AWS that could read a bucket: those of `compute: eks` have.\nCopy the files into the engine store, and write `from: folder` with their path."
        : undefined,
  })
  .optional();

// On platforms whose builds have a role of AWS.
/** Where weights come from, instead of the catalogue's own source. Credentials are set once, under `hub`. */
export const bucketWeights = z
  .discriminatedUnion("from", [hubWeightsBesideBuckets, modelScopeWeights, s3Weights, folderWeights])
  .optional();

/** A question whose answer shows that a model works. */
const golden = z.strictObject({
  /** Text of the question. */
  prompt: z.string().min(1),
  /** Bundled picture that it is about; absent: that of the row for a model with images. */
  image: z.enum(GOLDEN_PICTURE_NAMES).optional(),
  /** Longest answer. */
  maxTokens: z.int().min(1).max(512).default(30),
  /** The answer holds one of these, upper and lower case alike. */
  answerContains: z.array(z.string().min(1)).min(1),
});

/**
 * Question of your own that the build, `smoke` and `verify` ask in place of the catalogue's; another question does not rebuild engines.
 * Up to 24.07 (TensorRT-LLM 0.11) the build asks a model with images about a picture of its own, which run.py loads.
 */
const ownGolden = golden.optional();

export const gpuModel = z.strictObject({
  /** Name in the stack: endpoints, metrics and Kubernetes objects carry it. */
  name: resourceName("llama-2-7b"),
  /** Row of the catalogue, or of `catalogue.models` of this file. */
  model: z.string().min(1).max(100),
  runtime: z.enum(RUNTIMES).default("engine"),
  /** Kind of model repository; absent: the first flavour in the model's row of the catalogue that this release supports. */
  flavour: z.enum(FLAVOURS).optional(),
  dtype: z.enum(DTYPES).optional(),
  quantization: z.enum(QUANTIZATIONS).default("none"),
  /** GPUs that share each layer. */
  tensorParallel: z.int().min(1).max(16).default(1),
  /** Groups of layers, each on GPUs of its own. */
  pipelineParallel: z.int().min(1).max(16).default(1),
  limits: limits.partial().prefault({}),
  engine,
  weights,
  triton,
  /** Requests that must be answered at the same time, each at full length: KV cache is planned for them. Absent: the batch. */
  concurrentRequests: z.int().min(1).max(2048).optional(),
  replicas,
  /** Pool that serves it; absent: the only pool with GPUs. */
  pool: resourceName("gpu").optional(),
  /** Pool that builds its engine; absent: the pool that serves. */
  buildPool: resourceName("builds").optional(),
  /** GPU numbers of the host (`docker`). */
  gpuIndices: z.array(z.int().min(0).max(15)).min(1).max(16).optional(),
  golden: ownGolden,
  /** A reason here accepts the verdict "does not fit". */
  memoryFit: z
    .strictObject({
      /** Why the model is served although the plan says that it does not fit. */
      accept: z.string().min(10).max(200),
    })
    .optional(),
});

const count = z.int().min(1);
const channels = z.tuple([z.number(), z.number(), z.number()]);

/** A row that a stack adds to the catalogue: `LanguageModel` of infra/plan/catalogue/types.ts says what its keys mean. */
const customModel = z.strictObject({
  title: z.string().min(1).max(100),
  source: z.strictObject({
    repository: z.string().min(1).max(200),
    revision: revision.nullable().default(null),
    gated: z.boolean().default(false),
    license: z.string().min(1).max(100),
    modelScope: z.string().min(1).max(200).optional(),
    include: z.array(z.string().min(1)).min(1).default(["*.safetensors", "*.json", "tokenizer*"]),
    exclude: z.array(z.string().min(1)).optional(),
    downloadGB: z.number().positive(),
    storedDtype: z.enum(["float32", "float16", "bfloat16"]).default("float16"),
  }),
  recipe: z.enum(RECIPES),
  converterModelType: z.string().min(1).max(40).optional(),
  architecture: z.strictObject({
    parameters: count,
    embeddingParameters: count,
    layers: count,
    kvLayers: count.optional(),
    heads: count,
    kvHeads: count,
    headDimension: count,
    hiddenSize: count,
    vocabularySize: count,
    experts: z.strictObject({ perToken: count, width: count }).optional(),
  }),
  vision: z
    .strictObject({
      modelType: z.enum(VISION_TYPES),
      parameters: count,
      attention: z.enum(["prompt", "cross"]),
      tokensPerImage: count,
      tokensPerRequest: count.optional(),
      runsPerImage: count.default(1),
      maxImagesPerRequest: count.default(1),
      video: z.strictObject({ defaultFrames: count.default(8), tokensPerFrame: count }).optional(),
      imageProcessor: z
        .strictObject({
          class: z.enum(IMAGE_PROCESSORS),
          edge: count,
          mean: channels,
          std: channels,
          file: z.string().min(1).default("preprocessor_config.json"),
        })
        .optional(),
      needsHubFolder: z.boolean().default(false),
      requirements: z.string().min(1).optional(),
      codeRepository: z
        .strictObject({
          url: z.url(formMessage("a URL", "https://github.com/NVlabs/VILA.git")),
          commit: revision.nullable(),
        })
        .optional(),
    })
    .optional(),
  dtype: z.enum(DTYPES).default("float16"),
  quantizations: z.array(z.enum(QUANTIZATIONS)).min(1).default(["none"]),
  pipelineParallel: z.boolean().default(false),
  trainedContextTokens: tokens,
  limits: limits.extend({
    maxBeamWidth: limits.shape.maxBeamWidth.default(1),
    maxImagesPerRequest: limits.shape.maxImagesPerRequest.default(0),
  }),
  flavours: z.array(z.enum(FLAVOURS)).min(1).default(["inflight_batcher_llm"]),
  runtimes: z.array(z.enum(RUNTIMES)).min(1).default(["engine"]),
  tokenizer: z.strictObject({
    endId: z.int().min(0),
    padId: z.int().min(0),
    addsBeginToken: z.boolean().default(true),
  }),
  chat: z
    .strictObject({ template: z.string().min(1), stopWords: z.array(z.string()).default([]) })
    .optional(),
  imagePrompt: z.string().min(1).optional(),
  golden,
  sources: z.array(z.string().min(1)).default(["the stack file"]),
});

/** A machine described by its parts, if it is not an EC2 instance type. */
export const machine = z.strictObject({
  /** Row of the GPU catalogue: `A10G`, `RTX 4090`. Absent: no GPU. */
  gpu: z.string().min(1).max(60).optional(),
  /** GPUs of the machine. */
  gpus: z.int().min(0).max(16).default(1),
  /** Virtual CPUs, as the system counts them. */
  vcpus: z.int().min(1).max(1024),
  /** Memory of the machine. */
  memoryGiB: z.int().min(1).max(16_384),
  /** Disks of the machine itself, all together; 0: none. */
  localDiskGB: z.int().min(0).max(200_000).default(0),
  /** Network throughput. */
  networkMbps: z.int().min(1).max(10_000_000).default(1000),
});

/** How servers share a GPU: not at all, by time, by MPS, or by MIG partitions of fixed memory. */
const sharing = z
  .discriminatedUnion("mode", [
    z.strictObject({
      /** How servers share a GPU. */
      mode: z.literal("none"),
    }),
    z.strictObject({
      mode: z.enum(["timeSlicing", "mps"]),
      /** Servers that share a GPU. */
      replicas: z.int().min(2).max(48),
    }),
    z.strictObject({
      mode: z.literal("mig"),
      /** Profile of the partitions, such as `3g.20gb`. */
      profile: z.string().min(1).max(20),
    }),
  ])
  .prefault({ mode: "none" });

export const hourlyUsd = z.number().min(0).max(1000);

/** EC2 instance type, which gives the machine's size and price. */
export const instanceType = z.string().min(1).max(30).optional();

/** Disk for images and scratch. */
export const diskGiB = z.int().min(20).max(65_536).default(200);

/** Keeps the images of servers and builds on every machine of the pool: starts are faster by their download. */
export const prePullImages = z.boolean().default(false);

export const pool = z.strictObject({
  /** Name of the pool, which models and encoders give. */
  name: resourceName("gpu"),
  instanceType,
  machine: machine.optional(),
  nodes: section({
    /** Least number of machines; with 0 the pool starts empty. */
    min: z.int().min(0).max(1000).default(1),
    /** Most machines. */
    max: z.int().min(1).max(1000).default(1),
  }),
  /** Price of one machine, if the table has no price, or you pay another; spot machines have no price without it. */
  hourlyUsd: hourlyUsd.optional(),
  diskGiB,
  sharing,
});

/** @param ofPlatform - {@link pool} with the platform's keys. */
export const pools = <Pool extends z.ZodType>(ofPlatform: Pool) => entries(ofPlatform, 32, POOLS);

/** Models of a stack on GPUs. */
export const gpuModels = <Model extends z.ZodType>(model: Model) => entries(model, 64, GPU_MODELS);

const hostModel = gpuModel.extend({ ports: publishedTritonPorts });

/** Language and vision-language models that the stack serves. */
export const hostModels = gpuModels(hostModel);

/** Language and vision-language models that the stack serves. */
export const dockerModels = gpuModels(hostModel.extend({ weights: bucketWeights }));

export const engines = (whenFull: "fail" | "stopServer") =>
  section({
    /** When an engine must be built and every GPU of its pool serves: end with a problem, or stop the server for it. */
    whenFull: z.enum(["fail", "stopServer"]).default(whenFull),
  });

/** YAML reads `25.10` as the number 25.1, and the text that the Pulumi runtime makes of it is `25.1`. */
function cutRelease(value: unknown): string | undefined {
  const digits = /^\d\d(\.\d{1,2})?$/.exec(String(value))?.[0];
  if (digits === undefined) return undefined;
  return `A release is a text of two and two digits; YAML reads it as a number, and 25.10 as 25.1.
Write \`release: "${Number(digits).toFixed(2)}"\`, in quotes.`;
}

export const shared = {
  tier: z.literal("gpu").default("gpu"),
  /** Tag of NVIDIA's Triton image with TensorRT-LLM, which builds the engines and serves them. */
  release: formattedText(
    /^\d\d\.\d\d$/,
    "a release, two and two digits in quotes",
    `"${DEFAULT_RELEASE}"`,
    cutRelease,
  ).default(DEFAULT_RELEASE),
  /** Your own image in place of NVIDIA's; it has the programs of `release`. */
  image: section({
    /** The image by tag or digest; absent: NVIDIA's own of `release`. */
    base: z.string().min(1).max(300).optional(),
    layout: z.enum(IMAGE_LAYOUTS).default("ngc"),
  }),
  /** Accepts a release whose facts (versions, driver, flags) were not all read from NVIDIA's own documents or sources. */
  acceptUnverified: z.boolean().default(false),
  engines: engines("fail"),
  policies,
  /** Models that are not in the catalogue, by name. */
  catalogue: section({
    /** A row for each, as those of infra/plan/catalogue/. */
    models: z.record(catalogueName("vicuna-7b-v1.5"), customModel).default({}),
    encoders: ownEncoders,
  }),
};

export type MachineConfig = Readonly<z.infer<typeof machine>>;
const anyGpuModel = gpuModel.extend({ weights: bucketWeights });
export type GpuModelConfig = Readonly<z.infer<typeof anyGpuModel>>;

/** A language model: its name, its row of the catalogue, and its limits. */
const cpuModel = z.strictObject({
  /** Name in the stack: endpoints, metrics and Kubernetes objects carry it. */
  name: resourceName("llama-2-7b"),
  /** Model of the catalogue that runs on CPUs. */
  model: z.enum(MODEL_NAMES),
  /** Requests generated at the same time (slots of continuous batching); each has its own context. */
  parallelRequests: z.int().min(1).max(32).default(4),
  /** Prompt and answer together, per request, in tokens. */
  contextTokens: z.int().min(256).max(131_072).default(2048),
  /** Most tokens that one request may ask for; absent: half of the context. */
  maxTokens: z.int().min(1).max(131_071).optional(),
  /** CPU threads; 0 takes all cores but one, which is left to the other servers. */
  threads: z.int().min(0).max(256).default(0),
  /** Question of your own that `smoke` and `verify` ask in place of the catalogue's. */
  golden: golden.omit({ image: true }).optional(),
});

/** Models of a stack on CPUs. @param own - Keys that the platform adds to a model. */
export const cpuModels = <Own extends z.ZodRawShape>(own: Own) =>
  entries(cpuModel.extend(own), 16, CPU_MODELS);
