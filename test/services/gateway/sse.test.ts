import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { serverSentData } from "../../../containers/services/gateway/src/triton/sse.ts";

async function* cutAt(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const places = [...new Set([0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort(
    (a, b) => a - b,
  );
  for (let index = 1; index < places.length; index++) yield bytes.subarray(places[index - 1], places[index]);
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<string[]> {
  const events: string[] = [];
  for await (const data of serverSentData(chunks)) events.push(data);
  return events;
}

describe("server-sent events", () => {
  it("are the same however the network cuts them, also inside a character", async () => {
    const texts = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(texts, fc.array(fc.nat(2000), { maxLength: 12 }), async (parts, cuts) => {
        const data = parts.map((text_output) => JSON.stringify({ text_output }));
        const bytes = Buffer.from(data.map((line) => `data: ${line}\n\n`).join(""));
        expect(await collect(cutAt(bytes, cuts))).toEqual(data.map((line) => Buffer.from(line).toString()));
      }),
    );
  });

  it("are not made of half an event at the end", async () => {
    expect(await collect(cutAt(Buffer.from("data: 1\n\ndata: 2"), []))).toEqual(["1"]);
  });
});
