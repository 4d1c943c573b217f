/** A fake Triton: encoders whose vectors depend on the content, and a language model that repeats its prompt. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import sharp from "sharp";
import {
  decodeResponse,
  JSON_LENGTH_HEADER,
} from "../../../containers/services/gateway/src/triton/tensors.ts";

export const TEXT_DIMENSION = 64;
/** 4 × 4 pixels of three colours. */
export const IMAGE_DIMENSION = 48;

/** A request to an encoder. */
export interface EncoderCall {
  readonly model: string;
  readonly rows: number;
  readonly texts: readonly string[];
  readonly requestId: string | undefined;
}

export interface FakeTriton {
  readonly url: string;
  readonly encoderCalls: EncoderCall[];
  /** Bodies of requests to /generate and /generate_stream. */
  readonly generations: Readonly<Record<string, unknown>>[];
  /** Changes its responses. */
  readonly behaviour: {
    /** Texts that make the encoder refuse a whole batch. */
    refuses: string | undefined;
    /** Answers everything with 503. */
    isUnavailable: boolean;
    /** Answer of the language model, piece by piece. */
    answer: readonly string[];
    /** Breaks a stream after its first piece. */
    breaksStream: boolean;
    /** Waits before an encoder's answer. */
    beforeEncoding: () => Promise<void>;
  };
  close(): Promise<void>;
}

export async function startFakeTriton(): Promise<FakeTriton> {
  const encoderCalls: EncoderCall[] = [];
  const generations: Record<string, unknown>[] = [];
  const behaviour: FakeTriton["behaviour"] = {
    refuses: undefined,
    isUnavailable: false,
    answer: ["It is ", "a cat."],
    breaksStream: false,
    beforeEncoding: async () => undefined,
  };
  const server = createServer(async (request, response) => {
    const body = await bodyOf(request);
    const [, model = "", action = ""] = /^\/v2\/models\/([^/]+)\/(\w+)$/.exec(request.url ?? "") ?? [];
    if (behaviour.isUnavailable) return reply(response, 503, { error: "Server is shutting down" });
    if (!action.startsWith("infer") && !action.startsWith("generate")) return reply(response, 200, {});
    if (action === "infer") return infer(model, request, response, body);
    generations.push({
      path: request.url,
      requestId: request.headers["x-request-id"],
      ...JSON.parse(body.toString()),
    });
    if (action === "generate") return reply(response, 200, { text_output: behaviour.answer.join("") });
    return stream(response);
  });

  async function infer(model: string, request: IncomingMessage, response: ServerResponse, body: Buffer) {
    const inputs = readInputs(body, Number(request.headers[JSON_LENGTH_HEADER]));
    const texts = (inputs.get("text") ?? []).map((text) => text.toString());
    const images = inputs.get("image") ?? [];
    encoderCalls.push({
      model,
      rows: Math.max(texts.length, images.length),
      texts,
      requestId: request.headers["x-request-id"] as string | undefined,
    });
    await behaviour.beforeEncoding();
    const { refuses } = behaviour;
    if (refuses !== undefined && texts.some((text) => text.includes(refuses))) {
      return reply(response, 400, { error: "the text is refused" });
    }
    const outputs: [string, string, number[][]][] = [];
    if (texts.length > 0) {
      outputs.push(["text_embedding", "FP32", texts.map(textVector)]);
      outputs.push(["token_count", "INT32", texts.map((text) => [text.split(" ").length])]);
    }
    if (images.length > 0)
      outputs.push(["image_embedding", "FP32", await Promise.all(images.map(imageVector))]);
    return replyTensors(response, body, Number(request.headers[JSON_LENGTH_HEADER]), outputs);
  }

  async function stream(response: ServerResponse) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const [index, piece] of behaviour.answer.entries()) {
      await new Promise((resolve) =>
        response.write(`data: ${JSON.stringify({ text_output: piece })}\n\n`, resolve),
      );
      if (behaviour.breaksStream && index === 0) {
        // Waits until the piece arrives: a reset discards unread data.
        await new Promise((resolve) => setTimeout(resolve, 50));
        return response.destroy();
      }
    }
    return response.end();
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    encoderCalls,
    generations,
    behaviour,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** A request has the layout of an answer, with `inputs` for `outputs`. */
function readInputs(body: Buffer, jsonBytes: number): ReadonlyMap<string, Buffer[]> {
  const header = JSON.parse(body.toString("utf8", 0, jsonBytes)) as { readonly inputs: unknown };
  const json = Buffer.from(JSON.stringify({ outputs: header.inputs }));
  const tensors = decodeResponse(Buffer.concat([json, body.subarray(jsonBytes)]), json.length);
  return new Map([...tensors].map(([name, { data }]) => [name, elementsOf(data)]));
}

function elementsOf(data: Buffer): Buffer[] {
  const elements: Buffer[] = [];
  for (let offset = 0; offset < data.length; ) {
    const length = data.readUInt32LE(offset);
    elements.push(data.subarray(offset + 4, offset + 4 + length));
    offset += 4 + length;
  }
  return elements;
}

function replyTensors(
  response: ServerResponse,
  request: Buffer,
  jsonBytes: number,
  outputs: readonly [string, string, number[][]][],
): void {
  const { outputs: wanted } = JSON.parse(request.toString("utf8", 0, jsonBytes)) as {
    readonly outputs: readonly { readonly name: string }[];
  };
  const given = outputs.filter(([name]) => wanted.some((one) => one.name === name));
  const tensors = given.map(([, datatype, rows]) =>
    Buffer.concat(
      rows.flat().map((value) => {
        const bytes = Buffer.alloc(4);
        if (datatype === "FP32") bytes.writeFloatLE(value);
        else bytes.writeInt32LE(value);
        return bytes;
      }),
    ),
  );
  const json = Buffer.from(
    JSON.stringify({
      outputs: given.map(([name, datatype, rows], index) => ({
        name,
        datatype,
        shape: [rows.length, rows[0]?.length ?? 0],
        parameters: { binary_data_size: tensors[index]?.length },
      })),
    }),
  );
  response
    .writeHead(200, { [JSON_LENGTH_HEADER]: String(json.length) })
    .end(Buffer.concat([json, ...tensors]));
}

/** Vectors of texts with common words are close. */
export function textVector(text: string): number[] {
  const vector = new Array<number>(TEXT_DIMENSION).fill(0.01);
  for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? []) {
    let hash = 7;
    for (const letter of word) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
    vector[hash % TEXT_DIMENSION] = (vector[hash % TEXT_DIMENSION] ?? 0) + 1;
  }
  return vector;
}

/** Vectors of pictures with the same colours in the same places are close. */
async function imageVector(bytes: Buffer): Promise<number[]> {
  const { data } = await sharp(bytes)
    .resize(4, 4, { fit: "fill" })
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return [...data].map((value) => value / 255 + 0.01);
}
