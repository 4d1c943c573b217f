/** A Triton and a gateway in one small HTTP server, which record requests. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface Asked {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: Record<string, unknown>;
}

export interface FakeServers {
  readonly url: string;
  /** In the order of their arrival. */
  readonly asked: Asked[];
  close(): Promise<void>;
}

export const GATEWAY_KEY = "er-a key 'with' \"quotes\"";

/** Texts of a stream: a character comes in two halves, as TensorRT-LLM's detokenizer sends it. */
export const PIECES = ["The capital", " of France", " is Paris", " ☕."];

export async function startFakeServers(): Promise<FakeServers> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    void readBody(request).then((body) => {
      const path = request.url ?? "";
      const { authorization } = request.headers;
      asked.push({ path, authorization, body });
      reply(path, body, authorization, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
}

function reply(
  path: string,
  body: Record<string, unknown>,
  authorization: string | undefined,
  response: ServerResponse,
): void {
  const answer = path === "/v1/chat/completions" ? chatAnswer(body, authorization) : tritonAnswer(path);
  if ("events" in answer) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of answer.events) response.write(`data: ${event}\n\n`);
    response.end();
  } else {
    const { status, json } = answer;
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(json));
  }
}

type Answer = { readonly status: number; readonly json: unknown } | { readonly events: readonly string[] };

const events = (values: readonly unknown[]): string[] => values.map((value) => JSON.stringify(value));

function chatAnswer({ stream }: Record<string, unknown>, authorization: string | undefined): Answer {
  if (authorization !== `Bearer ${GATEWAY_KEY}`)
    return { status: 401, json: { error: { message: "no key" } } };
  const usage = { prompt_tokens: 12, completion_tokens: 4 };
  if (stream !== true) {
    const choices = [{ message: { content: PIECES.join("") }, finish_reason: "length" }];
    return { status: 200, json: { choices, usage } };
  }
  const deltas = PIECES.map((content) => ({ choices: [{ delta: { content } }] }));
  return { events: [...events([...deltas, { choices: [], usage }]), "[DONE]"] };
}

function tritonAnswer(path: string): Answer {
  const [, model, call] = /^\/v2\/models\/([^/]+)\/(generate|generate_stream)$/.exec(path) ?? [];
  if (model === "broken") {
    return call === "generate"
      ? { status: 400, json: { error: "unexpected inference input 'x'" } }
      : { events: events([{ text_output: "The" }, { error: "out of KV cache" }]) };
  }
  const field = model === "llava-1.5" ? "text" : "text_output";
  if (call === "generate")
    return { status: 200, json: { model_name: model, [field]: PIECES.join(""), num_output_tokens: 4 } };
  const sums = PIECES.map((_, index) => PIECES.slice(0, index + 1).join(""));
  const texts = model === "tensorrt_llm" ? ["The ca\uFFFD", ...sums] : PIECES;
  return { events: events(texts.map((piece) => ({ [field]: piece, num_output_tokens: 1 }))) };
}
