/** Clients that write and delete documents until a database or the gateway is killed. */
import type { Acknowledged } from "../mock-mongo/acknowledged.ts";
import type { Random } from "../mock-mongo/random.ts";
import type { Contents } from "./support.ts";

/** What a client knows of a document that it wrote. */
export interface Written {
  readonly text: string;
  readonly hasImage: boolean;
}

interface Sent {
  readonly id: string;
  readonly text: string;
  readonly image?: string;
}

/** Documents of one writer. */
const IDS = 12;
/** Documents of one request: of the largest ones the gateway makes two batches. */
const MOST_DOCUMENTS = 10;

export interface WriterSettings {
  /** Of a gateway. */
  readonly url: string;
  /** First part of its documents' ids, which no other writer has. */
  readonly name: string;
  /** As data URL. */
  readonly image: string;
  readonly acknowledged: Acknowledged<Written>;
  readonly random: Random;
  /** Whether a request may fail from now on. */
  readonly isOver: () => boolean;
}

/** Writes until something is not acknowledged. @throws Error when that comes before it may. */
export async function write(settings: WriterSettings): Promise<void> {
  const { url, name, image, acknowledged, random, isOver } = settings;
  try {
    while (!isOver()) {
      const id = () => `${name}-${random.below(IDS)}`;
      if (random.below(5) === 0) {
        await remove(url, id(), acknowledged);
        continue;
      }
      const ids = new Set(Array.from({ length: 1 + random.below(MOST_DOCUMENTS) }, id));
      const documents = [...ids].map((one) => ({
        id: one,
        text: `${one} ${random.below(1000)}`,
        ...(random.below(20) === 0 && { image }),
      }));
      await put(url, documents, acknowledged);
    }
  } catch (error) {
    if (!isOver()) throw error;
  }
}

function remove(url: string, id: string, acknowledged: Acknowledged<Written>): Promise<void> {
  return acknowledged.during(new Map([[id, undefined]]), async () => {
    const response = await fetch(`${url}/v1/documents/${id}`, { method: "DELETE" });
    if (!response.ok) throw new Error(`${id} is not deleted: ${await response.text()}`);
  });
}

async function put(
  url: string,
  documents: readonly Sent[],
  acknowledged: Acknowledged<Written>,
): Promise<void> {
  const answer = statusesOf(postDocuments(url, documents));
  const outcomes = await Promise.allSettled(
    documents.map(({ id, text, image }, index) =>
      acknowledged.during(new Map([[id, { text, hasImage: image !== undefined }]]), async () => {
        const status = (await answer)[index];
        if (status !== "created" && status !== "updated" && status !== "unchanged")
          throw new Error(`${id} is ${status}`);
      }),
    ),
  );
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

export function postDocuments(url: string, documents: readonly Sent[]): Promise<Response> {
  return fetch(`${url}/v1/documents`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ documents }),
  });
}

/** What came of each document of a request. @throws Error when it is refused as a whole. */
export async function statusesOf(answer: Promise<Response>): Promise<string[]> {
  const response = await answer;
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  const { documents } = (await response.json()) as { documents: { status: string }[] };
  return documents.map(({ status }) => status);
}

/** The databases' content as its writers know it. */
export function asWritten({ documents }: Contents): Map<string, Written> {
  return new Map(
    [...documents].map(([id, { text, image }]) => [id, { text, hasImage: image !== undefined }]),
  );
}
