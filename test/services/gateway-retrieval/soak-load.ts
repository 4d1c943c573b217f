/** The clients of the soak: each repeats one kind of request, and each failure must have a fault that explains it. */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Random, randomOf } from "../../harness/random.ts";
import type { Acknowledged } from "../kill-rounds.ts";
import { put, remove, type Written } from "./document-writes.ts";

/** Ids that only one writer writes; few enough that one match finds the ids of all writers. */
const IDS_PER_WRITER = 15;
const WRITERS = 4;
const PAUSE_MS = 40;
/** For requests that a stopped process holds, and for reindexing after one was killed. */
const GRACE_MS = 10_000;
const ANSWER_MS = 60_000;
const SLOW_READER_MS = 8000;
const SLOW_CHUNK_MS = 100;
/** In a row on one connection: the system's own buffers hold some megabytes of their answers. */
const SLOW_MATCHES = 8;
const LONG_TEXT = " long".repeat(4000);

interface LoadSettings {
  readonly url: string;
  /** As data URL. */
  readonly image: string;
  readonly acknowledged: Acknowledged<Written>;
  readonly random: Random;
}

interface Span {
  readonly begin: number;
  end: number;
}

interface Failure extends Span {
  readonly message: string;
}

export class Load {
  readonly url: string;
  /** Number of successful requests, by kind. */
  readonly done = new Map<string, number>();
  readonly #settings: LoadSettings;
  readonly #faults: Span[] = [];
  readonly #failures: Failure[] = [];
  #isPaused = false;
  #hasEnded = false;
  #running = 0;

  constructor(settings: LoadSettings) {
    this.#settings = settings;
    this.url = settings.url;
  }

  start(): void {
    const { url, image, acknowledged } = this.#settings;
    const post = (path: string, body: object) => this.#post(path, body);
    const text = (own: Random) => `words ${own.below(1000)} of ${own.below(10)}`;
    void this.#client("embeddings", async (own) => {
      const input = Array.from({ length: 1 + own.below(16) }, () => text(own));
      await (await post("/v1/embeddings", { model: "words", input })).json();
    });
    for (const what of ["text", "image"] as const) {
      void this.#client(`matches by ${what}`, async (own) => {
        await (await post("/v1/match", { [what]: what === "text" ? text(own) : image, topK: 10 })).json();
      });
    }
    for (let writer = 0; writer < WRITERS; writer++) {
      const id = (own: Random) => `${writer}-${own.below(IDS_PER_WRITER)}`;
      void this.#client("writes and deletions", async (own) => {
        if (own.below(4) === 0) return remove(url, id(own), acknowledged);
        const ids = new Set(Array.from({ length: 1 + own.below(4) }, () => id(own)));
        const documents = [...ids].map((one) => ({
          id: one,
          text: `${one} ${text(own)}${own.below(4) === 0 ? LONG_TEXT : ""}`,
          ...(own.below(4) === 0 && { image }),
        }));
        return put(url, documents, acknowledged);
      });
    }
    void this.#client("reads", async (own) => {
      const response = await this.#fetch(`/v1/documents/${own.below(WRITERS)}-${own.below(IDS_PER_WRITER)}`);
      await response.text();
      if (!response.ok && response.status !== 404) throw new Error(`HTTP ${response.status}`);
    });
    void this.#client("streams", async () => {
      const whole = await (await this.#chat()).text();
      if (!whole.includes("[DONE]")) throw new Error("terminated: the stream has no end");
    });
    void this.#client("streams that are left", async () => {
      const reader = (await this.#chat()).body?.getReader();
      await reader?.read();
      await reader?.cancel();
    });
    void this.#client("bodies that are cut", (own) => this.#cut(own));
    void this.#client("slow readers", () => this.#readSlowly());
  }

  /** Resolves when no request is running. */
  async pause(): Promise<void> {
    this.#isPaused = true;
    while (this.#running > 0) await sleep(10);
  }

  resume(): void {
    this.#isPaused = false;
  }

  end(): void {
    this.#hasEnded = true;
  }

  /** A fault explains the errors of requests during it, and for a while after it. */
  async during(fault: () => Promise<void>): Promise<void> {
    const span = { begin: Date.now(), end: Number.POSITIVE_INFINITY };
    this.#faults.push(span);
    await fault();
    span.end = Date.now() + GRACE_MS;
  }

  /** Number of errors that faults explain. */
  explained(): number {
    return this.#failures.filter((failure) => this.#isExplained(failure)).length;
  }

  /** Errors that no fault explains, a sentence each. */
  unexplained(): string[] {
    return this.#failures.filter((failure) => !this.#isExplained(failure)).map(({ message }) => message);
  }

  #isExplained({ begin, end, message }: Failure): boolean {
    const isOfFault = /fetch failed|terminated|ECONNRE|other side closed|HTTP 50[234]|is failed|timeout/.test(
      message,
    );
    return isOfFault && this.#faults.some((fault) => begin <= fault.end && end >= fault.begin);
  }

  /** Repeats some work; after an error it waits until the fault that may have caused it is over. */
  async #client(kind: string, work: (own: Random) => Promise<void>): Promise<void> {
    const own = randomOf(this.#settings.random.below(2 ** 32));
    this.done.set(kind, this.done.get(kind) ?? 0);
    while (!this.#hasEnded) {
      await sleep(own.below(2 * PAUSE_MS));
      if (this.#isPaused) continue;
      const begin = Date.now();
      let hasFailed = false;
      this.#running += 1;
      try {
        await work(own);
        this.done.set(kind, (this.done.get(kind) ?? 0) + 1);
      } catch (error) {
        hasFailed = true;
        const { message, cause } = error as Error;
        this.#failures.push({ begin, end: Date.now(), message: `${kind}: ${message} ${cause ?? ""}` });
      } finally {
        this.#running -= 1;
      }
      while (hasFailed && !this.#hasEnded && this.#isInFault()) await sleep(PAUSE_MS);
    }
  }

  #isInFault(): boolean {
    return (this.#faults.at(-1)?.end ?? 0) > Date.now();
  }

  #fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(this.url + path, { ...init, signal: AbortSignal.timeout(ANSWER_MS) });
  }

  async #post(path: string, body: object): Promise<Response> {
    const response = await this.#fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    return response;
  }

  #chat(): Promise<Response> {
    const messages = [{ role: "user", content: "Say many words." }];
    return this.#post("/v1/chat/completions", { model: "small", messages, stream: true });
  }

  /** Sends half of a body, and leaves. */
  async #cut(own: Random): Promise<void> {
    const path = ["/v1/documents", "/v1/match", "/v1/chat/completions"][own.below(3)] ?? "";
    const text = requestText(path, { id: "cut", text: LONG_TEXT, image: this.#settings.image });
    const socket = this.#connect();
    socket.resume().write(text.slice(0, 200 + own.below(text.length - 201)));
    await sleep(own.below(PAUSE_MS));
    socket.destroy();
  }

  /** Requests more than the system's buffers hold, reads it in pieces, and leaves. */
  async #readSlowly(): Promise<void> {
    const socket = this.#connect();
    socket.on("data", () => {
      socket.pause();
      setTimeout(() => socket.resume(), SLOW_CHUNK_MS);
    });
    socket.write(requestText("/v1/match", { text: "long", topK: 100 }).repeat(SLOW_MATCHES));
    await sleep(SLOW_READER_MS);
    socket.destroy();
  }

  #connect() {
    const socket = connect(Number(new URL(this.url).port), "127.0.0.1");
    // Errors of a client that does not wait for a response are ignored.
    return socket.on("error", () => undefined);
  }
}

function requestText(path: string, body: object): string {
  const text = JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}
