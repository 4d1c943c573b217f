/** Stack files that each check refuses and accepts. */
import { DEFAULT_KUBERNETES_VERSION } from "../../../../infra/plan/catalogue/aws.ts";
import { EXISTING_CLUSTER_STACK } from "../../../harness/aws/stacks.ts";
import {
  awsValues,
  clusterModel,
  clusterValues,
  customModel,
  customVision,
  dockerCustom,
  dockerModel,
  dockerValues,
} from "./stacks.ts";

export type Values = Readonly<Record<string, unknown>>;

/** A stack file that a check refuses, and the nearest that it accepts. */
interface Vector {
  readonly path: string;
  readonly fails: Values;
  readonly passes: Values;
  /** Further text of the reason. */
  readonly says?: RegExp;
  readonly severity?: "warning" | "note";
  /** Whether the check has other findings in the accepted file. */
  readonly hasOthers?: boolean;
}

const withParameters = (parameters: Values, model: Values = {}, rest: Values = {}) =>
  dockerModel({ triton: { parameters }, ...model }, rest);
const withBuilderFlags = (builder: Values, rest: Values = {}) =>
  dockerModel({ engine: { extraFlags: { builder } } }, rest);
const ownSamples = { path: "/store/calibration/support", revision: "first" };
const withCalibration = (calibration: Values, model: Values = {}, rest: Values = {}) =>
  dockerModel({ quantization: "int8_sq", engine: { calibration }, ...model }, rest);
const ownSentences = {
  kind: "sentence",
  repository: "BAAI/bge-small-en-v1.5",
  revision: "5".repeat(40),
  ...{ hiddenSize: 384, layers: 12, maxTokens: 512, pooling: "cls" },
};
const withEncoderRow = (row: Values) => ({
  ...dockerValues,
  encoders: { text: "bge" },
  catalogue: { encoders: { bge: row } },
});
const withEncoderSamples = (encoders: Values) => ({
  ...dockerValues,
  encoders: {
    ...{ device: "gpu", precision: "int8" },
    ...{ calibration: { texts: "/store/calibration/texts.txt", revision: "1" }, ...encoders },
  },
});
const ownClip = {
  kind: "clip",
  repository: "openai/clip-vit-base-patch16",
  revision: "5".repeat(40),
  architecture: "ViT-B/16",
};
const largeClip = { vision: "clip-vit-large-patch14", device: "cpu" };
const largestText = { ...ownSentences, hiddenSize: 1024, layers: 24, vocabularySize: 220_000 };
/** A cluster whose encoders run with gateway and databases on machines without GPUs. */
export const encodersOnFront = (instanceType: string, most: number, rest: Values) => ({
  ...clusterValues,
  pools: [clusterValues.pools[0], { name: "cpu", instanceType, nodes: { min: 1, max: most } }],
  ...rest,
});
export const largeEncoders = {
  encoders: { text: "bge", device: "cpu" },
  catalogue: { encoders: { bge: largestText } },
};
const onEightGpus = (model: Values) => ({
  ...dockerModel({ model: "llama-2-7b", ...model }),
  host: { instanceType: "p4d.24xlarge", diskGiB: 400 },
});
/** 20 GB in 8 bits, 40 GB as they are stored. */
const largeRow = (model: Values) => ({
  ...dockerCustom(
    {
      source: { ...customModel.source, downloadGB: 40 },
      architecture: { ...customModel.architecture, parameters: 20_000_000_000 },
      quantizations: ["int4", "int4_awq"],
    },
    "large",
    model,
  ),
  host: { instanceType: "g5.8xlarge", diskGiB: 400 },
});
const twoTemplates = (...folders: readonly string[]) => ({
  ...dockerValues,
  models: folders.map((templates, index) => ({
    name: `gpt${index}`,
    model: "gpt2-medium",
    triton: { templates },
  })),
});
const golden = { prompt: "2 + 2 =", answerContains: ["4"] };
const schedule = { start: "0 8 * * *", end: "0 20 * * *", timeZone: "UTC" };
const publicGateway = {
  exposure: "public",
  apiKeys: [{ name: "alice", sha256: "0".repeat(64) }],
  hostname: "llm.example.org",
  tls: { secretName: "certificate" },
};
const withGateway = (gateway: Values) => ({ ...clusterValues, gateway: { ...publicGateway, ...gateway } });
const pool = (changes: Values, model: Values = {}) => clusterModel(model, changes);
const twoPools = (model: Values, build: Values, serve: Values = {}, rest: Values = {}) => ({
  ...clusterValues,
  models: [{ name: "gpt", model: "gpt2-medium", pool: "gpu", ...model }],
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge", ...serve },
    { name: "build", instanceType: "g5.4xlarge", ...build },
  ],
  ...rest,
});
/** For a pool: one machine that is described by its parts, and all of which is left to pods. */
const oneMachine = (machine: Values) => ({
  instanceType: undefined,
  machine: { gpu: "L4", ...machine },
  nodes: { min: 1, max: 1 },
});
/** One machine of AWS, with one model that differs. */
const onEc2 = (model: Values, rest: Values = {}) => ({
  ...awsValues,
  compute: "ec2",
  models: [{ ...awsValues.models[0], ...model }],
  pools: [machinePool],
  ...rest,
});
const inNetwork = (network: Values) => ({ ...awsValues, network });
const subnets = (...zones: readonly string[]) =>
  zones.map((zone, index) => ({ id: `subnet-0000000${index}`, zone }));
/** A stack in an existing network. */
const inExisting = (changes: Values) =>
  inNetwork({
    existing: {
      vpcId: "vpc-01234567",
      cidr: "10.80.0.0/16",
      privateSubnets: subnets("a", "b"),
      ...changes,
    },
  });
const withPoolZones = (values: Values, zones: readonly string[]) => ({
  ...values,
  pools: [{ ...awsValues.pools[0], zones }],
});
/** Adds a pool for encoders, gateway and databases. */
const withFront = (changes: Values) => ({
  ...awsValues,
  pools: [...awsValues.pools, { name: "front", instanceType: "m7i.2xlarge", ...changes }],
});
const certificateOf = (region: string, account = awsValues.account) =>
  `arn:aws:acm:${region}:${account}:certificate/12345678`;
const awsGateway = { ...publicGateway, tls: { certificateArn: certificateOf(awsValues.region) } };
const secretOf = (region: string, account = awsValues.account) =>
  `arn:aws:secretsmanager:${region}:${account}:secret:hub-token-AbCdEf`;
const existingStore = { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" };
const machinePool = { name: "gpu", instanceType: "g5.12xlarge" };
const ADMIN = "arn:aws:iam::111122223333:role/platform-team";
const openToAll = { apiCidrs: ["0.0.0.0/0"] };
const RESERVATION = "cr-01234567";
const aclOf = (region: string) => `arn:aws:wafv2:${region}:111122223333:regional/webacl/models/12345678`;
const keyOf = (region: string) => `arn:aws:kms:${region}:111122223333:key/12345678`;
const withAwsGateway = (gateway: Values) => ({ ...awsValues, gateway: { ...awsGateway, ...gateway } });
const withSpotBudget = (guard: Values) => ({
  ...awsValues,
  pools: [{ ...awsValues.pools[0], capacity: "spot" }],
  guard: { emails: ["ops@example.org"], ...guard },
});
const llava = { name: "llava", model: "llava-1.5-7b" };
const onL40S = { host: { instanceType: "g6e.4xlarge" } };

const [awsPool] = awsValues.pools;
const [awsModel] = awsValues.models;
const capped = (changes: Values) => ({ ...awsValues, policies: { hourlyUsdCap: 2.5 }, ...changes });
const blockPool = {
  instanceType: "p4d.24xlarge",
  capacity: "capacityBlock",
  capacityReservationId: "cr-01234567",
  zones: ["a"],
  nodes: { min: 0, max: 1 },
  hourlyUsd: 12,
};
const withPool = (changes: Values) => ({ ...awsValues, pools: [{ ...awsPool, ...changes }] });
const inGovCloud = { ...awsValues, region: "us-gov-west-1" };
const numbered = (tags: number) => Array.from({ length: tags }, (_, index) => [`tag-${index}`, "1"]);
const withAccess = (access: Values) => ({ ...awsValues, access });
const withCluster = (cluster: Values) => ({ ...awsValues, cluster });
const withCharts = (charts: Values) => withCluster({ charts });
const alertsTo = (region: string) => ({
  monitoringOptions: { snsTopicArn: `arn:aws:sns:${region}:${awsValues.account}:alerts` },
});

export const vectors: Readonly<Record<string, Vector>> = {
  // The release.
  releaseIsVerified: {
    path: "release",
    fails: { ...dockerValues, release: "25.08" },
    passes: { ...dockerValues, release: "25.08", acceptUnverified: true },
    says: /25\.08/,
  },
  runtimeOfRelease: {
    path: "models[0].runtime",
    fails: { ...dockerValues, release: "26.03", acceptUnverified: true },
    passes: { ...dockerValues, release: "26.02" },
    says: /26\.03 \(TensorRT-LLM 1\.2\.0\)/,
  },
  samplingOfLlmapi: {
    severity: "warning",
    path: "models[0].runtime",
    fails: dockerModel({ model: "llama-2-7b", runtime: "llmapi" }),
    passes: dockerModel({ model: "llama-2-7b", runtime: "llmapi" }, { release: "25.12" }),
    says: /LLM API of TensorRT-LLM 0\.20\.0 takes the most probable token/,
  },
  endOfLife: {
    severity: "note",
    path: "release",
    fails: dockerValues,
    passes: dockerModel({ model: "llama-2-7b", runtime: "llmapi" }, { release: "25.12" }),
  },
  advisories: {
    severity: "warning",
    path: "release",
    fails: dockerValues,
    passes: { ...dockerValues, release: "25.08" },
    says: /3 critical \(CVE-2025-23316/,
    // Later ones are still open there.
    hasOthers: true,
  },
  minimumDriver: {
    severity: "note",
    path: "release",
    fails: dockerValues,
    passes: awsValues,
    says: /575\.51\.03/,
  },
  imageOfRelease: {
    path: "image.base",
    fails: { ...dockerValues, image: { base: "registry.example.org/triton:25.05-own" } },
    passes: { ...dockerValues, image: { base: "registry.example.org/triton:25.07-own" } },
    says: /25\.05.*25\.07/,
  },
  layoutOfImage: {
    path: "image.layout",
    fails: { ...dockerValues, image: { layout: "tritonrelease" } },
    passes: {
      ...dockerValues,
      image: { layout: "tritonrelease", base: "registry.example.org/trtllm:25.07" },
    },
  },

  // Platforms.
  gpuIndicesAreForHosts: {
    path: "models[0].gpuIndices",
    fails: clusterModel({ gpuIndices: [0] }),
    passes: dockerModel({ gpuIndices: [0] }),
  },
  hostsHaveNoReplicas: {
    path: "models[0].replicas",
    fails: dockerModel({ replicas: 2 }),
    passes: clusterModel({ replicas: 2 }),
    says: /2 servers of one name/,
  },
  ec2IsOneMachine: {
    path: "pools[0].nodes.max",
    fails: { ...awsValues, compute: "ec2" },
    passes: { ...awsValues, compute: "ec2", pools: [{ name: "gpu", instanceType: "g5.12xlarge" }] },
    says: /2/,
  },
  regionIsPriced: {
    severity: "warning",
    path: "region",
    fails: { ...awsValues, region: "eu-central-1" },
    passes: { ...withPool({ hourlyUsd: 1 }), region: "eu-central-1", otherHourlyUsd: 0.4 },
    says: /cost sums lack its machines\. There are tables for us-east-1, us-gov-east-1, us-gov-west-1\./,
  },
  regionIsOfAws: {
    path: "region",
    fails: { ...awsValues, region: "us-esat-1" },
    passes: { ...awsValues, region: "eu-central-1" },
    says: /no region us-esat-1 \(list of 2026-11-10\)\./,
  },
  typeIsOffered: {
    path: "pools[0].instanceType",
    fails: { ...awsValues, pools: [{ name: "gpu", instanceType: "p5e.48xlarge" }] },
    passes: { ...awsValues, pools: [{ name: "gpu", instanceType: "p5en.48xlarge" }] },
    says: /us-east-1/,
  },

  // Rows of the stack's own.
  customNameIsFree: {
    path: "catalogue.models.gpt2-medium",
    fails: dockerCustom({}, "gpt2-medium"),
    passes: dockerCustom({}, "gpt2-medium-own"),
  },
  customEmbeddingsArePart: {
    path: "catalogue.models.own.architecture.embeddingParameters",
    fails: dockerCustom({ architecture: { ...customModel.architecture, embeddingParameters: 354_823_168 } }),
    passes: dockerCustom({ architecture: { ...customModel.architecture, embeddingParameters: 354_823_167 } }),
    says: /354823168/,
  },
  customHeadsDivide: {
    path: "catalogue.models.own.architecture.kvHeads",
    fails: dockerCustom({ architecture: { ...customModel.architecture, kvHeads: 5 } }),
    passes: dockerCustom({ architecture: { ...customModel.architecture, kvHeads: 4 } }),
    says: /16.*5/,
  },
  customKvLayersArePart: {
    path: "catalogue.models.own.architecture.kvLayers",
    fails: dockerCustom({ architecture: { ...customModel.architecture, kvLayers: 25 } }),
    passes: dockerCustom({ architecture: { ...customModel.architecture, kvLayers: 24 } }),
    says: /24/,
  },
  customFlavoursTakeInput: {
    path: "catalogue.models.own.flavours",
    fails: dockerCustom({ flavours: ["multimodal"] }),
    passes: dockerCustom({ flavours: ["multimodal"], vision: customVision }),
  },
  customGoldenShowsVision: {
    path: "catalogue.models.own.golden.image",
    fails: dockerCustom({ vision: customVision }),
    passes: dockerCustom({
      vision: customVision,
      golden: { prompt: "Hello", answerContains: ["world"], image: "coffee" },
    }),
  },

  // Names and ports.
  namesAreFree: {
    path: "models[0].name",
    fails: dockerModel({ name: "encoders" }),
    passes: dockerModel({ name: "encoder" }),
  },
  modelNamesDiffer: {
    path: "models[1].name",
    fails: { ...clusterValues, models: [clusterValues.models[0], clusterValues.models[0]] },
    passes: { ...clusterValues, models: [clusterValues.models[0], { name: "gpt-b", model: "gpt2-medium" }] },
    says: /models\[0\]\.name/,
  },
  poolNamesDiffer: {
    path: "pools[1].name",
    fails: { ...clusterValues, pools: [clusterValues.pools[0], clusterValues.pools[0]] },
    passes: { ...clusterValues, pools: [clusterValues.pools[0], { name: "b", instanceType: "m7i.large" }] },
    says: /pools\[0\]\.name/,
  },
  keyNamesDiffer: {
    path: "gateway.apiKeys[1].name",
    fails: withGateway({ apiKeys: [key("alice"), key("alice")] }),
    passes: withGateway({ apiKeys: [key("alice"), key("bob")] }),
  },
  modelNameFitsObjects: {
    path: "models[0].model",
    fails: dockerCustom({}, "m".repeat(51)),
    passes: dockerCustom({}, "m".repeat(50)),
    says: /64 characters.* 63/,
  },

  parametersAreKnown: {
    path: "models[0].triton.parameters.batch_scheduler_polcy",
    fails: withParameters({ batch_scheduler_polcy: "max_utilization" }),
    passes: withParameters({ batch_scheduler_policy: "max_utilization", logits_datatype: "TYPE_FP16" }),
    says: /flavour inflight_batcher_llm in 25\.07 have no placeholder/,
  },

  // Engines.
  tensorParallelDividesHeads: {
    path: "models[0].tensorParallel",
    fails: clusterModel({ tensorParallel: 3 }),
    passes: clusterModel({ tensorParallel: 4 }),
    says: /16 attention heads/,
  },
  flagsHaveProgram: {
    path: "models[0].engine.extraFlags.vision",
    fails: dockerModel({ engine: { extraFlags: { vision: { max_hw_dims: 1 } } } }),
    passes: dockerModel({ model: "llava-1.5-7b", engine: { extraFlags: { vision: { max_hw_dims: 1 } } } }),
    says: /gpt2-medium is a text model/,
  },
  flagsAreTheUsers: {
    path: "models[0].engine.extraFlags.builder.max_batch_size",
    fails: withBuilderFlags({ max_batch_size: 8 }),
    passes: withBuilderFlags({ opt_num_tokens: 8 }),
    says: /sets --max_batch_size by limits\.maxBatchSize/,
  },
  flagsAreOfRelease: {
    path: "models[0].engine.extraFlags.builder.use_fused_mpl",
    fails: withBuilderFlags({ use_fused_mpl: "enable" }),
    passes: withBuilderFlags({ use_fused_mlp: "enable" }),
    says: /0\.20\.0 was not read: neither that of 0\.16\.0 nor that of the branch main after it has --use_fused_mpl/,
    severity: "warning",
  },
  flagsChangeMemory: {
    path: "models[0].engine.extraFlags",
    fails: withBuilderFlags({ context_fmha: "disable", workers: 2 }),
    passes: withBuilderFlags({ workers: 2 }),
    says: /does not count --context_fmha, which/,
    severity: "note",
  },
  pipelineParallelWithinLayers: {
    path: "models[0].pipelineParallel",
    fails: dockerCustom(
      { architecture: { ...customModel.architecture, layers: 1 }, pipelineParallel: true },
      "own",
      {
        pipelineParallel: 2,
      },
    ),
    passes: dockerCustom(
      { architecture: { ...customModel.architecture, layers: 2 }, pipelineParallel: true },
      "own",
      {
        pipelineParallel: 2,
      },
    ),
    says: /1 layers.*2 stages/,
  },
  pipelineParallelIsKnown: {
    path: "models[0].pipelineParallel",
    fails: dockerCustom({ pipelineParallel: false }, "own", { pipelineParallel: 2 }),
    passes: dockerCustom({ pipelineParallel: true }, "own", { pipelineParallel: 2 }),
    says: /2 pipeline stages/,
  },
  sequenceWithinContext: {
    path: "models[0].limits.maxInputTokens",
    fails: dockerModel({ limits: { maxInputTokens: 925, maxOutputTokens: 100 } }),
    passes: dockerModel({ limits: { maxInputTokens: 924, maxOutputTokens: 100 } }),
    says: /1025.*1024/,
  },
  promptHoldsImages: {
    path: "models[0].limits.maxInputTokens",
    fails: dockerModel({ ...llava, limits: { maxInputTokens: 576 } }),
    passes: dockerModel({ ...llava, limits: { maxInputTokens: 577 } }),
    says: /576/,
  },
  imagesWithinModel: {
    path: "models[0].limits.maxImagesPerRequest",
    fails: dockerModel({ ...llava, limits: { maxImagesPerRequest: 2 } }),
    passes: dockerModel({ ...llava, limits: { maxImagesPerRequest: 1 } }),
    says: /at most 1.*2/,
  },
  imagesWithinPreprocessing: {
    path: "models[0].limits.maxImagesPerRequest",
    fails: severalImagesOf("mllama"),
    passes: severalImagesOf("llava"),
    says: /mllama, .* one image for each prompt, as the visual engine does, and maxImagesPerRequest is 2/,
  },
  tilesWithinRequest: {
    path: "models[0].limits.maxImagesPerRequest",
    fails: severalImagesOf("llava_onevision", { tokensPerRequest: 129, runsPerImage: 2 }),
    passes: severalImagesOf("llava_onevision", { tokensPerRequest: 130, runsPerImage: 2 }),
    says: /65 tokens of one run .* 129 tokens and 2 runs, and maxImagesPerRequest is 2/,
  },
  tokensPerStepHoldPrompt: {
    path: "models[0].limits.maxNumTokens",
    fails: dockerModel({ limits: { maxInputTokens: 512, maxNumTokens: 511 } }),
    passes: dockerModel({ limits: { maxInputTokens: 512, maxNumTokens: 512 } }),
    says: /512.*511/,
  },
  tokensPerStepHoldBatch: {
    path: "models[0].limits.maxNumTokens",
    fails: dockerModel({ limits: { maxInputTokens: 1, maxBatchSize: 4, maxBeamWidth: 2, maxNumTokens: 7 } }),
    passes: dockerModel({ limits: { maxInputTokens: 1, maxBatchSize: 4, maxBeamWidth: 2, maxNumTokens: 8 } }),
    says: /8 tokens in each step, and a step has 7/,
  },
  recipeOfRelease: {
    path: "models[0].model",
    fails: dockerModel({ model: "gpt2-medium" }, { release: "24.02" }),
    passes: dockerModel({ model: "gpt2-medium" }, { release: "24.04" }),
    says: /24\.02/,
  },

  weightsAreNamedVila: {
    path: "models[0].weights.path",
    fails: vilaFrom("/data/model"),
    passes: vilaFrom("/data/vila/model"),
    says: /lower case.* \/data\/model\./,
  },

  // GPUs.
  gpuIsSupported: {
    path: "host.instanceType",
    fails: { ...dockerValues, host: { instanceType: "g4dn.4xlarge" } },
    passes: { ...dockerValues, host: { instanceType: "g5.4xlarge" } },
    says: /T4 \(Turing, compute capability 7\.5\)/,
  },
  dtypeOfGpu: {
    path: "models[0].dtype",
    fails: dockerModel({ dtype: "bfloat16" }, { host: { instanceType: "g4dn.4xlarge" } }),
    passes: dockerModel({ dtype: "bfloat16" }, { host: { instanceType: "g5.4xlarge" } }),
    says: /7\.5.*8\.0/,
  },
  samplesAreUsed: {
    path: "models[0].engine.calibration",
    fails: withCalibration({ samples: 8 }, { quantization: "int8" }),
    passes: withCalibration({ samples: 8 }, { quantization: "int8_sq" }),
    says: /^Quantization int8 needs no samples\.$/,
  },
  awqGroupsDivide: {
    path: "models[0].tensorParallel",
    fails: onEightGpus({ quantization: "int4_awq", tensorParallel: 8 }),
    passes: onEightGpus({ quantization: "int4_awq", tensorParallel: 4 }),
    says: /8 GPUs would split them/,
  },
  gpusHoldCalibration: {
    path: "models[0].quantization",
    fails: largeRow({ quantization: "int4_awq" }),
    passes: largeRow({ quantization: "int4" }),
    says: /loads large as it is stored, 37\.3 GiB, and 1 × A10G of the build hold 21\.9/,
    severity: "warning",
  },
  quantizationOfGpu: {
    path: "models[0].quantization",
    fails: dockerModel({ model: "llama-2-7b", quantization: "fp8" }),
    passes: dockerModel({ model: "llama-2-7b", quantization: "fp8" }, onL40S),
    says: /8\.6.*8\.9.*9\.0/,
  },
  quantizationOfModel: {
    path: "models[0].quantization",
    fails: dockerModel({ quantization: "int4_awq" }, onL40S),
    passes: dockerModel({ model: "llama-2-7b", quantization: "fp8" }, onL40S),
  },
  dtypeOfModel: {
    path: "models[0].dtype",
    fails: dockerModel({ ...llava, dtype: "bfloat16" }),
    passes: dockerModel({ ...llava, dtype: "float16" }),
  },
  worldWithinNode: {
    path: "models[0].tensorParallel",
    fails: clusterModel({ tensorParallel: 8 }),
    passes: clusterModel({ tensorParallel: 4 }),
    says: /8 GPUs.*has 4/,
  },
  gpuIndicesCount: {
    path: "models[0].gpuIndices",
    fails: dockerModel({ tensorParallel: 2, gpuIndices: [0] }, { host: { instanceType: "g5.12xlarge" } }),
    passes: dockerModel({ tensorParallel: 2, gpuIndices: [0, 1] }, { host: { instanceType: "g5.12xlarge" } }),
    says: /1 GPU listed.*take 2/,
  },
  gpuIndicesOfHost: {
    path: "models[0].gpuIndices[0]",
    fails: dockerModel({ gpuIndices: [1] }),
    passes: dockerModel({ gpuIndices: [0] }),
    says: /number 0/,
  },

  // Serving.
  repositoryServesModel: {
    path: "models[0].triton.streaming",
    fails: dockerModel({ flavour: "gpt", triton: { streaming: true } }),
    passes: dockerModel({ flavour: "gpt" }),
  },
  flavourOfModel: {
    path: "models[0].flavour",
    fails: dockerModel({ ...llava, flavour: "tritonCli" }),
    passes: dockerModel({ ...llava, flavour: "llava" }),
  },
  runtimeOfModel: {
    path: "models[0].runtime",
    fails: dockerModel({ ...llava, runtime: "llmapi" }, { release: "25.12" }),
    passes: dockerModel({ model: "llama-2-7b", runtime: "llmapi" }, { release: "25.12" }),
  },
  tritonBatchWithinEngine: {
    path: "models[0].triton.maxBatchSize",
    fails: dockerModel({ limits: { maxBatchSize: 4 }, triton: { maxBatchSize: 5 } }),
    passes: dockerModel({ limits: { maxBatchSize: 4 }, triton: { maxBatchSize: 4 } }),
    says: /4.*5/,
  },
  concurrencyWithinBatch: {
    path: "models[0].concurrentRequests",
    fails: dockerModel({ limits: { maxBatchSize: 4 }, concurrentRequests: 5 }),
    passes: dockerModel({ limits: { maxBatchSize: 4 }, concurrentRequests: 4 }),
    says: /4.*5/,
  },
  ownGoldenIsAsked: {
    path: "models[0].golden.maxTokens",
    fails: dockerModel({ golden: { ...golden, maxTokens: 257 } }),
    passes: dockerModel({ golden: { ...golden, maxTokens: 256 } }),
    says: /at most 256 tokens/,
  },
  templatesAreServed: {
    path: "models[0].triton.templates",
    fails: dockerModel({ triton: { templates: "templates/strange" } }),
    passes: dockerModel({ triton: { templates: "templates/own" } }),
    says: /tensorrt\/1\/model\.py is of no model/,
  },
  packagesFitTogether: {
    path: "models[1].triton.templates",
    fails: twoTemplates("templates/packages", "templates/newer"),
    passes: twoTemplates("templates/packages", "templates/packages"),
    says: /has einops 0\.8\.2, and models\[0\]\.triton\.templates has 0\.8\.1/,
  },
  llavaTutorialLimits: {
    path: "models[0].limits.maxInputTokens",
    fails: dockerModel({ ...llava, flavour: "llava", limits: { maxInputTokens: 2049 } }),
    passes: dockerModel({ ...llava, flavour: "llava", limits: { maxInputTokens: 2048 } }),
    says: /2048/,
  },
  accumulationNeedsOneBeam: {
    path: "models[0].triton.accumulateTokens",
    fails: dockerModel({ limits: { maxBeamWidth: 2 }, triton: { accumulateTokens: true } }),
    passes: dockerModel({ limits: { maxBeamWidth: 1 }, triton: { accumulateTokens: true } }),
    says: /2/,
  },
  cacheHoldsSequence: {
    path: "models[0].triton.maxTokensInPagedKvCache",
    fails: dockerModel({ limits: { maxInputTokens: 400, maxOutputTokens: 100 }, triton: cacheOf(499) }),
    passes: dockerModel({ limits: { maxInputTokens: 400, maxOutputTokens: 100 }, triton: cacheOf(500) }),
    says: /500.*499/,
  },
  cacheHoldsConcurrency: {
    severity: "warning",
    path: "models[0].triton.maxTokensInPagedKvCache",
    fails: dockerModel({ ...twoAtOnce(), triton: cacheOf(999) }),
    passes: dockerModel({ ...twoAtOnce(), triton: cacheOf(1000) }),
    says: /2 requests of 500 tokens need 1000; 999 hold 1 /,
  },
  attentionWindowWithinSequence: {
    severity: "warning",
    path: "models[0].triton.maxAttentionWindowTokens",
    fails: dockerModel({ ...twoAtOnce(), triton: { maxAttentionWindowTokens: 501 } }),
    passes: dockerModel({ ...twoAtOnce(), triton: { maxAttentionWindowTokens: 500 } }),
    says: /500.*501/,
  },
  reuseWithImages: {
    severity: "warning",
    path: "models[0].triton.kvCacheReuse",
    fails: dockerModel({ ...llava, flavour: "multimodal", triton: { kvCacheReuse: true } }),
    passes: dockerModel({ ...llava, flavour: "multimodal" }),
  },

  // Clusters.
  storeReachesMachines: {
    path: "engineStore.accessMode",
    fails: { ...clusterValues, engineStore: { accessMode: "ReadWriteOnce" } },
    passes: clusterModel({}, { nodes: { min: 1, max: 1 } }, { engineStore: { accessMode: "ReadWriteOnce" } }),
    says: /on 2\./,
  },
  poolsDiffer: {
    path: "pools[1].nodeSelector",
    fails: twoPools({}, { instanceType: "g6.4xlarge", nodeSelector: { kind: "large" } }),
    passes: {
      ...twoPools({}, {}),
      pools: [
        { ...clusterValues.pools[0], nodeSelector: { kind: "small" } },
        { name: "build", instanceType: "g6.4xlarge", nodeSelector: { kind: "large" } },
      ],
    },
    says: /of build and gpu/,
  },
  surgeHasRoom: {
    path: "models[0].rollout",
    fails: clusterModel({ rollout: "surge" }, { instanceType: "g5.xlarge", nodes: { min: 1, max: 1 } }),
    passes: clusterModel({ rollout: "surge" }, { instanceType: "g5.xlarge" }),
    says: /1 GPU \(0 free\)/,
  },
  copyHasEngine: {
    path: "models[0].copyEngine",
    fails: clusterModel({
      model: "llama-2-7b-chat",
      runtime: "llmapi",
      weights: { from: "modelscope" },
      copyEngine: true,
    }),
    passes: clusterModel({ copyEngine: true }),
    says: /runtime llmapi/,
  },
  scalingIsRead: {
    path: "monitoring",
    fails: clusterModel({ replicas: 2, minReplicas: 1 }),
    passes: { ...clusterModel({ replicas: 2, minReplicas: 1 }), monitoring: "prometheus-operator" },
    says: /gpt would not scale/,
    severity: "warning",
  },
  stopNeedsPriorities: {
    path: "priorityClasses",
    fails: { ...clusterValues, priorityClasses: "none", engines: { whenFull: "stopServer" } },
    passes: { ...clusterValues, priorityClasses: "none" },
  },
  weightsReachPods: {
    path: "models[0].weights.path",
    fails: clusterModel({ weights: { from: "folder", path: "/data/gpt2", revision: "1" } }),
    passes: clusterModel({ weights: { from: "folder", path: "/store/own/gpt2", revision: "1" } }),
    says: /below \/store\//,
  },

  // Pools.
  nodesInOrder: {
    path: "pools[0].nodes.min",
    fails: pool({ nodes: { min: 3, max: 2 } }),
    passes: pool({ nodes: { min: 2, max: 2 } }),
    says: /greater than max, which is 2/,
  },
  spotIsPriced: {
    severity: "warning",
    path: "pools[0].hourlyUsd",
    fails: pool({ capacity: "spot" }),
    passes: pool({ capacity: "spot", hourlyUsd: 0.5 }),
  },
  sharingNeedsGpu: {
    path: "pools[1].sharing.mode",
    fails: {
      ...clusterValues,
      pools: [
        clusterValues.pools[0],
        { name: "cpu", instanceType: "m7i.large", sharing: { mode: "mps", replicas: 2 } },
      ],
    },
    passes: pool({ sharing: { mode: "mps", replicas: 2 } }),
  },
  sharedGpuHasOneRank: {
    path: "models[0].tensorParallel",
    fails: pool({ sharing: { mode: "timeSlicing", replicas: 2 } }, { tensorParallel: 2 }),
    passes: pool({ sharing: { mode: "timeSlicing", replicas: 2 } }),
    says: /2 ranks/,
  },
  buildPoolHasSameGpu: {
    path: "models[0].buildPool",
    fails: twoPools({ buildPool: "build" }, { instanceType: "g6.4xlarge" }),
    passes: twoPools({ buildPool: "build" }, { instanceType: "g5.4xlarge" }),
    says: /A10G.*L4/,
  },
  ownedIsPriced: {
    severity: "note",
    path: "host.hourlyUsd",
    fails: { ...dockerValues, host: { instanceType: "g5.4xlarge" } },
    passes: { ...dockerValues, host: { instanceType: "g5.4xlarge", hourlyUsd: 0 } },
    says: /The host \(g5\.4xlarge\).*not priced/,
  },
  machineHoldsServer: {
    path: "host.machine",
    fails: { ...dockerValues, host: { machine: { gpu: "A10", vcpus: 8, memoryGiB: 8 } } },
    passes: { ...dockerValues, host: { machine: { gpu: "A10", vcpus: 8, memoryGiB: 9 } } },
    says: /8\.8 GiB.*the host leaves 8\.0 GiB to containers\./,
  },
  machineHoldsBuild: {
    path: "host.instanceType",
    fails: dockerModel({ model: "llama-2-7b" }, { host: { instanceType: "g5.xlarge" } }),
    passes: dockerModel({ model: "llama-2-7b" }, { host: { instanceType: "g5.4xlarge" } }),
    says: /the host leaves 13\.8 GiB to containers\./,
  },
  machineHoldsOtherBuild: {
    path: "pools[1].instanceType",
    fails: encodersOnFront("m7i.large", 2, { encoders: largeClip }),
    passes: encodersOnFront("m7i.large", 2, {}),
    says: /^Building encoders takes 6\.9 GiB of memory \(6\.7 GiB free\) of a machine of cpu\.$/,
  },
  diskHoldsBuild: {
    path: "host.diskGiB",
    fails: dockerModel({ model: "llama-2-7b" }, { host: { instanceType: "g5.4xlarge", diskGiB: 54 } }),
    passes: dockerModel({ model: "llama-2-7b" }, { host: { instanceType: "g5.4xlarge", diskGiB: 55 } }),
    says: /55 GiB: image 17\.0, weights 12\.6, checkpoint 12\.6, engine 12\.6/,
  },
  storeHoldsModels: {
    path: "engineStore.sizeGiB",
    fails: { ...clusterValues, engineStore: { sizeGiB: 2 } },
    passes: { ...clusterValues, engineStore: { sizeGiB: 3 } },
    says: /3 GiB/,
  },
  serversFindMachines: {
    path: "pools[0].nodes.max",
    fails: clusterModel({ replicas: 9 }),
    passes: clusterModel({ replicas: 8 }),
    says: /^Pool gpu has at most 2 machines with 4 GPUs each, and its servers need 9 GPUs\. There is no room for gpt; gpt needs 1 GPU \(0 free\)\.$/,
  },
  hostHoldsServers: {
    path: "host.instanceType",
    fails: dockerModel({ replicas: 8 }),
    passes: dockerModel({ replicas: 6 }),
    says: /73\.0 GiB.*56\.3 GiB/,
  },
  gpuIsFreeToBuild: {
    path: "pools[0].nodes.max",
    fails: clusterModel({ replicas: 8 }),
    passes: clusterModel({ replicas: 7 }),
    says: /no machine of gpu has room to build gpt, which takes 1 GPU \(0 free\)/,
  },
  machineHasGpusToBuild: {
    path: "models[0].buildPool",
    fails: twoPools({ buildPool: "build", tensorParallel: 2 }, {}),
    passes: twoPools({ buildPool: "build" }, {}),
    says: /2 ranks.*1 GPU/,
  },

  // Encoders.
  encodersCanBeBuilt: {
    path: "encoders.precision",
    fails: { ...dockerValues, encoders: { device: "cpu", precision: "int8" } },
    passes: { ...dockerValues, encoders: { device: "gpu", precision: "int8" } },
  },
  encoderGpuIsOfHost: {
    path: "encoders.gpuIndices[0]",
    fails: { ...dockerValues, encoders: { device: "gpu", gpuIndices: [1] } },
    passes: { ...dockerValues, encoders: { device: "gpu", gpuIndices: [0] } },
  },
  encoderSamplesAreUsed: {
    path: "encoders.calibration",
    fails: withEncoderSamples({ precision: "fp16" }),
    passes: withEncoderSamples({}),
    says: /Precision fp16 needs no samples/,
  },
  encoderHasItsPrefixes: {
    path: "catalogue.encoders.bge.prefixes",
    severity: "warning",
    fails: withEncoderRow({ ...ownSentences, prefixes: { document: "" } }),
    passes: withEncoderRow({ ...ownSentences, prefixes: { query: "" } }),
    says: /was trained with words before its texts/,
  },
  customEncoderNameIsFree: {
    path: "catalogue.encoders.gpt",
    fails: { ...dockerValues, catalogue: { encoders: { gpt: ownSentences } } },
    // Clients do not name encoders of images.
    passes: { ...dockerValues, catalogue: { encoders: { "bge-small": ownSentences, gpt: ownClip } } },
    says: /models\[0\] has this name/,
  },

  // Memory.
  memoryFits: {
    path: "models[0].memoryFit",
    fails: dockerModel({ model: "llama-3.2-11b-vision" }),
    passes: dockerModel({ model: "llama-3.2-11b-vision" }, onL40S),
    says: /needs? about .* GiB/,
  },
  memoryShortageIsAccepted: {
    severity: "warning",
    path: "models[0].memoryFit",
    fails: dockerModel({ model: "llama-3.2-11b-vision", memoryFit: { accept: "measured on this GPU" } }),
    passes: dockerModel({ model: "llama-3.2-11b-vision" }),
    says: /measured on this GPU/,
  },
  memoryIsTight: {
    severity: "warning",
    path: "models[0].memoryFit",
    fails: dockerModel({ model: "llama-2-7b-chat", concurrentRequests: 6 }),
    passes: dockerModel({ model: "llama-2-7b-chat", concurrentRequests: 5 }),
    says: /either way/,
  },
  cacheFractionsOfGpu: {
    path: "models[0].triton.kvCacheFreeGpuMemoryFraction",
    fails: { ...dockerValues, models: sharedGpu(0.6, 0.5) },
    passes: { ...dockerValues, models: sharedGpu(0.5, 0.5) },
    says: /1\.1/,
  },

  // Access.
  gatedModelHasToken: {
    path: "models[0].model",
    fails: dockerModel({ model: "llama-2-7b" }),
    passes: dockerModel({ model: "llama-2-7b" }, { hub: { tokenFile: "/run/token" } }),
    says: /Llama 2 Community License/,
  },
  modelScopeIsPinned: {
    path: "models[0].weights.revision",
    severity: "warning",
    fails: dockerModel({ model: "llama-2-7b-chat", weights: { from: "modelscope" } }),
    passes: dockerModel({
      model: "llama-2-7b-chat",
      weights: { from: "modelscope", revision: "0123456789abcdef0123456789abcdef01234567" },
    }),
    says: /is a branch of ModelScope, and moves/,
  },
  oneToken: {
    path: "hub.tokenFile",
    fails: { ...dockerValues, hub: { token: "hf_clear", tokenFile: "/run/token" } },
    passes: { ...dockerValues, hub: { token: "hf_clear" } },
  },
  publicHasKeys: {
    path: "gateway.apiKeys",
    fails: withGateway({ apiKeys: [] }),
    passes: withGateway({}),
  },
  publicHasTls: {
    path: "gateway.tls",
    fails: withGateway({ tls: undefined }),
    passes: withGateway({}),
  },
  tlsHasHostname: {
    path: "gateway.hostname",
    fails: withGateway({ hostname: undefined }),
    passes: withGateway({}),
  },
  tlsHasOneCertificate: {
    path: "gateway.tls",
    fails: withGateway({ tls: { secretName: "a", issuer: "b" } }),
    passes: withGateway({ tls: { issuer: "b" } }),
    says: /secretName and issuer/,
  },
  existingClusterHasNetwork: {
    path: "network.existing",
    fails: { ...EXISTING_CLUSTER_STACK, network: {} },
    passes: EXISTING_CLUSTER_STACK,
    says: /platform is in a VPC of its own/,
  },
  existingClusterStays: {
    path: "cluster.version",
    fails: {
      ...EXISTING_CLUSTER_STACK,
      cluster: { ...EXISTING_CLUSTER_STACK.cluster, version: DEFAULT_KUBERNETES_VERSION },
    },
    passes: EXISTING_CLUSTER_STACK,
    says: /changes nothing of an existing cluster/,
  },
  existingClusterHasNamespace: {
    path: "namespace",
    fails: { ...EXISTING_CLUSTER_STACK, namespace: undefined },
    passes: EXISTING_CLUSTER_STACK,
  },
  apiCidrsAreGiven: {
    path: "access.apiCidrs",
    fails: { ...awsValues, access: {} },
    passes: awsValues,
  },
  privateApiHasNoCidrs: {
    path: "access.apiCidrs",
    fails: withAccess({ endpoint: "private", apiCidrs: ["203.0.113.7/32"] }),
    passes: withAccess({ endpoint: "private" }),
  },
  privateApiIsReached: {
    severity: "warning",
    path: "access.privateCidrs",
    fails: withAccess({ endpoint: "private" }),
    passes: withAccess({ endpoint: "private", privateCidrs: ["10.8.0.0/16"] }),
  },
  privateCidrsBeginNetworks: {
    path: "access.privateCidrs[1]",
    fails: withAccess({ endpoint: "private", privateCidrs: ["10.8.0.0/16", "10.8.1.0/16"] }),
    passes: withAccess({ endpoint: "private", privateCidrs: ["10.8.0.0/16", "10.8.1.0/24"] }),
    says: /multiple of 65536/,
  },
  clusterHasAdmins: {
    path: "access.admins",
    fails: withAccess({ apiCidrs: ["203.0.113.7/32"], creatorIsAdmin: false }),
    passes: withAccess({ apiCidrs: ["203.0.113.7/32"], creatorIsAdmin: false, admins: [ADMIN] }),
  },
  principalsAreDistinct: {
    path: "access.viewers[0]",
    fails: withAccess({ apiCidrs: ["203.0.113.7/32"], admins: [ADMIN], viewers: [ADMIN] }),
    passes: withAccess({ apiCidrs: ["203.0.113.7/32"], admins: [ADMIN], viewers: [`${ADMIN}-2`] }),
  },
  apiCidrsAreNarrow: {
    path: "access.apiCidrs[0]",
    fails: { ...awsValues, access: openToAll },
    passes: { ...awsValues, access: { apiCidrs: ["8.0.0.0/8"] } },
  },
  tagsAreFree: {
    path: "tags.Name",
    fails: { ...awsValues, tags: { Name: "dev" } },
    passes: { ...awsValues, tags: { "cost-center": "42", "example.org/kubernetes": "no" } },
    says: /the stack itself/,
  },
  tagsAreFew: {
    path: "tags",
    fails: { ...awsValues, tags: Object.fromEntries(numbered(41)) },
    passes: { ...awsValues, tags: Object.fromEntries(numbered(40)) },
  },
  boundaryIsOfAccount: {
    path: "iam.permissionsBoundaryArn",
    fails: { ...awsValues, iam: { permissionsBoundaryArn: "arn:aws:iam::999900001111:policy/boundary" } },
    passes: { ...awsValues, iam: { permissionsBoundaryArn: "arn:aws:iam::aws:policy/PowerUserAccess" } },
    says: /account 999900001111/,
  },
  accessIsOfCluster: {
    severity: "warning",
    path: "access.apiCidrs",
    fails: onEc2({}),
    passes: onEc2({}, { access: {} }),
    says: /no effect/,
  },

  // AWS.
  zonesAreDistinct: {
    path: "network.zones[2]",
    fails: inNetwork({ zones: ["a", "b", "a"] }),
    passes: inNetwork({ zones: ["c", "b", "a"] }),
    says: /Zone a is listed 2 times/,
  },
  tokenIsEncrypted: {
    path: "hub.token",
    severity: "warning",
    fails: { ...awsValues, hub: { token: "hf_abcdefgh" } },
    passes: { ...awsValues, hub: { token: { secure: "v1:abc" } } },
    says: /in plain text/,
  },
  apiCidrsBeginNetworks: {
    path: "access.apiCidrs[0]",
    fails: { ...awsValues, access: { apiCidrs: ["203.0.113.7/24"] } },
    passes: { ...awsValues, access: { apiCidrs: ["203.0.113.0/24"] } },
    says: /multiple of 256/,
  },
  apiCidrsAreOfInternet: {
    path: "access.apiCidrs[1]",
    fails: { ...awsValues, access: { apiCidrs: ["203.0.113.7/32", "192.168.1.23/32"] } },
    passes: { ...awsValues, access: { apiCidrs: ["203.0.113.7/32", "192.169.1.23/32"] } },
    says: /^192\.168\.0\.0\/16 has private addresses/,
  },
  existingNetworkIsWhole: {
    path: "network.nat",
    fails: inNetwork({ ...inExisting({}).network, nat: "perZone" }),
    passes: inNetwork({ ...inExisting({}).network, nat: "one" }),
    says: /with vpc-01234567 it would be ignored/,
  },
  existingStoreHasBackups: {
    path: "engineStore.backups",
    fails: { ...awsValues, engineStore: { existing: existingStore, backups: true } },
    passes: { ...awsValues, engineStore: { backups: false } },
    says: /fs-01234567/,
  },
  hubSecretIsOfAccount: {
    path: "hub.tokenSecretArn",
    fails: { ...awsValues, hub: { tokenSecretArn: secretOf("us-east-1", "999988887777") } },
    passes: { ...awsValues, hub: { tokenSecretArn: secretOf("us-east-1") } },
    says: /in account 999988887777, .*111122223333/,
  },
  hubSecretIsOfRegion: {
    path: "hub.tokenSecretArn",
    fails: { ...awsValues, hub: { tokenSecretArn: secretOf("eu-west-1") } },
    passes: onEc2({}, { hub: { tokenSecretArn: secretOf("eu-west-1") } }),
    says: /in eu-west-1, .*of us-east-1/,
  },
  spotIsNotReserved: {
    path: "pools[0].capacityReservationId",
    fails: onEc2({}, { pools: [{ ...machinePool, capacity: "spot", capacityReservationId: RESERVATION }] }),
    passes: onEc2({}, { pools: [{ ...machinePool, capacityReservationId: RESERVATION }] }),
    says: /cr-01234567 would be paid for and never used/,
  },
  reservationHasZone: {
    path: "pools[0].zones",
    fails: withPool({ capacityReservationId: RESERVATION }),
    passes: withPool({ capacityReservationId: RESERVATION, zones: ["b"] }),
    says: /started in a or b/,
  },
  imageIsOfVersion: {
    path: "cluster.machineImageRelease",
    fails: { ...awsValues, cluster: { version: "1.35", machineImageRelease: "1.36.0-20260915" } },
    passes: { ...awsValues, cluster: { version: "1.36", machineImageRelease: "1.36.0-20260915" } },
    says: /not be of Kubernetes 1\.35/,
  },
  otherTypesAreLike: {
    path: "pools[0].otherInstanceTypes[1]",
    fails: withPool({ instanceType: "g5.xlarge", otherInstanceTypes: ["g5.2xlarge", "g5.12xlarge"] }),
    passes: withPool({ instanceType: "g5.xlarge", otherInstanceTypes: ["g5.2xlarge", "g5.4xlarge"] }),
    says: /g5\.12xlarge has 4 × A10G, and g5\.xlarge has 1 × A10G/,
  },
  blocksAreReserved: {
    path: "pools[0].capacityReservationId",
    fails: withPool({ ...blockPool, capacityReservationId: undefined }),
    passes: withPool(blockPool),
    says: /started by its id/,
  },
  blockIsPriced: {
    path: "pools[0].hourlyUsd",
    severity: "warning",
    fails: withPool({ ...blockPool, hourlyUsd: undefined }),
    passes: withPool(blockPool),
    says: /paid for beforehand/,
  },
  spotIsNotRetained: {
    path: "pools[0].capacity",
    fails: onEc2({}, { pools: [{ ...machinePool, capacity: "spot" }], retain: ["prod"] }),
    passes: onEc2({}, { pools: [machinePool], retain: ["prod"] }),
    says: /stacks that it names \(prod\) from termination/,
  },
  spotMachineStays: {
    path: "pools[0].capacity",
    severity: "warning",
    fails: onEc2({}, { pools: [{ ...machinePool, capacity: "spot" }] }),
    passes: onEc2({}),
    says: /can't be stopped/,
  },
  regionHasDomainsOfAws: {
    path: "region",
    fails: { ...awsValues, region: "cn-northwest-1" },
    passes: { ...awsValues, region: "us-gov-west-1" },
    says: /cn-northwest-1 have other domains than amazonaws\.com/,
  },
  zonesSuffice: {
    path: "network.zones",
    fails: inNetwork({ zones: ["a"] }),
    passes: inNetwork({ zones: ["a", "f"] }),
    says: /load balancer.*, and EKS,.* 2 zones, and there is 1/,
  },
  publicGatewayHasSubnets: {
    path: "network.existing.publicSubnets",
    fails: { ...inExisting({ publicSubnets: subnets("a") }), gateway: awsGateway },
    passes: { ...inExisting({ publicSubnets: subnets("a", "b") }), gateway: awsGateway },
    says: /2 zones, and the stack file names 1/,
  },
  poolZonesAreOfNetwork: {
    path: "pools[0].zones",
    fails: withPoolZones(awsValues, ["b", "c"]),
    passes: withPoolZones(awsValues, ["b"]),
    says: /in a, b, and none in c/,
  },
  cidrHoldsSubnets: {
    path: "network.cidr",
    fails: inNetwork({ cidr: "10.64.0.0/21" }),
    passes: inNetwork({ cidr: "10.64.0.0/20" }),
    says: /2048 addresses.*256/,
  },
  cidrIsForMachines: {
    path: "network.cidr",
    fails: inNetwork({ cidr: "169.254.0.0/16" }),
    passes: inNetwork({ cidr: "172.31.0.0/16" }),
    says: /^169\.254\.0\.0\/16 has addresses of one link/,
  },
  cidrsBeginNetworks: {
    path: "network.cidr",
    fails: inNetwork({ cidr: "10.64.16.0/19" }),
    passes: inNetwork({ cidr: "10.64.32.0/19" }),
    says: /\/19 network begins at a multiple of 8192/,
  },
  peersDoNotOverlap: {
    path: "network.peeredCidrs[1]",
    fails: inNetwork({ peeredCidrs: ["10.63.0.0/16", "10.64.255.0/24"] }),
    passes: inNetwork({ peeredCidrs: ["10.63.0.0/16", "10.65.0.0/24"] }),
    says: /network 10\.64\.0\.0\/16/,
  },
  throughputIsWhole: {
    path: "engineStore.provisionedMiBPerSecond",
    fails: { ...awsValues, engineStore: { throughput: "provisioned" } },
    passes: { ...awsValues, engineStore: { throughput: "provisioned", provisionedMiBPerSecond: 256 } },
  },
  certificateIsOfRegion: {
    path: "gateway.tls.certificateArn",
    fails: withAwsGateway({ tls: { certificateArn: certificateOf("eu-central-1") } }),
    passes: withAwsGateway({}),
    says: /in eu-central-1, and a load balancer in us-east-1/,
  },
  budgetHasAmount: {
    path: "guard.monthlyUsd",
    fails: withSpotBudget({}),
    passes: withSpotBudget({ monthlyUsd: 500 }),
    says: /machines of gpu\./,
  },
  budgetsAreOffered: {
    path: "guard.emails",
    fails: { ...inGovCloud, guard: { emails: ["ops@example.org"] } },
    passes: inGovCloud,
    says: /^AWS Budgets is not available in GovCloud \(us-gov-west-1\)/,
  },
  ttlEndsNoRetained: {
    path: "guard.ttlHours",
    fails: { ...awsValues, guard: { ttlHours: 8 }, retain: ["prod", "demo"] },
    passes: { ...awsValues, guard: { ttlHours: 8 } },
    says: /names \(prod or demo\).* 8 hours after/,
  },
  budgetIsSent: {
    path: "guard.monthlyUsd",
    fails: { ...awsValues, guard: { monthlyUsd: 500 } },
    passes: { ...awsValues, guard: { monthlyUsd: 500, emails: ["ops@example.org"] } },
    says: /emails is empty/,
  },
  capIsJudged: {
    path: "policies.hourlyUsdCap",
    fails: capped({ region: "eu-central-1" }),
    passes: capped({}),
    says: /cap of 2\.50 USD .* no price for pool gpu, pool system, NAT gateway/,
  },
  ownPriceIsNeeded: {
    path: "otherHourlyUsd",
    fails: { ...awsValues, otherHourlyUsd: 0.4 },
    passes: { ...awsValues, region: "eu-central-1", otherHourlyUsd: 0.4 },
    says: /0\.4 USD would be ignored/,
  },
  webAclIsOfRegion: {
    path: "gateway.wafAclArn",
    fails: withAwsGateway({ wafAclArn: aclOf("eu-central-1") }),
    passes: withAwsGateway({ wafAclArn: aclOf(awsValues.region) }),
    says: /^The web ACL is in eu-central-1/,
  },
  keyIsOfRegion: {
    path: "kmsKeyArn",
    fails: { ...awsValues, kmsKeyArn: keyOf("eu-central-1") },
    passes: { ...awsValues, kmsKeyArn: keyOf(awsValues.region) },
    says: /^The key is in eu-central-1/,
  },
  copiesHaveDocuments: {
    path: "databaseStorage.backupDays",
    fails: { ...awsValues, encoders: false, databaseStorage: { backupDays: 7 } },
    passes: { ...awsValues, databaseStorage: { backupDays: 7 } },
  },
  allowedAreClientsOfInternet: {
    path: "gateway.allowedCidrs",
    fails: { ...awsValues, gateway: { allowedCidrs: ["203.0.113.0/24"] } },
    passes: withAwsGateway({ allowedCidrs: ["203.0.113.0/24"] }),
  },
  recordHasName: {
    path: "gateway.zoneId",
    fails: { ...awsValues, gateway: { zoneId: "Z0123456789" } },
    passes: withAwsGateway({ zoneId: "Z0123456789" }),
  },

  // Checks of the stack file without its plan.
  portsDiffer: {
    path: "models[0].ports.http",
    fails: { ...dockerValues, gateway: { port: 8000 } },
    passes: { ...dockerValues, gateway: { port: 8003 } },
    says: /^Port 8000 of the host \(the default\) is taken by gateway\.port\.$/,
  },
  addressIsOfNetwork: {
    path: "host.address",
    fails: { ...dockerValues, gateway: { exposure: "internal" } },
    passes: {
      ...dockerValues,
      host: { ...dockerValues.host, address: "10.0.0.5" },
      gateway: { exposure: "internal" },
    },
    says: /127\.0\.0\.1/,
  },
  databasesAreNeeded: {
    path: "databases",
    fails: { ...dockerValues, encoders: false, databases: "container" },
    passes: { ...dockerValues, databases: "container" },
    says: /encoders is false/,
  },
  databasesAreFound: {
    path: "externalDatabases",
    fails: { ...clusterValues, databases: "external" },
    passes: {
      ...clusterValues,
      databases: "external",
      externalDatabases: databasesOf({ uri: "mongodb://db" }),
    },
    says: /needs addresses/,
  },
  addressesAreGivenOnce: {
    path: "externalDatabases.mongo.uri",
    fails: { ...clusterValues, databases: "external", externalDatabases: databasesOf({}) },
    passes: {
      ...clusterValues,
      databases: "external",
      externalDatabases: databasesOf({ uri: "mongodb://db" }),
    },
    says: /neither mongo\.uri nor mongo\.uriSecret/,
  },
  namespaceIsOwn: {
    path: "namespace",
    fails: { ...clusterValues, namespace: "kube-models" },
    passes: { ...clusterValues, namespace: "kube-models", createNamespace: false },
  },
  prePullHasSelector: {
    path: "pools[0].prePullImages",
    fails: pool({ prePullImages: true }),
    passes: pool({ prePullImages: true, nodeSelector: { kind: "gpu" } }),
  },
  storeIsGivenOnce: {
    path: "engineStore.existingVolume",
    fails: { ...clusterValues, engineStore: { existingClaim: "models", existingVolume: "disk" } },
    passes: { ...clusterValues, engineStore: { existingVolume: "disk" } },
    says: /engineStore\.existingClaim and engineStore\.existingVolume/,
  },
  minReplicasAreReached: {
    path: "models[0].minReplicas",
    fails: clusterModel({ replicas: 2, minReplicas: 3 }),
    passes: clusterModel({ replicas: 2, minReplicas: 2 }),
    says: /replicas, which is 2/,
  },
  scheduleIsFollowed: {
    path: "schedule",
    fails: { ...clusterValues, schedule },
    passes: { ...clusterModel({ minReplicas: 0 }), schedule },
    says: /No model has minReplicas/,
  },
  routeIsWhole: {
    path: "gateway.hostname",
    fails: { ...clusterValues, gateway: { route: { gateway: "shared" } } },
    passes: { ...clusterValues, gateway: { route: { gateway: "shared" }, hostname: "llm.example.org" } },
  },

  // A cluster on EKS.
  poolNamesAreFree: {
    path: "pools[0].name",
    fails: withPool({ name: "system" }),
    passes: withPool({ name: "systems" }),
    says: /controllers/,
  },
  disksAreReached: {
    path: "pools[1].zones",
    fails: withFront({}),
    passes: withFront({ zones: ["b"] }),
    says: /keeps 1 machine, .* any of a, b:/,
    severity: "warning",
  },
  groupsAreOfQuota: {
    path: "pools[0].nodes.max",
    severity: "warning",
    fails: withPool({ nodes: { min: 0, max: 451 } }),
    passes: withPool({ nodes: { min: 0, max: 450 } }),
    says: /450 machines in a node group, unless/,
  },
  warmMachinesFit: {
    path: "pools[0].warm",
    fails: withPool({ warm: 3 }),
    passes: withPool({ warm: 2 }),
    says: /at most 2 machines, and warm is 3/,
  },
  gpusAreGivenOut: {
    path: "cluster.charts.device-plugin",
    fails: withCharts({ "device-plugin": "none" }),
    passes: withCharts({ "device-plugin": "existing" }),
    says: /those of gpu/,
  },
  poolsCanGrow: {
    path: "pools[0].nodes",
    fails: {
      ...withCharts({ "cluster-autoscaler": "none" }),
      pools: [{ ...awsPool, nodes: { min: 0, max: 2 } }],
    },
    passes: {
      ...withCharts({ "cluster-autoscaler": "none" }),
      pools: [{ ...awsPool, nodes: { min: 2, max: 2 } }],
    },
    says: /stays at 0 and never grows to 2/,
  },
  numbersAreScaled: {
    path: "cluster.charts.keda",
    fails: { ...withCharts({ keda: "none" }), models: [{ ...awsModel, replicas: 2, minReplicas: 1 }] },
    passes: { ...withCharts({ keda: "none" }), models: [{ ...awsModel, replicas: 2 }] },
    says: /scales gpt,/,
  },
  gatewayHasLoadBalancer: {
    path: "cluster.charts.load-balancer-controller",
    fails: withCharts({ "load-balancer-controller": "none" }),
    passes: withCharts({ "load-balancer-controller": "existing" }),
    severity: "warning",
    says: /inside the cluster only/,
  },
  valuesReachCharts: {
    path: "cluster.chartValues.keda",
    fails: withCluster({ chartValues: { keda: { logging: {} } } }),
    passes: {
      ...withCluster({ chartValues: { keda: { logging: {} } } }),
      models: [{ ...awsModel, replicas: 2, minReplicas: 1 }],
    },
    says: /does not install keda, .* It installs device-plugin, .* or kube-prometheus-stack/,
  },
  valuesHaveNoSecrets: {
    path: "cluster.chartValues.kube-prometheus-stack.grafana.adminPassword",
    fails: withCluster({
      chartValues: { "kube-prometheus-stack": { grafana: { adminPassword: "hunter2" } } },
    }),
    passes: withCluster({
      chartValues: {
        "kube-prometheus-stack": {
          grafana: { admin: { existingSecret: "grafana", passwordKey: "admin-password" } },
        },
      },
    }),
    says: /in the state and in the cluster's release as plain text/,
  },
  alertsAreOfPrometheus: {
    path: "monitoringOptions.snsTopicArn",
    fails: { ...withCharts({ "kube-prometheus-stack": "existing" }), ...alertsTo("us-east-1") },
    passes: { ...awsValues, ...alertsTo("us-east-1") },
    says: /does not configure one that exists already/,
  },
  topicIsOfRegion: {
    path: "monitoringOptions.snsTopicArn",
    fails: { ...awsValues, ...alertsTo("eu-west-1") },
    passes: { ...awsValues, ...alertsTo("us-east-1") },
    says: /is in eu-west-1, .* us-east-1, the stack's region/,
  },
};

function databasesOf(mongo: Values) {
  return { mongo, vector: { url: "http://10.0.0.5:6333" } };
}

function key(name: string) {
  return { name, sha256: "0".repeat(64) };
}

function cacheOf(maxTokensInPagedKvCache: number) {
  return { maxTokensInPagedKvCache };
}

function twoAtOnce() {
  return { limits: { maxInputTokens: 400, maxOutputTokens: 100 }, concurrentRequests: 2 };
}

function sharedGpu(...fractions: readonly number[]) {
  return fractions.map((kvCacheFreeGpuMemoryFraction, index) => ({
    name: `gpt-${index}`,
    model: "gpt2-medium",
    gpuIndices: [0],
    triton: { kvCacheFreeGpuMemoryFraction },
  }));
}

/** Other ways to fail the same checks. */
export const moreMistakes: readonly (readonly [
  check: string,
  path: string,
  stack: Values,
  reason: RegExp,
])[] = [
  [
    "minReplicasAreReached",
    "models[0].minReplicas",
    { ...clusterModel({ minReplicas: 0 }), autoscaling: { mechanism: "hpa" } },
    /scale to zero/,
  ],
  [
    "scheduleIsFollowed",
    "schedule",
    { ...clusterModel({ minReplicas: 1 }), schedule, autoscaling: { mechanism: "hpa" } },
    /not support schedules/,
  ],
  [
    "routeIsWhole",
    "gateway.ingressClass",
    { ...clusterValues, gateway: { route: { gateway: "shared" }, ingressClass: "nginx" } },
    /HTTPRoute/,
  ],
  [
    "addressesAreGivenOnce",
    "externalDatabases.mongo.uriSecret",
    {
      ...clusterValues,
      databases: "external",
      externalDatabases: databasesOf({ uri: "mongodb://db", uriSecret: { name: "mongo" } }),
    },
    /only one can be used/,
  ],
  ["databasesAreFound", "externalDatabases", { ...awsValues, databases: "external" }, /needs addresses/],
  [
    "minReplicasAreReached",
    "models[0].minReplicas",
    { ...awsValues, models: [{ ...awsValues.models[0], replicas: 1, minReplicas: 2 }] },
    /replicas, which is 1/,
  ],
  ["budgetIsSent", "guard.emails", awsValues, /^No budget is created/],
  [
    "budgetsAreOffered",
    "guard.monthlyUsd",
    { ...inGovCloud, guard: { monthlyUsd: 100 } },
    /linked standard account/,
  ],
  ["cidrIsForMachines", "network.cidr", inNetwork({ cidr: "127.0.0.0/16" }), /of a machine itself/],
  ["cidrIsForMachines", "network.cidr", inNetwork({ cidr: "224.0.0.0/16" }), /multicast/],
  ["cidrIsForMachines", "network.cidr", inNetwork({ cidr: "8.8.0.0/16" }), /public addresses/],
  ["cidrIsForMachines", "network.cidr", inNetwork({ cidr: "192.0.0.0/16" }), /public addresses/],
  [
    "disksAreReached",
    "pools[1].zones",
    withFront({ zones: ["a", "b"], nodes: { min: 1, max: 4 } }),
    /keeps 1 machine/,
  ],
  [
    "regionIsPriced",
    "region",
    { ...withPool({ hourlyUsd: 5 }), region: "eu-central-1" },
    /no price table for eu-central-1: cost sums lack everything except machines/,
  ],
  ["regionIsOfAws", "region", { ...awsValues, region: "us-west-9" }, /no region us-west-9 /],
  ["accessIsOfCluster", "access.admins", onEc2({}, { access: { admins: [ADMIN] } }), /no effect/],
  ["ownedIsPriced", "pools[0].hourlyUsd", clusterValues, /Machines of type g5\.12xlarge/],
  ["gpuIsSupported", "models[0].pool", pool({ instanceType: "g4dn.4xlarge" }), /T4/],
  [
    "machineHoldsBuild",
    "models[0].pool",
    pool({ instanceType: "g5.xlarge" }, { model: "llama-2-7b" }),
    /a machine of gpu leaves 13\.8 GiB to pods/,
  ],
  ["weightsAreNamedVila", "models[0].weights.path", vilaFrom("/data/VILA1.5-3b"), /VILA1\.5-3b/],
  [
    "weightsAreNamedVila",
    "models[0].model",
    dockerCustom({ vision: { ...customVision, modelType: "vila" } }),
    /\/store\/weights\/own\//,
  ],
  [
    "samplesAreUsed",
    "models[0].engine.calibration.dataset",
    withCalibration({ dataset: "pileval", folder: ownSamples }),
    /^The samples are those of a data set of the hub or of a folder, and both are given\.$/,
  ],
  [
    "samplesAreUsed",
    "models[0].engine.calibration.folder",
    withCalibration({ folder: ownSamples }, {}, { release: "24.06" }),
    /0\.11 is the first that reads a folder/,
  ],
  ...["/store/my_ScienceQA", "/store/science_qa/en", "/store/cnn_dailymail"].map(
    (path) =>
      [
        "samplesAreUsed",
        "models[0].engine.calibration.folder.path",
        withCalibration({ folder: { ...ownSamples, path } }),
        /^quantize\.py reads a path with (ScienceQA|science_qa|cnn_dailymail) as the data set/,
      ] as const,
  ),
  [
    "samplesAreUsed",
    "models[0].engine.calibration.folder",
    withCalibration({ folder: ownSamples }, { model: "llama-3.2-11b-vision", quantization: "fp8" }),
    /those of scienceqa/,
  ],
  [
    "samplesAreUsed",
    "models[0].engine.calibration.samples",
    withCalibration({ samples: 64 }, { model: "llama-2-7b", quantization: "int4_awq" }),
    /with 32 texts, however many/,
  ],
  [
    "flagsAreTheUsers",
    "models[0].engine.extraFlags.converter.calib_size",
    dockerModel({
      quantization: "int8_sq",
      engine: { calibration: { samples: 8 }, extraFlags: { converter: { calib_size: 16 } } },
    }),
    /by engine\.calibration of the model/,
  ],
  [
    "ownGoldenIsAsked",
    "models[0].golden.image",
    dockerModel({ golden: { ...golden, image: "coffee" } }),
    /gpt2-medium is a text model/,
  ],
  [
    "pipelineParallelIsKnown",
    "models[0].pipelineParallel",
    dockerCustom({ recipe: "phi", pipelineParallel: true }, "own", { pipelineParallel: 2 }),
    /converter of phi splits no model/,
  ],
  [
    "packagesFitTogether",
    "models[0].triton.templates",
    dockerModel({ triton: { templates: "templates/openai" } }, { release: "26.07" }),
    /has openai 2\.0\.0, and release 26\.07 has 1\.109\.1/,
  ],
  [
    "packagesFitTogether",
    "models",
    dockerModel({ triton: { templates: "templates/long" } }),
    /have 158007 bytes with their hashes, and the image's build takes at most 120000/,
  ],
  ["imageOfRelease", "image.base", { ...dockerValues, image: { base: "example.org/triton" } }, /fixed tag/],
  [
    "imageOfRelease",
    "image.base",
    { ...dockerValues, image: { base: "example.org/triton:latest" } },
    /fixed tag/,
  ],
  ["imageOfRelease", "image.base", { ...dockerValues, image: { base: "example.org/triton:v3" } }, /0\.20\.0/],
  [
    "flagsAreOfRelease",
    "models[0].engine.extraFlags.builder.strongly_typed",
    withBuilderFlags({ strongly_typed: true }, { release: "24.12" }),
    /^trtllm-build of TensorRT-LLM 0\.16\.0 has no --strongly_typed\.$/,
  ],
  [
    "flagsAreOfRelease",
    "models[0].engine.extraFlags.builder.use_fused_mlp",
    withBuilderFlags({ use_fused_mlp: true }),
    /--use_fused_mlp of trtllm-build takes enable or disable in TensorRT-LLM 0\.20\.0/,
  ],
  [
    "flagsAreOfRelease",
    "models[0].engine.extraFlags.builder.weight_streaming",
    withBuilderFlags({ weight_streaming: "enable" }),
    /--weight_streaming of trtllm-build takes no value/,
  ],
  [
    "flagsAreOfRelease",
    "models[0].engine.extraFlags.builder.cluster_key",
    withBuilderFlags({ cluster_key: "A10G" }),
    /0\.20\.0 was not read: that of 0\.16\.0 has --cluster_key with one value, that of the branch main after it has no --cluster_key/,
  ],
  [
    "flagsAreOfRelease",
    "models[0].engine.extraFlags.converter.smoothquant",
    dockerModel({
      model: "llama-2-7b",
      quantization: "fp8",
      engine: { extraFlags: { converter: { smoothquant: 0.5 } } },
    }),
    /quantize\.py .* neither .* has --smoothquant/,
  ],
  [
    "flagsAreOfRelease",
    "models[0].engine.extraFlags.builder.lora_plugin",
    withBuilderFlags({ lora_plugin: ["auto", "float16"] }, { release: "24.12" }),
    /--lora_plugin of trtllm-build takes one value/,
  ],
  [
    "flagsHaveProgram",
    "models[0].engine.extraFlags.builder",
    dockerModel({ runtime: "llmapi", engine: { extraFlags: { builder: { workers: 2 } } } }),
    /No engine is built for runtime llmapi/,
  ],
  [
    "flagsAreTheUsers",
    "models[0].engine.extraFlags.converter.output_dir",
    dockerModel({ engine: { extraFlags: { converter: { output_dir: "/tmp" } } } }),
    /The plan decides --output_dir/,
  ],
  ...(
    [
      ["builder", "dry_run", true, /ends without an engine/],
      ["builder", "strip_plan", true, /weights, which only trtllm-refit adds/],
      ["builder", "model_config", "/x", /ignores it beside the checkpoint/],
      ["converter", "save_config_only", true, /checkpoint would have no weights/],
    ] as const
  ).map(
    ([section, flag, value, says]) =>
      [
        "flagsAreTheUsers",
        `models[0].engine.extraFlags.${section}.${flag}`,
        dockerModel({ model: "llama-2-7b", engine: { extraFlags: { [section]: { [flag]: value } } } }),
        says,
      ] as const,
  ),
  [
    "flagsAreTheUsers",
    "models[0].engine.extraFlags.builder.use_paged_context_fmha",
    withBuilderFlags({ use_paged_context_fmha: "disable" }),
    /by triton\.kvCacheReuse and triton\.chunkedContext/,
  ],
  ...(
    [
      ["triton_max_batch_size", 8, {}, /fills in triton_max_batch_size by triton\.maxBatchSize of the model/],
      ["engine_dir", "/tmp", {}, /the name of a folder or model of its own/],
      ["max_queue_delay_microseconds", 5, {}, /by triton\.maxQueueDelayMicroseconds/],
      ["cross_kv_cache_fraction", 0.4, {}, /no cross attention/],
      [
        "cross_kv_cache_fraction",
        1,
        { model: "llama-3.2-11b-vision", dtype: "bfloat16" },
        /part of the KV cache/,
      ],
      [
        "max_queue_delay_microseconds",
        "soon",
        { model: "llava-1.5-7b", flavour: "multimodal" },
        /own is 20000/,
      ],
      ["logits_datatype", "TYPE FP16", {}, /outside quotes .* own is TYPE_FP32/],
    ] as const
  ).map(
    ([name, value, model, says]) =>
      [
        "parametersAreKnown",
        `models[0].triton.parameters.${name}`,
        withParameters({ [name]: value }, model),
        says,
      ] as const,
  ),
  [
    "parametersAreKnown",
    "models[0].triton.parameters.gpu_device_ids",
    withParameters({ gpu_device_ids: "0,1" }, {}, { release: "24.11" }),
    /can't be filled in: fill_template\.py before TensorRT-LLM 0\.16/,
  ],
  ["ec2IsOneMachine", "pools", { ...twoPools({}, {}), ...aws(), compute: "ec2" }, /one machine/],
  [
    "customFlavoursTakeInput",
    "catalogue.models.own.flavours",
    dockerCustom({ vision: customVision }),
    /take images/,
  ],
  [
    "customFlavoursTakeInput",
    "catalogue.models.own.flavours",
    dockerCustom({
      flavours: ["multimodal", "llmapi"],
      vision: { ...customVision, modelType: "qwen2_5_vl" },
    }),
    /the vision type qwen2_5_vl have no visual engine/,
  ],
  [
    "customGoldenShowsVision",
    "catalogue.models.own.golden.image",
    dockerCustom({ golden: { prompt: "Hello", answerContains: ["world"], image: "coffee" } }),
    /no `vision`/,
  ],
  [
    "imagesWithinModel",
    "models[0].limits.maxImagesPerRequest",
    dockerModel({ limits: { maxImagesPerRequest: 1 } }),
    /reads no images, and maxImagesPerRequest is 1/,
  ],
  [
    "imagesWithinModel",
    "models[0].limits.maxImagesPerRequest",
    dockerModel({ ...llava, limits: { maxImagesPerRequest: 0 } }),
    /visual engine, which can't be built for 0 images/,
  ],
  [
    "imagesWithinModel",
    "models[0].limits.maxImagesPerRequest",
    dockerModel(
      { model: "qwen2.5-vl-3b", runtime: "llmapi", limits: { maxImagesPerRequest: 0 } },
      { release: "26.07", acceptUnverified: true },
    ),
    /reads images, and 0 would refuse all of them/,
  ],
  ["tensorParallelDividesHeads", "models[0].tensorParallel", qwen(8), /28 attention heads \(4 of keys/],
  [
    "worldWithinNode",
    "models[0].pipelineParallel",
    clusterModel({ model: "llama-2-7b", pipelineParallel: 5 }),
    /5 GPUs/,
  ],
  ["recipeOfRelease", "models[0].quantization", fp8On("24.04"), /fp8/],
  [
    "llavaTutorialLimits",
    "models[0].triton.maxBatchSize",
    llavaOf({ triton: { maxBatchSize: 2 } }),
    /is fixed to 1/,
  ],
  [
    "llavaTutorialLimits",
    "models[0].limits.maxBeamWidth",
    llavaOf({ limits: { maxBeamWidth: 2 } }),
    /is fixed to 1/,
  ],
  ["repositoryServesModel", "image.layout", { ...dockerValues, ...oldLayout() }, /0\.20/],
  ["gpuIndicesOfHost", "models[0].gpuIndices[1]", dockerModel({ gpuIndices: [0, 0] }), /listed twice/],
  [
    "gpuIndicesCount",
    "models[0].gpuIndices",
    dockerModel({ replicas: 2, gpuIndices: [0] }),
    /2 replicas take 2/,
  ],
  [
    "buildPoolHasSameGpu",
    "models[0].buildPool",
    twoPools({ buildPool: "build" }, { instanceType: "m7i.4xlarge" }),
    /no GPU/,
  ],
  [
    "machineHoldsServer",
    "host.machine",
    { ...dockerValues, host: { machine: { gpu: "A10", vcpus: 2, memoryGiB: 64 } } },
    /2\.5 CPUs.*leaves 2 /,
  ],
  [
    "machineHoldsBuild",
    "models[0].buildPool",
    twoPools({ model: "llama-2-7b", buildPool: "build" }, { instanceType: "g5.xlarge" }),
    /13\.8 GiB/,
  ],
  [
    "gpuIsFreeToBuild",
    "pools[0].nodes.max",
    clusterModel({}, { nodes: { min: 1, max: 1 }, sharing: { mode: "timeSlicing", replicas: 2 } }),
    /without servers/,
  ],
  [
    "gpuIsFreeToBuild",
    "engines.whenFull",
    { ...dockerValues, engines: { whenFull: "fail" } },
    /the host does not have room to build gpt, which takes 1 GPU \(0 free\)/,
  ],
  [
    "encoderSamplesAreUsed",
    "encoders.calibration",
    withEncoderSamples({ calibration: { revision: "1" } }),
    /neither pictures nor texts/,
  ],
  [
    "customEncoderNameIsFree",
    "catalogue.encoders.clip-vit-base-patch32",
    { ...dockerValues, catalogue: { encoders: { "clip-vit-base-patch32": ownSentences } } },
    /already has an encoder/,
  ],
  ["encodersCanBeBuilt", "encoders.precision", { ...dockerValues, encoders: { precision: "fp16" } }, /CPU/],
  [
    "encodersCanBeBuilt",
    "catalogue.encoders.wide",
    {
      ...dockerValues,
      encoders: { text: "wide" },
      catalogue: { encoders: { wide: { ...ownSentences, hiddenSize: 1536, layers: 24 } } },
    },
    /729,.* parameters × 4 bytes is 2\.7. GiB, and an ONNX file may have 2 GiB/,
  ],
  [
    "encoderGpuIsOfHost",
    "encoders.gpuIndices",
    { ...dockerValues, encoders: { gpuIndices: [0] } },
    /do not use a GPU/,
  ],
  [
    "encoderGpuIsOfHost",
    "encoders.gpuIndices",
    { ...clusterValues, encoders: { device: "gpu", gpuIndices: [0] } },
    /scheduler/,
  ],
  // A server takes 2.5 CPUs and 8 GiB, and its build 2 CPUs.
  [
    "surgeHasRoom",
    "models[0].rollout",
    clusterModel({ rollout: "surge" }, oneMachine({ gpus: 2, vcpus: 4, memoryGiB: 32 }), { encoders: false }),
    /takes 2\.5 CPUs \(1\.5 free\): the rollout/,
  ],
  [
    "surgeHasRoom",
    "models[0].rollout",
    clusterModel({ rollout: "surge" }, oneMachine({ gpus: 2, vcpus: 16, memoryGiB: 12 }), {
      encoders: false,
    }),
    /takes 8\.8 GiB of memory \(3\.3 GiB free\): the rollout/,
  ],
  [
    "gpuIsFreeToBuild",
    "pools[0].nodes.max",
    clusterModel({}, oneMachine({ gpus: 2, vcpus: 4, memoryGiB: 32 }), { encoders: false }),
    /build gpt, which takes 2 CPUs \(1\.5 free\)\./,
  ],
  // Gateway and databases keep 5 GiB of 13.8, and the build takes 11.3; a second machine is empty.
  [
    "machineHoldsOtherBuild",
    "pools[1].nodes.max",
    encodersOnFront("m7i.xlarge", 1, { ...largeEncoders, engines: { whenFull: "stopServer" } }),
    /\(8\.8 GiB free\) of a machine of cpu beside mongo, vector, gateway, which no build stops\.$/,
  ],
  // A server takes 8.8 GiB of 13.8, and only while the encoders are built they take more than 5.
  [
    "hostHoldsServers",
    "host.instanceType",
    dockerModel({}, { host: { instanceType: "g5.xlarge" }, encoders: largeClip }),
    /15\.\d GiB of memory while the encoders are built, and the host has 13\.8 GiB/,
  ],
  // Both GPUs serve, and only the encoders are built here.
  [
    "gpuIsFreeToBuild",
    "pools[0].nodes.max",
    twoPools(
      { buildPool: "build" },
      { instanceType: "g5.12xlarge" },
      { instanceType: undefined, machine: { gpu: "A10G", gpus: 2, vcpus: 32, memoryGiB: 128 } },
      { encoders: { device: "gpu", pool: "gpu" } },
    ),
    /build encoders, which takes 1 GPU \(0 free\)\./,
  ],
  [
    "gpuIsFreeToBuild",
    "pools[0].nodes.max",
    twoPools(
      { buildPool: "build" },
      { instanceType: "g5.12xlarge" },
      { sharing: { mode: "timeSlicing", replicas: 2 } },
      { encoders: { device: "gpu", pool: "gpu" } },
    ),
    /the encoders are built on a machine without servers/,
  ],
  // Less than 7 of 8 GiB are left to pods: encoders take 3, each database 2, and the gateway 1.
  [
    "serversFindMachines",
    "pools[1].nodes.max",
    { ...clusterValues, pools: [clusterValues.pools[0], { name: "cpu", instanceType: "m7i.large" }] },
    /Pool \S+ has at most 1 machine for 4 servers. There is no room for vector;/,
  ],
  [
    "machineHoldsBuild",
    "models[0].buildPool",
    twoPools(
      { buildPool: "build" },
      { instanceType: undefined, machine: { gpu: "A10G", gpus: 1, vcpus: 1, memoryGiB: 64 } },
    ),
    /takes 2 CPUs \(1 free\) of a machine of build/,
  ],
  [
    "surgeHasRoom",
    "models[0].rollout",
    clusterModel({ rollout: "surge" }, { sharing: { mode: "timeSlicing", replicas: 2 } }),
    /not divide/,
  ],
  ["tlsHasOneCertificate", "gateway.tls", withGateway({ tls: {} }), /names no certificate/],
  ["hostsHaveNoReplicas", "models[0].replicas", onEc2({ replicas: 2 }), /2 servers/],
  ["hostsHaveNoReplicas", "gateway.replicas", onEc2({}, { gateway: { replicas: 2 } }), /2 servers/],
  ["hostsHaveNoReplicas", "encoders.replicas", { ...dockerValues, encoders: { replicas: 2 } }, /2 servers/],
  ["publicHasKeys", "gateway.apiKeys", withAwsGateway({ apiKeys: [] }), /no key/],
  ["publicHasTls", "gateway.tls", withAwsGateway({ tls: undefined }), /no certificate/],
  [
    "cidrsBeginNetworks",
    "gateway.allowedCidrs[1]",
    withAwsGateway({ allowedCidrs: ["203.0.113.7/32", "203.0.113.7/24"] }),
    /multiple of 256/,
  ],
  ["tlsHasHostname", "gateway.hostname", withAwsGateway({ hostname: undefined }), /needs a host name/],
  [
    "zonesAreDistinct",
    "network.existing.privateSubnets[1]",
    inExisting({ privateSubnets: subnets("a", "a", "b") }),
    /Zone a/,
  ],
  [
    "regionHasDomainsOfAws",
    "region",
    { ...awsValues, region: "us-isob-east-1" },
    /^Services in us-isob-east-1/,
  ],
  [
    "zonesSuffice",
    "network.existing.privateSubnets",
    inExisting({ privateSubnets: subnets("a") }),
    /there is 1/,
  ],
  [
    "zonesSuffice",
    "network.zones",
    { ...inNetwork({ zones: ["b"] }), compute: "ec2" },
    /^The load balancer of the gateway/,
  ],
  ["poolZonesAreOfNetwork", "pools[0].zones", withPoolZones(inExisting({}), ["c"]), /in a, b, and none in c/],
  [
    "poolZonesAreOfNetwork",
    "pools[0].zone",
    onEc2({}, { pools: [{ ...machinePool, zone: "c" }] }),
    /in a, b, and none in c/,
  ],
  [
    "existingNetworkIsWhole",
    "network.zones",
    inNetwork({ ...inExisting({}).network, zones: ["c"] }),
    /network that the stack creates/,
  ],
  [
    "typeIsOffered",
    "pools[0].hourlyUsd",
    withPool({ instanceType: "m5.xlarge", machine: { vcpus: 4, memoryGiB: 16 } }),
    /only the types of the catalogue/,
  ],
  ...["engine-room:stack", "aws:x", "app.kubernetes.io/managed-by", "ebs.csi.aws.com/cluster", "EKS:x"].map(
    (key) => ["tagsAreFree", `tags.${key}`, { ...awsValues, tags: { [key]: "1" } }, /itself sets/] as const,
  ),
  ["tagsAreFree", "tags.team", { ...awsValues, tags: { Team: "a", team: "b" } }, /capital letters/],
  [
    "boundaryIsOfAccount",
    "iam.permissionsBoundaryArn",
    { ...awsValues, iam: { permissionsBoundaryArn: "arn:aws-us-gov:iam::aws:policy/boundary" } },
    /the partition aws-us-gov/,
  ],
  [
    "apiCidrsAreNarrow",
    "access.apiCidrs[1]",
    { ...awsValues, access: { apiCidrs: ["0.0.0.0/1", "128.0.0.0/1"] } },
    /2048 million addresses, 1\/2 of the internet/,
  ],
  [
    "apiCidrsAreOfInternet",
    "access.apiCidrs[0]",
    { ...awsValues, access: { apiCidrs: ["100.100.0.0/16"] } },
    /provider's network/,
  ],
  [
    "otherTypesAreLike",
    "pools[0].otherInstanceTypes[0]",
    withPool({ instanceType: "g5.2xlarge", otherInstanceTypes: ["g5.xlarge"] }),
    /smaller than g5\.2xlarge \(vcpus: 4 and 8\)/,
  ],
  [
    "otherTypesAreLike",
    "pools[0].otherInstanceTypes[0]",
    withPool({ instanceType: "g5.xlarge", otherInstanceTypes: ["g6.xlarge"] }),
    /1 × L4, and g5\.xlarge has 1 × A10G/,
  ],
  [
    "otherTypesAreLike",
    "pools[0].otherInstanceTypes[1]",
    withPool({ instanceType: "g5.xlarge", otherInstanceTypes: ["g5.2xlarge", "g5.2xlarge"] }),
    /has g5\.2xlarge already/,
  ],
  [
    "otherTypesAreLike",
    "pools[0].otherInstanceTypes[0]",
    withPool({
      instanceType: "g5.xlarge",
      otherInstanceTypes: ["g5.2xlarge"],
      zones: ["a"],
      capacityReservationId: RESERVATION,
    }),
    /cr-01234567 is of one instance type/,
  ],
  [
    "typeIsOffered",
    "pools[0].otherInstanceTypes[0]",
    {
      ...withPool({ instanceType: "g5.xlarge", otherInstanceTypes: ["g5.24xlarge"] }),
      region: "us-gov-west-1",
    },
    /does not offer/,
  ],
  [
    "blocksAreReserved",
    "pools[0].instanceType",
    withPool({ ...blockPool, instanceType: "g5.xlarge" }),
    /P instances/,
  ],
  [
    "blocksAreReserved",
    "pools[0].nodes.min",
    withPool({ ...blockPool, nodes: { min: 1, max: 1 } }),
    /outside of it/,
  ],
  ["blocksAreReserved", "pools[0].warm", withPool({ ...blockPool, warm: 1 }), /outside of it/],
  [
    "spotIsNotReserved",
    "pools[0].capacityReservationId",
    withPool({ capacity: "spot", capacityReservationId: RESERVATION, zones: ["a"] }),
    /on-demand machines/,
  ],
  ["cidrsBeginNetworks", "network.existing.cidr", inExisting({ cidr: "10.80.1.0/16" }), /multiple of 65536/],
  [
    "cidrsBeginNetworks",
    "network.peeredCidrs[0]",
    inNetwork({ peeredCidrs: ["10.1.0.1/24"] }),
    /multiple of 256/,
  ],
  [
    "peersDoNotOverlap",
    "network.peeredCidrs[0]",
    inNetwork({ existing: inExisting({}).network.existing, peeredCidrs: ["10.80.0.0/24"] }),
    /10\.80\.0\.0\/16/,
  ],
  [
    "throughputIsWhole",
    "engineStore.provisionedMiBPerSecond",
    { ...awsValues, engineStore: { provisionedMiBPerSecond: 256 } },
    /256 MiB\/s would be ignored/,
  ],
  [
    "throughputIsWhole",
    "engineStore.provisionedMiBPerSecond",
    {
      ...awsValues,
      engineStore: {
        provisionedMiBPerSecond: 256,
        existing: { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" },
      },
    },
    /of fs-01234567 is set/,
  ],
  [
    "certificateIsOfRegion",
    "gateway.tls.certificateArn",
    withAwsGateway({ tls: { certificateArn: certificateOf(awsValues.region, "444455556666") } }),
    /in account 444455556666/,
  ],
];

function aws() {
  const { platform, account, region, access } = awsValues;
  return { platform, account, region, access };
}

function qwen(tensorParallel: number) {
  return clusterModel({ model: "llava-onevision-qwen2-7b", tensorParallel });
}

function fp8On(release: string) {
  return dockerModel({ model: "llama-2-7b", quantization: "fp8" }, { ...onL40S, release });
}

function severalImagesOf(modelType: string, vision: Values = {}, images = 2) {
  return dockerCustom(
    { vision: { ...customVision, modelType, maxImagesPerRequest: 4, ...vision }, flavours: ["multimodal"] },
    "own",
    { limits: { maxImagesPerRequest: images } },
  );
}

function vilaFrom(path: string) {
  return dockerModel({ model: "vila1.5-3b", weights: { from: "folder", path, revision: "1" } });
}

function llavaOf(changes: Values) {
  return dockerModel({ ...llava, flavour: "llava", ...changes });
}

function oldLayout() {
  return { release: "25.05", image: { layout: "tritonrelease", base: "registry.example.org/trtllm:25.05" } };
}

/** The way out that a check shows, if it depends on the stack. */
export const fixes: readonly (readonly [check: string, stack: Values, fix: string])[] = [
  [
    "machineHoldsBuild",
    dockerModel(
      { model: "llama-2-7b" },
      { host: { machine: { gpu: "RTX 4090", vcpus: 16, memoryGiB: 24 } } },
    ),
    "Use a machine with more memory.",
  ],
  [
    "machineHoldsOtherBuild",
    encodersOnFront("m7i.xlarge", 1, largeEncoders),
    "Use 2, machines with more memory, or name another pool in encoders.pool.",
  ],
  [
    "machineHoldsServer",
    { ...dockerValues, host: { machine: { gpu: "L4", vcpus: 1, memoryGiB: 64 } } },
    "Use a machine with more CPUs, such as g6.xlarge, g6.2xlarge, g6.4xlarge, gr6.4xlarge.",
  ],
  ...(
    [
      [2, 130, "Write"],
      [4, 195, "Use 3, and write"],
    ] as const
  ).map(
    ([images, tokens, begin]) =>
      [
        "tilesWithinRequest",
        severalImagesOf("llava_onevision", { runsPerImage: 3 }, images),
        `${begin} \`vision.tokensPerRequest: ${tokens}\` in catalogue.models.own, or more for single images, which are cut in tiles.`,
      ] as const,
  ),
  ["tilesWithinRequest", severalImagesOf("llava_onevision"), "Use 1."],
  ["nodesInOrder", pool({ nodes: { min: 2, max: 1 } }), "Use 1, or raise nodes.max."],
  [
    "hubSecretIsOfAccount",
    { ...awsValues, hub: { tokenSecretArn: secretOf("us-east-1", "444455556666") } },
    "Create it in account 111122223333 (aws secretsmanager create-secret --region us-east-1 --name engine-room-STACK/hub-token --secret-string file://TOKEN-FILE), and write its ARN.",
  ],
  ...(["24.05", "24.10"] as const).map(
    (release) =>
      [
        "recipeOfRelease",
        clusterModel({ model: "vila1.5-3b" }, {}, { release }),
        "Use 24.11, the nearest release with a recipe, or another model.",
      ] as const,
  ),
  [
    "recipeOfRelease",
    clusterModel({ model: "vila1.5-3b", flavour: "llava" }, {}, { release: "24.05" }),
    "Use another model: no verified release serves this one with these settings.",
  ],
  ["tensorParallelDividesHeads", clusterModel({ tensorParallel: 3 }), "Use 1, 2 or 4."],
  [
    "tensorParallelDividesHeads",
    clusterModel({ tensorParallel: 5 }),
    "Use 1, 2 or 4; or 8 on machines such as g5.48xlarge.",
  ],
  [
    "tensorParallelDividesHeads",
    clusterModel({ tensorParallel: 3 }, { sharing: { mode: "mps", replicas: 2 } }),
    "Use 1; or 4 on machines such as g5.12xlarge, g5.24xlarge or g5.48xlarge.",
  ],
  ["tensorParallelDividesHeads", clusterModel({ tensorParallel: 9 }), "Use 1, 2 or 4."],
  [
    "worldWithinNode",
    dockerModel({ tensorParallel: 2 }),
    "Use 1, or a host that has 2: g5.12xlarge, g5.24xlarge or g5.48xlarge.",
  ],
  [
    "quantizationOfGpu",
    dockerModel({ model: "llama-2-7b", quantization: "fp8" }),
    "Use int8 or int4, or L4, L40S, H100 or H200.",
  ],
  [
    "gpuIsSupported",
    { ...dockerValues, host: { instanceType: "g4dn.4xlarge" } },
    "Use a host with A10G, A100-SXM4-40GB, A100-SXM4-80GB, L4, L40S, H100 or H200, such as g5.4xlarge.",
  ],
  [
    "machineHoldsBuild",
    dockerModel({ model: "llama-2-7b" }, { host: { instanceType: "g5.xlarge" } }),
    "Use one of g5.4xlarge, g5.8xlarge, g5.16xlarge, g5.12xlarge.",
  ],
  [
    "regionIsPriced",
    { ...awsValues, region: "eu-central-1" },
    "Write hourlyUsd for each pool and otherHourlyUsd for all else.",
  ],
  [
    "regionIsPriced",
    { ...withPool({ hourlyUsd: 1 }), region: "eu-central-1" },
    "Write otherHourlyUsd for all else.",
  ],
  ["regionIsOfAws", { ...awsValues, region: "us-esat-1" }, "Did you mean `us-east-1`?"],
  [
    "regionIsOfAws",
    { ...awsValues, region: "us-west-9" },
    "Check the name (similar: us-west-1); keep it if AWS has opened the region since.",
  ],
  [
    "regionIsOfAws",
    { ...awsValues, region: "zz-somewhere-else-1" },
    "Check the name; keep it if AWS has opened the region since.",
  ],
  [
    "ownedIsPriced",
    { ...dockerValues, host: { instanceType: "g5.12xlarge" } },
    "If it is rented, write its price in USD an hour (5.672 on demand in us-east-1); else 0.",
  ],
  [
    "ownedIsPriced",
    {
      ...dockerValues,
      host: { instanceType: "g7.xlarge", machine: { gpu: "L4", vcpus: 16, memoryGiB: 64 } },
    },
    "If it is rented, write its price in USD an hour; else 0.",
  ],
  [
    "capIsJudged",
    capped({ region: "eu-central-1" }),
    "Write prices in USD an hour: hourlyUsd of each pool and otherHourlyUsd for all else together.",
  ],
  [
    "capIsJudged",
    { ...withPool({ capacity: "spot" }), policies: { hourlyUsdCap: 2.5 } },
    "Write prices in USD an hour: hourlyUsd of each pool.",
  ],
  [
    "disksAreReached",
    withFront({}),
    "Write zones: [a], or nodes.min: 2 for one machine in each zone. In a running stack use the zone of the disks, which `kubectl describe pv` shows, or nodes.min if they have two.",
  ],
  ["poolZonesAreOfNetwork", withPoolZones(awsValues, ["c"]), "Use a or b, or add c to network.zones."],
  ["cidrsBeginNetworks", inNetwork({ cidr: "10.64.16.0/19" }), "Write 10.64.0.0/19."],
  [
    "publicHasTls",
    withAwsGateway({ tls: undefined }),
    "Set gateway.zoneId or gateway.tls.certificateArn, and gateway.hostname, or write exposure: internal.",
  ],
];
