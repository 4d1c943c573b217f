/** Documents to load, and the client of `POST /v1/documents` of a gateway, which waits for a busy or starting gateway. */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../errors.ts";
import { errorMessage, gatewayHeaders } from "../http.ts";

/** How long a request without an answer, or with 503, 502 or 429, is repeated: models may be loading. */
const RETRY_SECONDS = 120;
const FIRST_WAIT_SECONDS = 0.5;
/** A longer Retry-After is cut to this. */
const MAX_WAIT_SECONDS = 30;
/** The gateway itself gives up before. */
const REQUEST_TIMEOUT_MILLISECONDS = 330_000;

export interface Outcome {
  readonly status: "created" | "updated" | "unchanged" | "failed";
  /** Reason of a failure. */
  readonly reason?: string;
}

export interface DocumentsClientOptions {
  /** Base URL. */
  readonly gateway: string;
  readonly apiKey?: string | undefined;
  /** Called before each wait, with the reason. */
  readonly onWait?: (reason: string, seconds: number) => void;
  /** How long a request is repeated. @default 120 */
  readonly retrySeconds?: number;
}

/** Error after which nothing more can be loaded: the gateway is unreachable, refuses the key, or has no databases. One sentence. */
export class GatewayRefusal extends UserError {
  override readonly name = "GatewayRefusal";
}

/** The gateway refuses this request; others may pass. */
class RequestRefusal extends Error {
  override readonly name = "RequestRefusal";
}

export class DocumentsClient {
  readonly #options: DocumentsClientOptions;

  constructor(options: DocumentsClientOptions) {
    this.#options = options;
  }

  /** Whether the gateway has any document. @throws GatewayRefusal */
  async isEmpty(signal: AbortSignal): Promise<boolean> {
    const text = await this.#send("/v1/documents?limit=1", {}, signal);
    return (JSON.parse(text) as { documents: unknown[] }).documents.length === 0;
  }

  /**
   * Loads a batch. A batch that the gateway refuses, as a whole or in part, is sent again in halves and at last one document at a time: a
   * bad document keeps no other out, and a document that failed because a database was unavailable gets a second chance.
   *
   * @returns One outcome a document, in their order.
   * @throws GatewayRefusal when nothing more can be loaded.
   */
  async load(documents: readonly PreparedDocument[], signal: AbortSignal): Promise<Outcome[]> {
    try {
      const text = await this.#send("/v1/documents", requestOf(documents), signal);
      const outcomes = outcomesOf(documents, text);
      if (documents.length === 1) return outcomes;
      const again = documents.filter((_, index) => outcomes[index]?.status === "failed");
      const seconds: Outcome[] = [];
      for (const document of again) seconds.push(...(await this.load([document], signal)));
      return outcomes.map((outcome) =>
        outcome.status === "failed" ? (seconds.shift() ?? outcome) : outcome,
      );
    } catch (error) {
      if (!(error instanceof RequestRefusal)) throw error;
      if (documents.length === 1) return [{ status: "failed", reason: error.message }];
      const middle = documents.length >> 1;
      const first = await this.load(documents.slice(0, middle), signal);
      return [...first, ...(await this.load(documents.slice(middle), signal))];
    }
  }

  /** @returns The body of a 2xx answer. @throws RequestRefusal, GatewayRefusal */
  async #send(path: string, init: RequestInit, signal: AbortSignal): Promise<string> {
    const { gateway, apiKey, onWait, retrySeconds = RETRY_SECONDS } = this.#options;
    const started = performance.now();
    for (let tries = 0; ; tries++) {
      const headers = { ...init.headers, ...gatewayHeaders(apiKey) };
      const attempt = await attemptOf(`${gateway}${path}`, { ...init, headers }, signal);
      if ("text" in attempt) return attempt.text;
      const seconds = Math.min(attempt.waitSeconds ?? FIRST_WAIT_SECONDS * 2 ** tries, MAX_WAIT_SECONDS);
      const waited = (performance.now() - started) / 1000;
      if (waited + seconds > retrySeconds)
        throw new GatewayRefusal(
          `the gateway ${gateway} took nothing for ${waited.toFixed(0)} s (${attempt.reason})`,
        );
      onWait?.(attempt.reason, seconds);
      await sleep(seconds * 1000, undefined, { signal });
    }
  }
}

type Attempt =
  | { readonly text: string }
  | { readonly reason: string; readonly waitSeconds: number | undefined };

async function attemptOf(url: string, init: RequestInit, signal: AbortSignal): Promise<Attempt> {
  let response: Response;
  let text: string;
  try {
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MILLISECONDS);
    response = await fetch(url, { ...init, signal: AbortSignal.any([signal, timeout]) });
    text = await response.text();
  } catch (error) {
    signal.throwIfAborted();
    const { message, cause } = error as Error;
    // `fetch failed` hides the cause.
    return { reason: cause instanceof Error ? cause.message : message, waitSeconds: undefined };
  }
  if (response.ok) return { text };
  const { status } = response;
  // The reason becomes part of a sentence.
  const reason = `HTTP ${status}: ${errorMessage(text).replace(/\.$/, "")}`;
  if (status === 429 || status === 502 || status === 503)
    return { reason, waitSeconds: Number(response.headers.get("retry-after")) || undefined };
  if (status === 401 || status === 403)
    throw new GatewayRefusal(
      `the gateway refuses the request; put its key into ENGINE_ROOM_API_KEY (${reason})`,
    );
  if (status === 404 || status === 405)
    throw new GatewayRefusal(`the gateway does not accept documents (${reason})`);
  throw new RequestRefusal(reason);
}

/** A single document is sent by itself, so that the answer's status is its own, and a picture without base64, which adds a third. */
function requestOf(documents: readonly PreparedDocument[]): RequestInit {
  const [first, ...more] = documents;
  const isOne = first !== undefined && more.length === 0;
  if (isOne && first.picture !== undefined) {
    const { id, text, metadata, picture } = first;
    const form = new FormData();
    form.set("id", id);
    if (text !== undefined) form.set("text", text);
    form.set("metadata", JSON.stringify(metadata));
    form.set("image", new Blob([new Uint8Array(picture.bytes)], { type: picture.contentType }), picture.name);
    return { method: "POST", body: form };
  }
  const body = JSON.stringify(isOne ? jsonOf(first) : { documents: documents.map(jsonOf) });
  return { method: "POST", headers: { "content-type": "application/json" }, body };
}

function jsonOf({ id, text, picture, metadata }: PreparedDocument): object {
  const image =
    picture === undefined
      ? undefined
      : `data:${picture.contentType};base64,${picture.bytes.toString("base64")}`;
  // JSON leaves out undefined values.
  return { id, text, image, metadata };
}

/** The gateway's answer for each document. */
interface Answer {
  readonly documents?: readonly {
    readonly status: Outcome["status"];
    readonly error?: { readonly message: string };
  }[];
}

function outcomesOf(documents: readonly PreparedDocument[], text: string): Outcome[] {
  let answer: Answer = {};
  try {
    answer = JSON.parse(text) as Answer;
  } catch {
    // Refused below.
  }
  if (answer.documents?.length !== documents.length)
    throw new RequestRefusal("the gateway's answer is not a list of its documents");
  return answer.documents.map(({ status, error }) =>
    status === "failed" ? { status, reason: error?.message ?? "the gateway stated no reason" } : { status },
  );
}

/** A future document, whose picture is not read yet: text, picture, or both. */
export interface Entry {
  /** Name for people: a file, or a place in a file. */
  readonly label: string;
  /** Absent: it comes from the content. */
  readonly id?: string | undefined;
  readonly text?: string | undefined;
  /** Absolute path. */
  readonly imageFile?: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface Picture {
  /** Name without folders. */
  readonly name: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** A document of `POST /v1/documents`. */
export interface PreparedDocument {
  readonly label: string;
  readonly id: string;
  readonly text?: string | undefined;
  readonly picture?: Picture | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** An entry that was not loaded. */
export interface Failure {
  /** File, or line of a file. */
  readonly label: string;
  readonly reason: string;
}

/** Pictures that the gateway decodes. Media type by the end of a name, in lower case; the gateway looks at the content. */
export const PICTURE_TYPES: Readonly<Record<string, string>> = {
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".png": "image/png",
  ".webp": "image/webp",
};

/** Error for an entry that can't be sent: one sentence without the entry's name. */
export class EntryError extends Error {
  override readonly name = "EntryError";
}

/**
 * Reads an entry's picture and gives it an id.
 * @throws EntryError when its picture can't be read or is empty.
 */
export async function prepare(entry: Entry): Promise<PreparedDocument> {
  const { label, text, imageFile, metadata } = entry;
  const picture = imageFile === undefined ? undefined : await readPicture(imageFile);
  return {
    label,
    id: entry.id ?? derivedId(text, picture),
    text,
    picture,
    metadata,
  };
}

/**
 * The same content has the same id in every run, so that a document is loaded once. A picture's id comes from its bytes, after its name for
 * people, so that a caption may change; without a picture, the id comes from the text.
 */
export function derivedId(text: string | undefined, picture: Picture | undefined): string {
  const hash = createHash("sha256")
    .update(picture?.bytes ?? text ?? "")
    .digest("hex")
    .slice(0, 32);
  if (picture === undefined) return `text-${hash}`;
  const stem = basename(picture.name, extname(picture.name));
  const slug = stem
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, 40);
  return slug === "" ? hash : `${slug}-${hash}`;
}

async function readPicture(file: string): Promise<Picture> {
  const name = basename(file);
  const contentType = PICTURE_TYPES[extname(file).toLowerCase()];
  if (contentType === undefined) {
    const known = Object.keys(PICTURE_TYPES).join(", ");
    throw new EntryError(`its name ends with none of ${known}; convert it first`);
  }
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    throw new EntryError(`the file can't be read (${error.code})`);
  });
  if (bytes.length === 0) throw new EntryError("the file is empty");
  return { name, contentType, bytes };
}
