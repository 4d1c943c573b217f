/**
 * A closed-loop load: a number of requests at a time, each answered before the next is sent, for a bounded time.
 * autocannon does the same with thirty packages, and the requests, most of this file, would remain.
 */
import { writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { cpus, totalmem } from "node:os";
import { resolve } from "node:path";
import { callerDirectory } from "../program/stack-file.ts";

export interface Cell {
  readonly concurrency: number;
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Milliseconds: number;
  readonly p99Milliseconds: number;
  /** Requests that were not answered with 200; they count in no other figure. */
  readonly failed: number;
}

export type Send = (index: number) => Promise<void>;

/** @param seconds - How long new requests are sent; running requests are then completed. */
export async function measure(send: Send, concurrency: number, seconds: number): Promise<Cell> {
  const milliseconds: number[] = [];
  let failed = 0;
  let index = 0;
  const started = performance.now();
  const end = started + seconds * 1000;
  const client = async () => {
    while (performance.now() < end) {
      const sent = performance.now();
      await send(index++).then(
        () => milliseconds.push(performance.now() - sent),
        () => {
          failed += 1;
        },
      );
    }
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  const elapsedSeconds = (performance.now() - started) / 1000;
  const sorted = milliseconds.toSorted((a, b) => a - b);
  return {
    concurrency,
    requests: sorted.length,
    requestsPerSecond: sorted.length / elapsedSeconds,
    p50Milliseconds: quantile(sorted, 0.5),
    p99Milliseconds: quantile(sorted, 0.99),
    failed,
  };
}

/** Value at a share of a sorted list; 0 for an empty list. */
export function quantile(sorted: readonly number[], share: number): number {
  if (sorted.length === 0) return 0;
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

export function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}

/** Posts JSON over kept connections. @throws When the answer is not 200. */
export function jsonSender(
  url: string,
  body: (index: number) => unknown,
  headers: Readonly<Record<string, string>> = {},
): Send {
  return textSender(url, (index) => JSON.stringify(body(index)), headers);
}

/** Posts a text of JSON, as {@link jsonSender}. */
export function textSender(
  url: string,
  body: (index: number) => string,
  headers: Readonly<Record<string, string>> = {},
): Send {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  return (index) =>
    new Promise((resolve, reject) => {
      const text = body(index);
      const call = request(
        url,
        {
          agent,
          method: "POST",
          headers: {
            "content-type": "application/json",
            "content-length": Buffer.byteLength(text),
            ...headers,
          },
        },
        (response) => {
          response.on("data", () => {});
          response.on("error", reject);
          response.on("end", () =>
            response.statusCode === 200 ? resolve() : reject(new Error(`HTTP ${response.statusCode}`)),
          );
        },
      );
      call.on("error", reject);
      call.end(text);
    });
}

const WORDS = "a small black cat sits on the old wooden table near window".split(" ");

/** A text of twelve words that differs for each index. */
export function sampleText(index: number): string {
  const place = index % WORDS.length;
  return WORDS.with(place, `${WORDS[place]}${index}`).join(" ");
}

/** A prompt of about that many tokens, each of these words one token; its beginning differs for each index. */
export function longText(index: number, tokens: number): string {
  const words = Array.from(
    { length: Math.max(1, tokens - 8) },
    (_, place) => WORDS[(index + place) % WORDS.length],
  );
  return `${index}. Go on: ${words.join(" ")}`;
}

/** One text a request, to Triton's text_encoder. @param outputs - Tensors to ask for. */
export function textEncoderSender(triton: string, outputs: readonly string[] = ["text_embedding"]): Send {
  return jsonSender(`${triton}/v2/models/text_encoder/infer`, (index) => ({
    inputs: [{ name: "text", datatype: "BYTES", shape: [1, 1], data: [sampleText(index)] }],
    outputs: outputs.map((name) => ({ name })),
  }));
}

/** One text a request, to the gateway. @param model - Id of the text encoder. */
export function embeddingsSender(
  gateway: string,
  headers: Record<string, string>,
  model = "all-MiniLM-L6-v2",
): Send {
  const body = (index: number) => ({ model, input: sampleText(index) });
  return jsonSender(`${gateway}/v1/embeddings`, body, headers);
}

/**
 * Keeps figures by name in a JSON file, part by part, so that a later failure loses none, with the machine that they were measured
 * on.
 *
 * @param out - Relative to where the user typed; nothing is written for anything but a text.
 */
export function figureKeeper(out: unknown): (name: string, value: unknown) => void {
  const [processor] = cpus();
  const machine = {
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    processor: processor?.model ?? "",
  };
  const figures: Record<string, unknown> = { machine };
  return (name, value) => {
    figures[name] = value;
    if (typeof out === "string")
      writeFileSync(resolve(callerDirectory(), out), `${JSON.stringify(figures, null, 2)}\n`);
  };
}
