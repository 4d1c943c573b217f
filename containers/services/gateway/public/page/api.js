/** Requests to the gateway that served this page, and the same requests as curl commands. */

/**
 * A GET; if there are fields, a POST of JSON, or of a form if there is an image too.
 * @typedef {object} Call
 * @property {string} path Relative to the page: `v1/match`.
 * @property {string} [method] Another method.
 * @property {Readonly<Record<string, unknown>>} [fields] Texts, numbers and booleans if there is an image.
 * @property {File | undefined} [image]
 * @property {string} [saveAs] File for the answer of a command.
 */

/** Name of the API key in this tab's storage, which the browser drops with the tab. */
export const KEY_ENTRY = "engine-room.api-key";

/** The gateway refused or failed, in its own sentence. */
export class ApiFailure extends Error {
  /** HTTP status; 0 without an answer, or when a stream failed. */
  status = 0;
  /** Name of the field that is wrong: `image`. @type {string | null} */
  param = null;
}

/** @returns {string | null} The API key of this tab. */
export function apiKey() {
  return sessionStorage.getItem(KEY_ENTRY);
}

/**
 * @param {Call} call
 * @param {AbortSignal} [signal]
 * @param {(share: number) => void} [onSent] Called with the sent share of the request, from 0 to 1.
 * @returns {Promise<Response>} With a status of 2xx.
 * @throws {ApiFailure}
 */
export async function request(call, signal = AbortSignal.timeout(5000), onSent) {
  const { path, fields, image } = call;
  const headers = new Headers();
  const key = apiKey();
  if (key !== null) headers.set("authorization", `Bearer ${key}`);
  /** @type {string | FormData | null} */
  let body = null;
  if (image !== undefined) {
    body = new FormData();
    for (const [name, value] of Object.entries(fields ?? {})) body.append(name, String(value));
    body.append("image", image, image.name);
  } else if (fields !== undefined) {
    body = JSON.stringify(fields);
    headers.set("content-type", "application/json");
  }
  const method = call.method ?? (body === null ? "GET" : "POST");
  const send = onSent === undefined ? fetch : sendWithProgress(onSent);
  const response = await send(new URL(path, document.baseURI), {
    method,
    body,
    headers,
    signal,
    credentials: "omit",
    redirect: "error",
  }).catch((error) => {
    throw signal.aborted ? error : new ApiFailure("The gateway does not answer; it may have been stopped.");
  });
  if (response.ok) return response;
  const refusal = await response.json().catch(() => undefined);
  const { message, param = null } = refusal?.error ?? {};
  const reason = message ?? `The gateway answered ${response.status} without a reason.`;
  throw Object.assign(new ApiFailure(reason), { status: response.status, param });
}

/**
 * A fetch that tells how much is sent, as far as a request of this page needs it.
 * @param {(share: number) => void} onSent
 * @returns {(url: URL, options: { method: string, body: string | FormData | null, headers: Headers, signal: AbortSignal }) => Promise<Response>}
 */
function sendWithProgress(onSent) {
  return (url, { method, body, headers, signal }) =>
    new Promise((resolve, reject) => {
      const sender = new XMLHttpRequest();
      sender.open(method, url);
      for (const [name, value] of headers) sender.setRequestHeader(name, value);
      sender.upload.onprogress = ({ loaded, total }) => onSent(loaded / total);
      sender.onload = () => resolve(new Response(sender.responseText, { status: sender.status }));
      sender.onerror = reject;
      sender.onabort = () => reject(signal.reason);
      signal.addEventListener("abort", () => sender.abort());
      sender.send(body);
    });
}

/**
 * @param {Call} call
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<{ event: string, data: any }, void, void>} Events as they come, the last of them `done`.
 * @throws {ApiFailure} Also for an event `error`, and if the answer ends before `done`.
 */
export async function* stream(call, signal) {
  const { body } = await request(call, signal);
  try {
    for await (const { event, data } of body === null ? [] : readEvents(body)) {
      const parsed = JSON.parse(data);
      if (event === "error") throw new ApiFailure(parsed.error.message);
      yield { event, data: parsed };
      if (event === "done") return;
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiFailure) throw error;
  }
  throw new ApiFailure("The answer is incomplete: the connection to the gateway was lost. Try again.");
}

/**
 * Server-sent events of a body, which EventSource can't read of a POST (WHATWG HTML, 9.2.6).
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ event: string, data: string }, void, void>} Leaving early closes the connection.
 */
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A carriage return at the end may be the first half of a line's end.
      const blocks = rest.replace(/\r\n|\r(?!$)/g, "\n").split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        let event = "message";
        const data = [];
        for (const line of block.split("\n")) {
          const [, field, content = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
          if (field === "event") event = content;
          else if (field === "data") data.push(content);
        }
        if (data.length > 0) yield { event, data: data.join("\n") };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * The same request as a command. The shell puts the key in, so that it is never part of a command.
 * @param {Call} call
 * @returns {string} A line for each option.
 */
export function curlCommand({ path, method, fields, image, saveAs }) {
  const options = [quoted(new URL(path, document.baseURI).href)];
  if (method !== undefined) options.push(`--request ${method}`);
  if (fields?.stream === true) options.push("--no-buffer");
  if (apiKey() !== null) options.push('--header "authorization: Bearer $ENGINE_ROOM_API_KEY"');
  if (saveAs !== undefined) options.push(`--output ${quoted(saveAs)}`);
  if (image === undefined && fields !== undefined) {
    options.push("--header 'content-type: application/json'", `--data ${quoted(JSON.stringify(fields))}`);
  } else if (image !== undefined) {
    // With --form curl would read a leading @ or < as the name of a file.
    for (const [name, value] of Object.entries(fields ?? {}))
      options.push(`--form-string ${quoted(`${name}=${value}`)}`);
    // A name with curl's own separators needs quotation marks.
    const file = /[;,"\\]/.test(image.name) ? `"${image.name.replace(/["\\]/g, "\\$&")}"` : image.name;
    options.push(`--form ${quoted(`image=@${file}`)}`);
  }
  return `curl ${options.join(" \\\n  ")}`;
}

/**
 * @param {string} text
 * @returns {string} One word of a POSIX shell.
 */
function quoted(text) {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
