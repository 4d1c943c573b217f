/** Retrieval of a running stack: storing documents against only their encoding, and a match against only its embedding. */
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import {
  embeddingsSender,
  jsonSender,
  measure,
  median,
  type Send,
  sampleText,
  textEncoderSender,
} from "../../scripts/bench/load.ts";
import { tell } from "../harness/progress.ts";

export interface IngestResult {
  readonly documents: number;
  readonly documentsPerSecond: number;
  /** Throughput of the same texts directly in Triton, in the encoder's batches: the mean of before and after. */
  readonly encoderTextsPerSecond: number;
  /** Documents divided by texts. */
  readonly ratio: number;
}

export interface MatchResult {
  readonly rounds: number;
  readonly documents: number;
  readonly matchP50Milliseconds: number;
  /** Latency of the same text in POST /v1/embeddings of the same gateway. */
  readonly embeddingP50Milliseconds: number;
  /** Latency of the same text directly in Triton. */
  readonly encoderP50Milliseconds: number;
  /** Match divided by embedding. */
  readonly ratio: number;
  /** Match divided by encoder. */
  readonly encoderRatio: number;
}

export interface RetrievalResult {
  readonly ingest: IngestResult;
  readonly match: MatchResult;
}

const DOCUMENTS = 10_000;
const DOCUMENTS_PER_REQUEST = 256;
const SENDERS = 4;
/** New requests are sent no longer than this. */
const INGEST_LIMIT_SECONDS = 600;
const ENCODER_SECONDS = 10;
const WARM_UP_SECONDS = 2;
const MATCH_ROUNDS = 400;
const WARM_UP_ROUNDS = 100;

/**
 * Loads 10,000 documents of text, measures, and deletes them again.
 *
 * @throws Error when the gateway refuses a document, or when all of them take longer than ten minutes.
 */
export async function measureRetrieval(
  gateway: string,
  encoders: TritonEndpoints,
  headers: Record<string, string>,
): Promise<RetrievalResult> {
  // Texts of an earlier run would be unchanged, and cost nothing.
  const run = `bench-${Date.now().toString(36)}`;
  const url = `${gateway}/v1/documents`;
  try {
    const ingest = await measureIngest(url, encoders.http, run, headers);
    return { ingest, match: await measureMatch(gateway, encoders.http, headers) };
  } finally {
    await remove(url, run, headers);
  }
}

/** Two lines for people. */
export function retrievalText({ ingest, match }: RetrievalResult): string {
  return [
    `${ingest.documents} documents in: ${ingest.documentsPerSecond.toFixed(0)} documents/s against ` +
      `${ingest.encoderTextsPerSecond.toFixed(0)} texts/s of the encoder alone, ratio ${ingest.ratio.toFixed(2)}`,
    `match among ${match.documents}, ${match.rounds} rounds: p50 ${match.matchP50Milliseconds.toFixed(2)} ms against ` +
      `${match.embeddingP50Milliseconds.toFixed(2)} of the embedding alone, ratio ${match.ratio.toFixed(2)}; and against ` +
      `${match.encoderP50Milliseconds.toFixed(2)} of Triton asked directly, ratio ${match.encoderRatio.toFixed(2)}`,
  ].join("\n");
}

async function measureIngest(
  url: string,
  triton: string,
  run: string,
  headers: Record<string, string>,
): Promise<IngestResult> {
  const batch = await maxBatchSize(triton);
  const encoder = encoderSender(triton, batch);
  await measure(encoder, SENDERS, WARM_UP_SECONDS);
  const before = await measure(encoder, SENDERS, ENCODER_SECONDS);
  const documentsPerSecond = await ingest(url, run, headers);
  const after = await measure(encoder, SENDERS, ENCODER_SECONDS);
  if (before.failed + after.failed > 0) throw new Error("The encoder failed on some of its own requests.");
  const encoderTextsPerSecond = (batch * (before.requestsPerSecond + after.requestsPerSecond)) / 2;
  return {
    documents: DOCUMENTS,
    documentsPerSecond,
    encoderTextsPerSecond,
    ratio: documentsPerSecond / encoderTextsPerSecond,
  };
}

/** @returns Documents per second, from the first request to the last answer. */
async function ingest(url: string, run: string, headers: Record<string, string>): Promise<number> {
  const started = performance.now();
  const end = started + INGEST_LIMIT_SECONDS * 1000;
  let next = 0;
  const sender = async () => {
    while (next < DOCUMENTS) {
      if (performance.now() > end)
        throw new Error(`${next} of ${DOCUMENTS} documents were sent in ${INGEST_LIMIT_SECONDS} s.`);
      const first = next;
      next = Math.min(DOCUMENTS, first + DOCUMENTS_PER_REQUEST);
      const documents = Array.from({ length: next - first }, (_, index) => ({
        id: `${run}-${first + index}`,
        text: sampleText(first + index),
        metadata: { run },
      }));
      await write(url, documents, headers);
      if (Math.floor(next / 1000) > Math.floor(first / 1000)) tell(`${next} of ${DOCUMENTS} documents sent`);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return DOCUMENTS / ((performance.now() - started) / 1000);
}

async function write(url: string, documents: readonly object[], headers: Record<string, string>) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ documents }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST /v1/documents: HTTP ${response.status}: ${text.slice(0, 200)}`);
  const answer = JSON.parse(text) as { documents: { status: string; error?: { message: string } }[] };
  const wrong = answer.documents.find(({ status }) => status !== "created");
  if (wrong !== undefined)
    throw new Error(`A new document is ${wrong.status}: ${wrong.error?.message ?? "no reason was given"}`);
}

async function measureMatch(
  gateway: string,
  triton: string,
  headers: Record<string, string>,
): Promise<MatchResult> {
  // Each index is one text, so all senders embed the same texts.
  const senders = {
    encoder: textEncoderSender(triton),
    embedding: embeddingsSender(gateway, headers),
    match: jsonSender(`${gateway}/v1/match`, (index) => ({ text: sampleText(index), topK: 5 }), headers),
  };
  const names = Object.keys(senders) as (keyof typeof senders)[];
  const milliseconds = { encoder: [] as number[], embedding: [] as number[], match: [] as number[] };
  for (let round = 0; round < WARM_UP_ROUNDS + MATCH_ROUNDS; round++) {
    // Each round starts with another sender, so that none always has the warmer caches.
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length] as keyof typeof senders;
      const started = performance.now();
      await senders[name](DOCUMENTS + round);
      if (round >= WARM_UP_ROUNDS) milliseconds[name].push(performance.now() - started);
    }
  }
  const matchP50Milliseconds = median(milliseconds.match);
  const embeddingP50Milliseconds = median(milliseconds.embedding);
  const encoderP50Milliseconds = median(milliseconds.encoder);
  return {
    rounds: MATCH_ROUNDS,
    documents: DOCUMENTS,
    matchP50Milliseconds,
    embeddingP50Milliseconds,
    encoderP50Milliseconds,
    ratio: matchP50Milliseconds / embeddingP50Milliseconds,
    encoderRatio: matchP50Milliseconds / encoderP50Milliseconds,
  };
}

/** Sends texts in batches; vectors are returned as bytes, as to the gateway, since Triton is slow at writing numbers. */
function encoderSender(triton: string, batch: number): Send {
  return jsonSender(`${triton}/v2/models/text_encoder/infer`, (index) => ({
    inputs: [
      {
        name: "text",
        datatype: "BYTES",
        shape: [batch, 1],
        data: Array.from({ length: batch }, (_, row) => sampleText(index * batch + row)),
      },
    ],
    outputs: [{ name: "text_embedding", parameters: { binary_data: true } }],
  }));
}

async function maxBatchSize(triton: string): Promise<number> {
  const response = await fetch(`${triton}/v2/models/text_encoder/config`);
  if (!response.ok) throw new Error(`Triton has no configuration of text_encoder: HTTP ${response.status}`);
  return Math.max(1, ((await response.json()) as { max_batch_size: number }).max_batch_size);
}

/** Deletes the documents of a run, so that no later match has them. */
async function remove(url: string, run: string, headers: Record<string, string>): Promise<void> {
  let next = 0;
  const sender = async () => {
    while (next < DOCUMENTS) {
      const response = await fetch(`${url}/${run}-${next++}`, { method: "DELETE", headers });
      await response.arrayBuffer();
      if (!response.ok)
        throw new Error(`The documents ${run}-* are not all deleted: HTTP ${response.status}.`);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
}
