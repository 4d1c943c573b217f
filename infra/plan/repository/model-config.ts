/**
 * Triton's model configuration (`config.pbtxt`), as far as this project uses it. Field meanings:
 * https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
 */
import { type EnumValue, type Message, renderTextFormat } from "./text-format.ts";

const DATA_TYPES = [
  "TYPE_BOOL",
  "TYPE_UINT8",
  "TYPE_UINT16",
  "TYPE_UINT32",
  "TYPE_UINT64",
  "TYPE_INT8",
  "TYPE_INT16",
  "TYPE_INT32",
  "TYPE_INT64",
  "TYPE_FP16",
  "TYPE_FP32",
  "TYPE_FP64",
  "TYPE_BF16",
  "TYPE_STRING",
] as const;
export type DataType = (typeof DATA_TYPES)[number];

export interface TensorConfig {
  readonly name: string;
  readonly dataType: DataType;
  /** Shape without the batch dimension; -1 is any size. */
  readonly dims: readonly number[];
}

export interface InputConfig extends TensorConfig {
  /** Whether a request may leave it out. @default false */
  readonly optional?: boolean;
}

/** What happens to requests that wait. */
interface QueuePolicyConfig {
  /** @default REJECT */
  readonly timeoutAction?: "REJECT" | "DELAY";
  /** 0 is no time-out. @default 0 */
  readonly defaultTimeoutMicroseconds?: number;
  /** Whether a request may shorten its own time-out. @default false */
  readonly allowTimeoutOverride?: boolean;
  /** More are refused; 0 is no limit. @default 0 */
  readonly maxQueueSize?: number;
}

interface DynamicBatchingConfig {
  /** Sizes at which a batch is run at once. @default [] - any size */
  readonly preferredBatchSizes?: readonly number[];
  /** How long a request may wait for others. @default 0 - batch what has arrived, wait for nothing */
  readonly maxQueueDelayMicroseconds?: number;
  readonly defaultQueuePolicy?: QueuePolicyConfig;
}

interface InstanceGroupConfig {
  readonly kind: "KIND_AUTO" | "KIND_CPU" | "KIND_GPU" | "KIND_MODEL";
  /** Instances on each device. */
  readonly count: number;
  /** @default [] - all GPUs, for KIND_GPU */
  readonly gpus?: readonly number[];
}

/** A request of zeros that an instance answers before the model counts as ready. */
interface WarmupConfig {
  readonly name: string;
  /** Rows; 0 for a model whose tensors have no batch dimension. */
  readonly batchSize: number;
  /** Shapes without the batch dimension, every size given. */
  readonly inputs: readonly TensorConfig[];
}

/** One model of an ensemble; each map goes from the model's own tensor name to the ensemble's. */
interface EnsembleStepConfig {
  readonly modelName: string;
  /** @default -1 - the latest */
  readonly modelVersion?: number;
  readonly inputMap: Readonly<Record<string, string>>;
  readonly outputMap: Readonly<Record<string, string>>;
}

/** Which versions (folders with a number as name) are served. */
type VersionPolicyConfig =
  | { readonly latest: number }
  | { readonly specific: readonly number[] }
  | { readonly all: true };

interface CommonConfig {
  readonly name: string;
  /** Largest batch; 0 for a model whose tensors have no batch dimension. */
  readonly maxBatchSize: number;
  /** @default the one with the highest number */
  readonly versionPolicy?: VersionPolicyConfig;
  readonly inputs: readonly InputConfig[];
  readonly outputs: readonly TensorConfig[];
  /** @default none - requests run as they come */
  readonly dynamicBatching?: DynamicBatchingConfig;
  /** @default Triton's own choice: one instance, on every GPU that it finds, else on the CPU */
  readonly instanceGroups?: readonly InstanceGroupConfig[];
  /** @default none - the first request pays for what is set up late */
  readonly warmups?: readonly WarmupConfig[];
  /** Whether a request may have any number of responses. @default false */
  readonly decoupled?: boolean;
  /** Values for the backend, which gets all as strings; rendered in the order of their names. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Whether answers are kept in the server's response cache. @default false */
  readonly responseCache?: boolean;
}

/** A model that a backend runs, or an ensemble of such models. */
export type ModelConfig = CommonConfig &
  (
    | { readonly backend: string }
    | { readonly platform: "ensemble"; readonly ensembleSteps: readonly EnsembleStepConfig[] }
  );

/** The text of `config.pbtxt`: same configuration, same text, to the byte. */
export function renderModelConfig(config: ModelConfig): string {
  const isEnsemble = "platform" in config;
  return renderTextFormat({
    name: config.name,
    platform: isEnsemble ? config.platform : undefined,
    backend: isEnsemble ? undefined : config.backend,
    max_batch_size: config.maxBatchSize,
    version_policy: config.versionPolicy && versionPolicy(config.versionPolicy),
    input: config.inputs.map((input) => ({ ...tensor(input), optional: input.optional || undefined })),
    output: config.outputs.map(tensor),
    dynamic_batching: config.dynamicBatching && dynamicBatching(config.dynamicBatching),
    instance_group: config.instanceGroups?.map(({ kind, count, gpus }) => ({
      kind: enumValue(kind),
      count,
      gpus,
    })),
    model_warmup: config.warmups?.map(warmup),
    model_transaction_policy: config.decoupled ? { decoupled: true } : undefined,
    ensemble_scheduling: isEnsemble ? { step: config.ensembleSteps.map(ensembleStep) } : undefined,
    parameters: mapEntries(config.parameters ?? {}).map(({ key, value }) => ({
      key,
      value: { string_value: value },
    })),
    response_cache: config.responseCache ? { enable: true } : undefined,
  });
}

function tensor({ name, dataType, dims }: TensorConfig): Message {
  return { name, data_type: enumValue(dataType), dims };
}

function versionPolicy(policy: VersionPolicyConfig): Message {
  if ("latest" in policy) return { latest: { num_versions: policy.latest } };
  if ("specific" in policy) return { specific: { versions: policy.specific } };
  return { all: {} };
}

function dynamicBatching(config: DynamicBatchingConfig): Message {
  return {
    preferred_batch_size: config.preferredBatchSizes,
    max_queue_delay_microseconds: config.maxQueueDelayMicroseconds,
    default_queue_policy: config.defaultQueuePolicy && queuePolicy(config.defaultQueuePolicy),
  };
}

function queuePolicy(policy: QueuePolicyConfig): Message {
  return {
    timeout_action: policy.timeoutAction && enumValue(policy.timeoutAction),
    default_timeout_microseconds: policy.defaultTimeoutMicroseconds,
    allow_timeout_override: policy.allowTimeoutOverride,
    max_queue_size: policy.maxQueueSize,
  };
}

function warmup({ name, batchSize, inputs }: WarmupConfig): Message {
  const zeros = inputs.map((input) => ({
    key: input.name,
    value: { data_type: enumValue(input.dataType), dims: input.dims, zero_data: true },
  }));
  return { name, batch_size: batchSize, inputs: zeros };
}

function ensembleStep(step: EnsembleStepConfig): Message {
  return {
    model_name: step.modelName,
    model_version: step.modelVersion ?? -1,
    input_map: mapEntries(step.inputMap),
    output_map: mapEntries(step.outputMap),
  };
}

/** A protobuf map is a repeated message; its keys are sorted by code unit. */
function mapEntries(map: Readonly<Record<string, string>>): { key: string; value: string }[] {
  return Object.entries(map)
    .map(([key, value]) => ({ key, value }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}

function enumValue(name: string): EnumValue {
  return { enumValue: name };
}
