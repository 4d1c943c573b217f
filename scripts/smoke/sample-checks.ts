/** The sample collection's question, asked about its picture: all of retrieval, with an answer that is known. */
import { SAMPLE_COLLECTION } from "../seed/sample-collection.ts";
import { isAnswered, sampleManifest } from "../seed/sample-manifest.ts";
import {
  assertSuccess,
  type Check,
  CheckSkipped,
  expect,
  fetchText,
  fetchWithin,
  quote,
} from "./requests.ts";

/** @param headers - Sent to the gateway. */
export function sampleChecks(gateway: string, headers: Record<string, string>): Check[] {
  const { question } = sampleManifest();
  return [
    {
      name: "gateway POST /v1/answer (samples)",
      run: async () => {
        const picture = await fetchWithin(`${gateway}/v1/documents/${question.picture}/image`, { headers });
        if (picture.status === 404)
          throw new CheckSkipped(
            `there is no document ${question.picture}; \`npx engine-room seed\` loads it`,
          );
        await assertSuccess(picture);
        const form = new FormData();
        form.set("question", question.text);
        form.set("image", await picture.blob(), "picture.jpg");
        // A user's own documents change nothing about the answer.
        form.set("filter", JSON.stringify({ "metadata.collection": SAMPLE_COLLECTION }));
        const text = await fetchText(`${gateway}/v1/answer`, { method: "POST", headers, body: form });
        const { answer, sources } = JSON.parse(text) as { answer: string; sources: { id: string }[] };
        if (!sources.some(({ id }) => id === question.picture))
          throw new Error(`${question.picture} is not among the sources`);
        return expect(
          isAnswered(question, answer),
          `${quote(answer)} names no ${question.answer}`,
          quote(answer),
        );
      },
    },
  ];
}
