/**
 * KServe v2 over HTTP with Triton's binary tensor data extension: a JSON header, whose length is in
 * `Inference-Header-Content-Length`, and after it the raw little-endian tensors, one behind the other in the header's order.
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
 */

/** Header that says where the JSON ends and the tensors begin. */
export const JSON_LENGTH_HEADER = "inference-header-content-length";

/** A BYTES input of shape [elements, 1]: one text, or the bytes of one file, a row. */
interface BytesInput {
  readonly name: string;
  readonly elements: readonly (string | Uint8Array)[];
}

/** A request with BYTES inputs that asks for its outputs as binary tensors. */
export function encodeInferRequest(inputs: readonly BytesInput[], outputNames: readonly string[]) {
  const tensors = inputs.map(({ elements }) => encodeBytesTensor(elements));
  const json = JSON.stringify({
    inputs: inputs.map(({ name, elements }, index) => ({
      name,
      shape: [elements.length, 1],
      datatype: "BYTES",
      parameters: { binary_data_size: tensors[index]?.length },
    })),
    outputs: outputNames.map((name) => ({ name, parameters: { binary_data: true } })),
  });
  return {
    headers: {
      "content-type": "application/octet-stream",
      [JSON_LENGTH_HEADER]: String(Buffer.byteLength(json)),
    },
    body: Buffer.concat([Buffer.from(json), ...tensors]),
  };
}

/** BYTES elements: each one's length as 4 bytes, then its bytes; of a text its UTF-8. */
export function encodeBytesTensor(elements: BytesInput["elements"]): Buffer {
  return Buffer.concat(
    elements.flatMap((element) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(Buffer.byteLength(element));
      return [length, typeof element === "string" ? Buffer.from(element) : element];
    }),
  );
}

/** One tensor of an answer; `data` is a view on the answer's bytes, not a copy. */
interface Tensor {
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Buffer;
}
type Tensors = ReadonlyMap<string, Tensor>;

interface OutputHeader extends Omit<Tensor, "data"> {
  readonly name: string;
  readonly parameters?: { readonly binary_data_size?: number };
}

/**
 * The tensors of an answer by name.
 * @param jsonBytes - Value of the answer's `Inference-Header-Content-Length`.
 * @throws Error for a header that is not JSON; readers of a tensor check its bytes.
 */
export function decodeResponse(body: Buffer, jsonBytes: number): Tensors {
  const header: { readonly outputs?: readonly OutputHeader[] } = JSON.parse(
    body.toString("utf8", 0, jsonBytes),
  );
  const tensors = new Map<string, Tensor>();
  let offset = jsonBytes;
  for (const { name, datatype, shape, parameters } of header.outputs ?? []) {
    const end = offset + (parameters?.binary_data_size ?? 0);
    tensors.set(name, { datatype, shape, data: body.subarray(offset, end) });
    offset = end;
  }
  return tensors;
}

/** Rows of an FP32 output of shape [rows, columns], each 4 × columns bytes and still a view. @throws Error for any other output. */
export function fp32Rows(tensors: Tensors, name: string, rows: number, columns: number): Buffer[] {
  return rowsOf(tensors, name, "FP32", [rows, columns]);
}

/** Sum of an INT32 output of shape [rows, 1]. @throws Error for any other output. */
export function int32Sum(tensors: Tensors, name: string, rows: number): number {
  return rowsOf(tensors, name, "INT32", [rows, 1]).reduce((sum, row) => sum + row.readInt32LE(), 0);
}

/** Numbers of one FP32 row, on a machine that is little-endian as all that Node's images run on. */
export function fp32Values(row: Buffer): number[] {
  return [...new Float32Array(row.buffer.slice(row.byteOffset, row.byteOffset + row.length))];
}

/** Rows of an output whose elements have 4 bytes each. */
function rowsOf(
  tensors: Tensors,
  name: string,
  datatype: string,
  shape: readonly [number, number],
): Buffer[] {
  const tensor = tensors.get(name);
  if (tensor === undefined) throw new Error(`output ${name} is not in the answer`);
  const [rows, columns] = shape;
  const bytes = rows * columns * 4;
  const { data } = tensor;
  if (tensor.datatype !== datatype || String(tensor.shape) !== String(shape) || data.length !== bytes) {
    throw new Error(
      `expected ${datatype} [${shape}] in ${bytes} bytes of output ${name}, got ${tensor.datatype} [${tensor.shape}] in ${data.length}`,
    );
  }
  return Array.from({ length: rows }, (_, row) => data.subarray(row * columns * 4, (row + 1) * columns * 4));
}
