/** Writes and deletions through the gateway that are recorded, and their content as a client reads it. */
import type { Acknowledged } from "../kill-rounds.ts";
import { type Contents, postDocuments, type SentDocument, statusesOf } from "./support.ts";

/** Content of a written document. */
export interface Written {
  readonly text: string;
  readonly hasImage: boolean;
}

/** Deletes a document. @throws Error if that is not acknowledged. */
export function remove(url: string, id: string, acknowledged: Acknowledged<Written>): Promise<void> {
  return acknowledged.during(new Map([[id, undefined]]), async () => {
    const response = await fetch(`${url}/v1/documents/${id}`, { method: "DELETE" });
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  });
}

/** Writes documents. @throws Error if one of them is not acknowledged. */
export async function put(
  url: string,
  documents: readonly SentDocument[],
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

/** Sorted ids of all documents, which are fewer than a match returns. */
export async function foundBy(url: string): Promise<string[]> {
  const response = await fetch(`${url}/v1/match`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ text: "anything", topK: 100 }),
  });
  const { matches } = (await response.json()) as { matches: { id: string }[] };
  return matches.map(({ id }) => id).sort();
}

/** The databases' content in the form that writers record. */
export function asWritten({ documents }: Contents): Map<string, Written> {
  return new Map(
    [...documents].map(([id, { text, image }]) => [id, { text, hasImage: image !== undefined }]),
  );
}
