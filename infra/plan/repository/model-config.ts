/**
 * Triton's model configuration (`config.pbtxt`), as far as this project uses it, and its text. Field meanings:
 * https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
 */

export type DataType = "TYPE_BOOL" | "TYPE_INT32" | "TYPE_UINT64" | "TYPE_FP16" | "TYPE_FP32" | "TYPE_STRING";

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
  readonly inputMap: Readonly<Record<string, string>>;
  readonly outputMap: Readonly<Record<string, string>>;
}

/** A model that a backend runs, or an ensemble of such models. */
export type ModelConfig = {
  readonly name: string;
  /** Largest batch; 0 for a model whose tensors have no batch dimension. */
  readonly maxBatchSize: number;
  readonly inputs: readonly InputConfig[];
  readonly outputs: readonly TensorConfig[];
  /** How long a request may wait for others. @default none - requests run as they come */
  readonly dynamicBatching?: { readonly maxQueueDelayMicroseconds: number };
  /** Instances on each device. @default Triton's own choice: one, on every GPU that it finds, else on the CPU */
  readonly instanceGroups?: readonly { readonly kind: "KIND_CPU" | "KIND_GPU"; readonly count: number }[];
  /** @default none - the first request pays for what is set up late */
  readonly warmups?: readonly WarmupConfig[];
  /** Whether a request may have any number of responses. @default false */
  readonly decoupled?: boolean;
  /** Values for the backend, which gets all as strings; rendered in the order of their names. */
  readonly parameters?: Readonly<Record<string, string>>;
} & (
  | { readonly backend: string }
  | { readonly platform: "ensemble"; readonly ensembleSteps: readonly EnsembleStepConfig[] }
);

/** The text of `config.pbtxt`: same configuration, same text, to the byte. */
export function renderModelConfig(config: ModelConfig): string {
  const isEnsemble = "platform" in config;
  const { dynamicBatching } = config;
  return renderTextFormat({
    name: config.name,
    platform: isEnsemble ? config.platform : undefined,
    backend: isEnsemble ? undefined : config.backend,
    max_batch_size: config.maxBatchSize,
    input: config.inputs.map((input) => ({ ...tensor(input), optional: input.optional || undefined })),
    output: config.outputs.map(tensor),
    dynamic_batching: dynamicBatching && {
      max_queue_delay_microseconds: dynamicBatching.maxQueueDelayMicroseconds,
    },
    instance_group: config.instanceGroups?.map(({ kind, count }) => ({ kind: { enumValue: kind }, count })),
    model_warmup: config.warmups?.map(({ name, batchSize, inputs }) => ({
      name,
      batch_size: batchSize,
      inputs: inputs.map((input) => {
        const { name: key, ...shape } = tensor(input);
        return { key, value: { ...shape, zero_data: true } };
      }),
    })),
    model_transaction_policy: config.decoupled ? { decoupled: true } : undefined,
    ensemble_scheduling: isEnsemble
      ? {
          step: config.ensembleSteps.map(({ modelName, inputMap, outputMap }) => ({
            model_name: modelName,
            // The latest.
            model_version: -1,
            input_map: mapEntries(inputMap),
            output_map: mapEntries(outputMap),
          })),
        }
      : undefined,
    parameters: mapEntries(config.parameters ?? {}).map(({ key, value }) => ({
      key,
      value: { string_value: value },
    })),
  });
}

function tensor({ name, dataType, dims }: TensorConfig) {
  return { name, data_type: { enumValue: dataType }, dims };
}

/** A protobuf map is a repeated message; its keys are sorted by code unit. */
function mapEntries(map: Readonly<Record<string, string>>): { key: string; value: string }[] {
  return Object.entries(map)
    .map(([key, value]) => ({ key, value }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** A name of an enum's value, which is written without quotes. */
interface EnumValue {
  readonly enumValue: string;
}

type Value = string | number | boolean | EnumValue | Message;

/** A message of protobuf. An undefined field, or a list without elements, is left out. A list is a repeated field. */
export interface Message {
  readonly [field: string]: Value | readonly Value[] | undefined;
}

/**
 * A message in protobuf's text format, with its fields in the order in which the object has them, and a newline at the end:
 * https://protobuf.dev/reference/protobuf/textformat-spec
 */
export function renderTextFormat(message: Message, indent = ""): string {
  return Object.entries(message)
    .flatMap(([name, value]) => {
      if (value === undefined) return [];
      const values: readonly Value[] = Array.isArray(value) ? value : [value as Value];
      return values.map((item) => `${indent}${field(name, item, indent)}\n`);
    })
    .join("");
}

function field(name: string, value: Value, indent: string): string {
  if (typeof value === "string") return `${name}: ${quote(value)}`;
  if (typeof value === "object") {
    return "enumValue" in value
      ? `${name}: ${value.enumValue}`
      : `${name} {\n${renderTextFormat(value, `${indent}  `)}${indent}}`;
  }
  return `${name}: ${value}`;
}

/** Characters of a string literal that have an escape by name. */
const NAMED_ESCAPES: Readonly<Record<string, string>> = {
  "\t": "\\t",
  "\n": "\\n",
  "\r": "\\r",
  '"': '\\"',
  "\\": "\\\\",
};

/** A string literal of printable ASCII: quotes and backslashes escaped, every other byte of its UTF-8 in octal. */
export function quote(text: string): string {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => {
    const character = String.fromCharCode(byte);
    const isPrintable = byte >= 0x20 && byte < 0x7f;
    return NAMED_ESCAPES[character] ?? (isPrintable ? character : `\\${byte.toString(8).padStart(3, "0")}`);
  });
  return `"${bytes.join("")}"`;
}
