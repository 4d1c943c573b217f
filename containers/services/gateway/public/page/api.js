/** Requests to the gateway that served this page, and what their failures say. */
import { readEvents } from "./events.js";

/** Of this tab only: the browser drops it with the tab. */
const KEY_ENTRY = "engine-room.api-key";

/**
 * What a request sends: JSON, or a form where there is a file.
 * @typedef {object} Call
 * @property {string} path Relative to the page: `v1/match`.
 * @property {Readonly<Record<string, unknown>>} fields Texts, numbers and booleans where there is an image.
 * @property {File | undefined} image
 */

/** The gateway refused or failed, in its own sentence. */
export class ApiFailure extends Error {
  /**
   * @param {string} message
   * @param {number} status HTTP status; 0 where nothing answered, or where an answer that had begun failed.
   */
  constructor(message, status) {
    super(message);
    this.name = "ApiFailure";
    this.status = status;
  }
}

/** @returns {string | null} The API key of this tab. */
export function apiKey() {
  return sessionStorage.getItem(KEY_ENTRY);
}

/** @param {string | null} key Null forgets it. */
export function keepApiKey(key) {
  if (key === null) sessionStorage.removeItem(KEY_ENTRY);
  else sessionStorage.setItem(KEY_ENTRY, key);
}

/**
 * @param {string} path Relative to the page, or absolute on its origin.
 * @param {AbortSignal} signal
 * @returns {Promise<Response>} With a status of success.
 * @throws {ApiFailure}
 */
export function get(path, signal) {
  return request(path, { signal });
}

/**
 * @param {Call} call
 * @param {AbortSignal} signal
 * @returns {Promise<any>} The answer's JSON.
 * @throws {ApiFailure}
 */
export async function post(call, signal) {
  const response = await request(call.path, { method: "POST", signal, ...contentOf(call) });
  return response.json();
}

/**
 * @param {Call} call
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<{ event: string, data: any }, void, void>} Events as they come, their data parsed.
 * @throws {ApiFailure} Also for an event `error`.
 */
export async function* stream(call, signal) {
  const response = await request(call.path, { method: "POST", signal, ...contentOf(call) });
  if (response.body === null) throw new ApiFailure("The gateway's answer is empty; try again.", 0);
  try {
    for await (const { event, data } of readEvents(response.body)) {
      const parsed = JSON.parse(data);
      if (event === "error") throw new ApiFailure(sentenceOf(parsed) ?? "The answer failed; try again.", 0);
      yield { event, data: parsed };
    }
  } catch (error) {
    throw signal.aborted || error instanceof ApiFailure ? error : brokenOff();
  }
}

/** @returns {ApiFailure} An answer that ended before its end. */
export function brokenOff() {
  return new ApiFailure("The answer broke off: the connection to the gateway was lost. Try again.", 0);
}

/**
 * @param {Call} call
 * @returns {{ body: string | FormData, headers?: Record<string, string> }}
 */
function contentOf({ fields, image }) {
  if (image === undefined) {
    return { body: JSON.stringify(fields), headers: { "content-type": "application/json" } };
  }
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
  form.append("image", image, image.name);
  return { body: form };
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: string | FormData, headers?: Record<string, string>, signal: AbortSignal }} options
 * @returns {Promise<Response>}
 */
async function request(path, { headers = {}, ...options }) {
  const key = apiKey();
  const authorization = key === null ? {} : { authorization: `Bearer ${key}` };
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      ...options,
      headers: { ...headers, ...authorization },
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (options.signal.aborted) throw error;
    throw new ApiFailure("The gateway does not answer; it may have been stopped.", 0);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => undefined);
  throw new ApiFailure(
    sentenceOf(body) ?? `The gateway answered ${response.status} without saying why.`,
    response.status,
  );
}

/**
 * @param {any} body An error of the OpenAI API's shape, or problem details.
 * @returns {string | undefined}
 */
function sentenceOf(body) {
  const sentence = body?.error?.message ?? body?.message ?? body?.detail;
  return typeof sentence === "string" && sentence !== "" ? sentence : undefined;
}
