/** Answers as server-sent events, for one prompt or several at once. */
import { type ApiError, toOpenAiBody } from "../errors.ts";
import type { Ending } from "../triton/generate.ts";
import { type AnswerHead, type ChunkFormat, type Usage, usageOf } from "./answers.ts";

/** One answer on its way: pieces of text, then how it ended. */
export type AnswerStream = AsyncGenerator<string, Ending, void>;

/** Something that came on one of several streams. */
export type StreamEvent =
  | { readonly index: number; readonly text: string }
  | { readonly index: number; readonly ending: Ending };

/** Events of all streams in the order in which they come. Leaving early leaves every stream. */
export async function* mergeStreams(
  streams: readonly AnswerStream[],
): AsyncGenerator<StreamEvent, void, void> {
  const advance = async (index: number, stream: AnswerStream) => ({
    index,
    stream,
    result: await stream.next(),
  });
  const pending = new Map(streams.map((stream, index) => [index, advance(index, stream)]));
  try {
    while (pending.size > 0) {
      const { index, stream, result } = await Promise.race(pending.values());
      if (result.done) {
        pending.delete(index);
        yield { index, ending: result.value };
      } else {
        pending.set(index, advance(index, stream));
        yield { index, text: result.value };
      }
    }
  } finally {
    for (const [index, next] of pending) {
      // A stream that is waiting for Triton can't be left before Triton answers; its signal ends that wait.
      next.catch(() => undefined);
      streams[index]?.return(undefined as never).catch(() => undefined);
    }
  }
}

export interface EventStreamOptions {
  readonly head: AnswerHead;
  readonly format: ChunkFormat & { readonly object: string };
  /** Whether a last chunk with usage follows, and every other one says `usage: null`. */
  readonly includeUsage: boolean;
  /** Told once, when all answers have ended. */
  readonly onUsage: (usage: Usage) => void;
  /** What a client may read of a failure in the middle of the stream. */
  readonly toApiError: (error: unknown) => ApiError;
}

/** Text of a `text/event-stream`: chunks, then `[DONE]`; a failure becomes an error event, which OpenAI clients throw. */
export async function* eventStream(
  events: AsyncIterable<StreamEvent>,
  options: EventStreamOptions,
): AsyncGenerator<string, void, void> {
  const { head, format, includeUsage, onUsage, toApiError } = options;
  const chunk = (choices: readonly object[], usage: Usage | null) =>
    serverSentEvent({ ...head, object: format.object, choices, ...(includeUsage ? { usage } : {}) });
  const started = new Set<number>();
  const start = (index: number) => {
    if (started.has(index)) return "";
    started.add(index);
    const first = format.start(index);
    return first === undefined ? "" : chunk([first], null);
  };
  const endings: Ending[] = [];
  try {
    for await (const event of events) {
      // The opening chunk shares a write with what follows it, so that no packet waits for another.
      if ("text" in event) {
        yield start(event.index) + chunk([format.text(event.index, event.text)], null);
      } else {
        endings.push(event.ending);
        yield start(event.index) + chunk([format.end(event.index, event.ending.finishReason)], null);
      }
    }
  } catch (error) {
    yield serverSentEvent(toOpenAiBody(toApiError(error)));
    return;
  }
  const usage = usageOf(endings);
  onUsage(usage);
  yield `${includeUsage ? chunk([], usage) : ""}data: [DONE]\n\n`;
}

function serverSentEvent(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
