/** Server-sent events of an HTTP answer. */
import { createParser } from "eventsource-parser";

/** The data of each event, whatever chunks the network made of them. */
export async function* serverSentData(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    const ready = events;
    events = [];
    yield* ready;
  }
}
