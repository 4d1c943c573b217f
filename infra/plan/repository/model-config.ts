/**
 * Triton's model configuration (`config.pbtxt`): messages in protobuf's text format, and the parts that this project's models
 * share. Fields: https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
 */

/** A value of an enum, written without quotes. */
interface EnumValue {
  readonly enumValue: string;
}

type Value = string | number | boolean | EnumValue | Message;

/** A message of protobuf. An undefined field, or a list without elements, is left out. A list is a repeated field. */
export interface Message {
  readonly [field: string]: Value | readonly Value[] | undefined;
}

export type DataType = "TYPE_BOOL" | "TYPE_INT32" | "TYPE_UINT64" | "TYPE_FP32" | "TYPE_STRING";

/**
 * An input or output.
 *
 * @param dims - Shape without the batch dimension; -1 is any size.
 */
export function tensor(name: string, dataType: DataType, dims: readonly number[] = [1]) {
  return { name, data_type: { enumValue: dataType }, dims };
}

/** An input that a request may leave out. */
export function optional(name: string, dataType: DataType, dims?: readonly number[]) {
  return { ...tensor(name, dataType, dims), optional: true };
}

/** One instance on the CPU, or one on each GPU that the container sees. */
export function oneInstance(kind: "KIND_CPU" | "KIND_GPU"): Message {
  return { kind: { enumValue: kind }, count: 1 };
}

/** Values for the backend, which gets all as strings. */
export function parameters(values: Readonly<Record<string, string | number>>): readonly Message[] {
  return mapEntries(values).map(({ key, value }) => ({ key, value: { string_value: String(value) } }));
}

/** A protobuf map is a repeated message; its keys are sorted by code unit. */
export function mapEntries<T>(map: Readonly<Record<string, T>>): readonly { key: string; value: T }[] {
  return Object.entries(map)
    .map(([key, value]) => ({ key, value }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
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
  // JSON's escapes are protobuf's for the names that occur here, which are printable ASCII.
  if (typeof value !== "object") return `${name}: ${JSON.stringify(value)}`;
  return "enumValue" in value
    ? `${name}: ${value.enumValue}`
    : `${name} {\n${renderTextFormat(value, `${indent}  `)}${indent}}`;
}
