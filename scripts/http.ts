/** Requests to the gateway and to Triton: the key, time-outs, and errors as sentences. */
import { UserError } from "./errors.ts";

/** How long a single request may take, its answer included. */
export const REQUEST_TIMEOUT_MILLISECONDS = 120_000;

/** Sent to the gateway, if it asks for a key. */
export function gatewayHeaders(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
}

/** Far above any answer; an endless answer is cut off. */
const LARGEST_ANSWER_BYTES = 64 * 2 ** 20;

/** An answer of any status; its body must arrive within the same time, and is limited to 64 MiB. */
export async function fetchWithin(
  url: string,
  init: RequestInit,
  milliseconds = REQUEST_TIMEOUT_MILLISECONDS,
): Promise<Response> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(milliseconds) });
  let bytes = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.length;
      if (bytes <= LARGEST_ANSWER_BYTES) controller.enqueue(chunk);
      else
        controller.error(
          new UserError(`The answer of ${url} is larger than ${LARGEST_ANSWER_BYTES / 2 ** 20} MiB.`),
        );
    },
  });
  const limited = new Response(response.body?.pipeThrough(limit), response);
  return Object.defineProperty(limited, "url", { value: response.url });
}

/** @throws UserError for a status other than success. */
export async function assertSuccess(response: Response): Promise<void> {
  if (response.ok) return;
  const { status, url } = response;
  const text = await response.text();
  if (status === 401)
    throw new UserError(`${errorMessage(text)} Set ENGINE_ROOM_API_KEY to the gateway's key.`);
  if (status === 429) throw new UserError("The rate limit of the gateway is reached; try again in a minute.");
  throw new UserError(`${url} answered ${status}: ${errorMessage(text)}`);
}

/** The text of an answer. @throws UserError for a status other than success. */
export async function fetchText(url: string, init: RequestInit = {}): Promise<string> {
  const response = await fetchWithin(url, init);
  await assertSuccess(response);
  return response.text();
}

export function postJson(url: string, body: object, headers: Record<string, string> = {}): Promise<string> {
  return fetchText(url, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}

/** The sentence of Triton's or the gateway's error, or the beginning of the text as it is. */
export function errorMessage(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: string | { message?: string } };
    const message = typeof error === "object" ? error.message : error;
    if (message !== undefined) return message;
  } catch {
    // A proxy's page, for example.
  }
  return text.slice(0, 200);
}

/** One output of an answer of KServe v2 in JSON. */
interface Output {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

/** Asks a model of the encoders' Triton for texts or pictures. @param inputs - Values by name of the input, as many of each. */
export async function encode(
  triton: string,
  model: string,
  inputs: Readonly<Record<string, readonly string[]>>,
): Promise<readonly Output[]> {
  const body = {
    inputs: Object.entries(inputs).map(([name, data]) => ({
      name,
      datatype: "BYTES",
      shape: [data.length, 1],
      data,
    })),
  };
  const text = await postJson(`${triton}/v2/models/${model}/infer`, body);
  return (JSON.parse(text) as { readonly outputs: readonly Output[] }).outputs;
}
