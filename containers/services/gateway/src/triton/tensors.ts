/**
 * KServe v2 over HTTP with Triton's binary tensor data extension: a JSON header, whose length is in
 * `Inference-Header-Content-Length`, and after it the raw little-endian tensors, one behind the other in the header's order.
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
 */

/** Header that says where the JSON ends and the tensors begin. */
export const JSON_LENGTH_HEADER = "inference-header-content-length";

/** One tensor of an answer; `data` is a view on the answer's bytes, not a copy. */
export interface Tensor {
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Buffer;
}

/** The answer is not what the protocol says. */
export class TensorError extends Error {
  override readonly name = "TensorError";
}

/** A request body and the length of its JSON part. */
interface EncodedRequest {
  readonly body: Buffer;
  readonly jsonBytes: number;
}

/** A BYTES input of shape [elements, 1]: one text, or the bytes of one file, a row. */
export interface BytesInput {
  readonly name: string;
  readonly elements: readonly BytesElement[];
}

type BytesElement = string | Uint8Array;

/** A request with BYTES inputs that asks for its outputs as binary tensors. */
export function encodeInferRequest(
  inputs: readonly BytesInput[],
  outputNames: readonly string[],
): EncodedRequest {
  const tensors = inputs.map(({ elements }) => encodeBytesTensor(elements));
  const json = Buffer.from(
    JSON.stringify({
      inputs: inputs.map(({ name, elements }, index) => ({
        name,
        shape: [elements.length, 1],
        datatype: "BYTES",
        parameters: { binary_data_size: tensors[index]?.length },
      })),
      outputs: outputNames.map((name) => ({ name, parameters: { binary_data: true } })),
    }),
  );
  return { body: Buffer.concat([json, ...tensors]), jsonBytes: json.length };
}

/** BYTES elements: each one's length as 4 bytes, then its bytes; of a text its UTF-8. */
export function encodeBytesTensor(elements: readonly BytesElement[]): Buffer {
  const lengths = elements.map((element) => Buffer.byteLength(element));
  const tensor = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + length, 0));
  let offset = 0;
  elements.forEach((element, index) => {
    const length = lengths[index] ?? 0;
    offset = tensor.writeUInt32LE(length, offset);
    if (typeof element === "string") tensor.write(element, offset);
    else tensor.set(element, offset);
    offset += length;
  });
  return tensor;
}

interface OutputHeader {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly parameters?: { readonly binary_data_size?: number };
}

/**
 * The tensors of an answer by name.
 * @param jsonBytes - Value of the answer's `Inference-Header-Content-Length`.
 * @throws TensorError when header and bytes do not fit together.
 */
export function decodeResponse(body: Buffer, jsonBytes: number): ReadonlyMap<string, Tensor> {
  if (!Number.isInteger(jsonBytes) || jsonBytes <= 0 || jsonBytes > body.length) {
    throw new TensorError(
      `the JSON header is said to have ${jsonBytes} bytes in an answer of ${body.length}`,
    );
  }
  const header = JSON.parse(body.toString("utf8", 0, jsonBytes)) as {
    readonly outputs?: readonly OutputHeader[];
  };
  const tensors = new Map<string, Tensor>();
  let offset = jsonBytes;
  for (const { name, datatype, shape, parameters } of header.outputs ?? []) {
    const size = parameters?.binary_data_size;
    if (size === undefined)
      throw new TensorError(`output ${name} came as JSON, although it was asked for as binary data`);
    if (offset + size > body.length)
      throw new TensorError(`output ${name} ends behind the answer's ${body.length} bytes`);
    tensors.set(name, { datatype, shape, data: body.subarray(offset, offset + size) });
    offset += size;
  }
  if (offset !== body.length)
    throw new TensorError(`${body.length - offset} bytes of the answer belong to no output`);
  return tensors;
}

/** Splits an FP32 tensor of shape [rows, columns] into its rows, each 4 × columns bytes and still a view. @throws TensorError */
export function fp32Rows(tensor: Tensor | undefined, rows: number, columns: number): Buffer[] {
  checkTensor(tensor, "FP32", [rows, columns], rows * columns * 4);
  const rowBytes = columns * 4;
  return Array.from({ length: rows }, (_, row) => tensor.data.subarray(row * rowBytes, (row + 1) * rowBytes));
}

/** Sum of an INT32 tensor of shape [rows, 1]. @throws TensorError */
export function int32Sum(tensor: Tensor | undefined, rows: number): number {
  checkTensor(tensor, "INT32", [rows, 1], rows * 4);
  let sum = 0;
  for (let row = 0; row < rows; row++) sum += tensor.data.readInt32LE(row * 4);
  return sum;
}

/** Numbers of one FP32 row. */
export function fp32Values(row: Buffer): number[] {
  const values = new Array<number>(row.length / 4);
  for (let index = 0; index < values.length; index++) values[index] = row.readFloatLE(index * 4);
  return values;
}

function checkTensor(
  tensor: Tensor | undefined,
  datatype: string,
  shape: readonly number[],
  bytes: number,
): asserts tensor is Tensor {
  if (tensor === undefined) throw new TensorError("an output that was asked for is not in the answer");
  const isAsExpected =
    tensor.datatype === datatype && String(tensor.shape) === String(shape) && tensor.data.length === bytes;
  if (isAsExpected) return;
  throw new TensorError(
    `expected ${datatype} [${shape}] in ${bytes} bytes, got ${tensor.datatype} [${tensor.shape}] in ${tensor.data.length}`,
  );
}
