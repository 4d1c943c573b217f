/** What the checks send, and how they look at what comes back. */

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
