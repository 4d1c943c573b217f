/** One request to a model of the encoders' Triton, and batches of them. */
import type { CallContext } from "../call-context.ts";
import type { TritonClient } from "./client.ts";
import {
  type BytesInput,
  decodeResponse,
  encodeInferRequest,
  JSON_LENGTH_HEADER,
  type Tensor,
} from "./tensors.ts";

interface InferRequest<T> {
  readonly model: string;
  readonly inputs: readonly BytesInput[];
  readonly outputs: readonly string[];
  /** Reads the answer's tensors; what it throws is an answer that the protocol does not allow. */
  readonly read: (tensors: ReadonlyMap<string, Tensor>) => T;
}

/** @throws ApiError as {@link TritonClient.post} does, 502 for an answer that can't be read. */
export async function infer<T>(
  triton: TritonClient,
  { model, inputs, outputs, read }: InferRequest<T>,
  call: CallContext,
): Promise<T> {
  const { body, jsonBytes } = encodeInferRequest(inputs, outputs);
  const response = await triton.post({
    path: `/v2/models/${model}/infer`,
    headers: { "content-type": "application/octet-stream", [JSON_LENGTH_HEADER]: String(jsonBytes) },
    body,
    ...call,
    isIdempotent: true,
  });
  try {
    const answer = Buffer.from(await response.body.arrayBuffer());
    return read(decodeResponse(answer, Number(response.headers[JSON_LENGTH_HEADER])));
  } catch (error) {
    throw triton.failure(error, call.signal);
  }
}

/** A list in pieces of at most `size`. */
export function batchesOf<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}
