/** Requests of the checks of `smoke` and `verify`, and what is expected of the answers. */

export interface Check {
  /** Endpoint as the outputs name it, and what was asked of it. */
  readonly name: string;
  /**
   * @returns What came back, in a few words.
   * @throws CheckSkipped when the stack has nothing to check; any other error when it is not what it should be.
   */
  run(): Promise<string>;
}

/** Why there was nothing to check. */
export class CheckSkipped extends Error {
  override readonly name = "CheckSkipped";
}

/** How long a single request may take. */
export const REQUEST_TIMEOUT_MILLISECONDS = 120_000;

/** @param apiKey - Sent to the gateway, where it asks for one. */
export function gatewayHeaders(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
}

/** Checks of one gateway, by path. */
export interface GatewayRequests {
  get(path: string, describe: (text: string) => string): Check;
  post(path: string, body: object, describe: (answer: unknown) => string): Check;
}

export function gatewayRequests(gateway: string, headers: Record<string, string>): GatewayRequests {
  return {
    get: (path, describe) => ({
      name: `gateway GET ${path}`,
      run: async () => describe(await fetchText(`${gateway}${path}`, { headers })),
    }),
    post: (path, body, describe) => ({
      name: `gateway POST ${path}`,
      run: async () => describe(JSON.parse(await postJson(`${gateway}${path}`, body, headers))),
    }),
  };
}

/** The text of an answer. @throws Error for any status that is no success. */
export async function fetchText(url: string, init: RequestInit = {}): Promise<string> {
  const response = await fetchWithin(url, init);
  await assertSuccess(response);
  return response.text();
}

/** An answer of any status, whose body too has to come within the time of one request. */
export function fetchWithin(url: string, init: RequestInit): Promise<Response> {
  return fetch(url, { ...init, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MILLISECONDS) });
}

/** @throws Error for any status that is no success. */
export async function assertSuccess(response: Response): Promise<void> {
  if (response.ok) return;
  const { status } = response;
  const text = await response.text();
  if (status === 401) throw new Error("the gateway asks for a key; put it into ENGINE_ROOM_API_KEY");
  if (status === 429) throw new Error("the rate limit of the gateway is reached; try again in a minute");
  throw new Error(`HTTP ${status}: ${text.slice(0, 200)}`);
}

export function postJson(url: string, body: object, headers: Record<string, string> = {}): Promise<string> {
  return fetchText(url, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}

/** The beginning of a text, which must hold something. */
export function quote(text: string | undefined): string {
  return expect(
    text !== undefined && text.trim() !== "",
    "an empty text",
    JSON.stringify(text?.slice(0, 60)),
  );
}

/** @returns `description`. @throws Error with `otherwise`. */
export function expect(holds: boolean, otherwise: string, description: string): string {
  if (!holds) throw new Error(otherwise);
  return description;
}

/** A colour gradient of 32 by 32 pixels, as PNG: enough to see that an image encoder answers. */
export const SAMPLE_IMAGE_DATA_URL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAe0lEQVR42rXNERfCUBgA0O/ZwzAcDsMwHIbDcDgcPgyHw3AYhmE4HIbDMNyvuOdcvymi5AgnRdbBQQdHHVQ6qHVw0sFZBxcdNDq46qDVwU0HnQ56HQw6KDq462DUwaSDhw5mHTx18NLBWwcfHSw6WHXw1cGmg58O/jbYARzfPqF3HHsQAAAAAElFTkSuQmCC";

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
