/** A document in, found, answered from, and out again: through every part of retrieval. */
import { type Check, expect, fetchText, gatewayRequests, quote } from "./requests.ts";
import { SAMPLE_IMAGE_DATA_URL } from "./sample-image.ts";

/** Taken away again at the end; a name of its own, so that no document of a user is touched. */
const DOCUMENT = {
  id: "engine-room-smoke",
  text: "The zebrafish tank in the basement is cleaned by Ms Okonkwo every Thursday.",
  metadata: { source: "smoke" },
};

interface Match {
  readonly matches: readonly { readonly id: string; readonly score: number }[];
}

/** In this order: each builds on the one before. */
export function retrievalChecks(gateway: string, headers: Record<string, string>): Check[] {
  const { get, post } = gatewayRequests(gateway, headers);
  const finds = (answer: unknown) => {
    const { matches } = answer as Match;
    return expect(
      matches[0]?.id === DOCUMENT.id,
      `the first match is ${matches[0]?.id ?? "nothing"}`,
      `${matches.length} matches, the document first`,
    );
  };
  return [
    get("/", (text) => expect(/<html/i.test(text), "no page", "a page")),
    get("/status", (text) =>
      (JSON.parse(text) as { name: string; state: string }[])
        .map(({ name, state }) => `${name} ${state}`)
        .join(", "),
    ),
    post(
      "/v1/documents",
      { ...DOCUMENT, image: SAMPLE_IMAGE_DATA_URL },
      (answer) => (answer as { documents: { status: string }[] }).documents[0]?.status ?? "nothing",
    ),
    // By its own words, which no document of a user is nearer to.
    post("/v1/match", { text: DOCUMENT.text }, finds),
    post("/v1/match", { text: DOCUMENT.text, image: SAMPLE_IMAGE_DATA_URL }, finds),
    post("/v1/answer", { question: "Who cleans the zebrafish tank?", maxTokens: 48 }, (answer) => {
      const { answer: text, sources } = answer as { answer: string; sources: { id: string }[] };
      return expect(
        sources.some(({ id }) => id === DOCUMENT.id),
        "the document is not among the sources",
        quote(text),
      );
    }),
    {
      name: "gateway DELETE /v1/documents/{id}",
      run: async () => {
        await fetchText(`${gateway}/v1/documents/${DOCUMENT.id}`, { method: "DELETE", headers });
        return "gone";
      },
    },
  ];
}
