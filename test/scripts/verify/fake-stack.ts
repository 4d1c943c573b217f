/** Tritons and a gateway in one small HTTP server, with right answers or one fault. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { goldenPictures } from "../../../infra/plan/catalogue/language-models.ts";
import {
  gpuSeries,
  type MetricSeries,
  tensorRtLlmSeries,
  tritonSeries,
} from "../../../infra/plan/catalogue/metrics.ts";
import type { Endpoints } from "../../../infra/plan/endpoints.ts";
import { goldenPicture } from "../../../scripts/ask/golden.ts";
import { sampleManifest } from "../../../scripts/seed/samples.ts";

/** Faults of a stack. */
export type Fault =
  | "wrong answer"
  | "other words in a stream"
  | "other answers in a batch"
  | "a metric without waiting requests"
  | "other vectors of texts"
  | "other vectors in a batch"
  | "pictures mixed up"
  | "error of the gateway";

export interface FakeStack {
  readonly endpoints: Endpoints;
  fault: Fault | undefined;
  /** Paths of requests, in order. */
  readonly asked: string[];
  close(): Promise<void>;
}

type Body = Readonly<Record<string, unknown>>;

/** Series of every server of the two examples at 25.07; a page may have more series than requested. */
const SERIES: readonly MetricSeries[] = [
  ...tritonSeries([
    "ensemble",
    "llava-1.5",
    "clip_text",
    "clip_text_tower",
    "llava_ensemble",
    "text_encoder",
    "text_tower",
    "vision_encoder",
    "vision_tower",
  ]),
  ...tensorRtLlmSeries({ flavour: "inflight_batcher_llm", tritonBackend: "tensorrtllm" }, "25.07"),
  ...gpuSeries,
];

export async function startFakeStack(models: readonly string[]): Promise<FakeStack> {
  let inFlight = 0;
  const server = createServer((request, response) => {
    inFlight += 1;
    void bodyOf(request).then(async (body) => {
      const path = request.url ?? "";
      stack.asked.push(path);
      // Waits until requests that were sent together have arrived.
      if (stack.fault === "other answers in a batch") await new Promise((resolve) => setTimeout(resolve, 20));
      const { status, type, text } = reply(path, body, inFlight > 1, stack.fault);
      inFlight -= 1;
      response.writeHead(status, { "content-type": type }).end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const http = `http://${address}`;
  const triton = { http, grpc: address, metrics: `${http}/metrics` };
  const stack: FakeStack = {
    endpoints: {
      gateway: http,
      mongo: null,
      vector: null,
      encoders: triton,
      models: Object.fromEntries(models.map((name) => [name, { ...triton, generate: `${http}/unused` }])),
      gatewayReach: "host",
      gatewayDnsName: null,
      reach: "host",
    },
    fault: undefined,
    asked: [],
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return stack;
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return text === "" ? {} : (JSON.parse(text) as Body);
}

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

const json = (value: unknown, status = 200): Reply => ({
  status,
  type: "application/json",
  text: JSON.stringify(value),
});

function reply(path: string, body: Body, isTogether: boolean, fault: Fault | undefined): Reply {
  if (path === "/metrics") return { status: 200, type: "text/plain", text: metricsPage(fault) };
  const [, model = "", call] = /^\/v2\/models\/([^/]+)\/(\w+)$/.exec(path) ?? [];
  if (call === "infer") return json(inferAnswer(model, body, fault));
  const prompt = String(body.text_input ?? body.prompt ?? "");
  const words =
    fault === "other answers in a batch" && isTogether
      ? [" other"]
      : answerWords(prompt, hasPicture(body), fault);
  const field = model === "llava-1.5" ? "text" : "text_output";
  if (call === "generate") return json({ [field]: words.join("") });
  if (call === "generate_stream") {
    const pieces = fault === "other words in a stream" ? words.slice(1) : words;
    const events = pieces.map((piece) => `data: ${JSON.stringify({ [field]: piece })}\n\n`);
    return { status: 200, type: "text/event-stream", text: events.join("") };
  }
  if (path === "/v1/completions") {
    return fault === "error of the gateway"
      ? json({ error: { message: "no place at http://10.1.2.3" } }, 503)
      : json({ choices: [{ text: words.join("") }], usage: { prompt_tokens: 9, completion_tokens: 3 } });
  }
  if (path === "/v1/chat/completions") {
    const words = answerWords(JSON.stringify(body.messages), hasPicture(body), fault);
    const text = words.join("");
    if (body.stream === true) {
      const events = words.map(
        (content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`,
      );
      return { status: 200, type: "text/event-stream", text: `${events.join("")}data: [DONE]\n\n` };
    }
    return json({ choices: [{ message: { content: text } }], usage: null });
  }
  const [, id] = /^\/v1\/documents\/([\w-]+)\/image$/.exec(path) ?? [];
  if (id === "sample-cat" || id === "sample-rocket") return { status: 200, type: "image/png", text: id };
  return json({ error: { message: "not found" } }, 404);
}

/** True when the request has the picture or its published address. */
function hasPicture(body: Body): boolean {
  const text = JSON.stringify(body);
  return text.includes(goldenPicture("coffee").base64) || text.includes(goldenPictures.coffee);
}

function answerWords(prompt: string, isAboutPicture: boolean, fault: Fault | undefined): readonly string[] {
  if (fault === "wrong answer") return [" I", " do", " not", " know"];
  if (prompt.includes("Soyer")) return [" chef", " before", " moving"];
  if (isAboutPicture && /what is shown in this/i.test(prompt)) return [" a cup", " of", " coffee"];
  return [" after ", prompt.slice(0, 12), "."];
}

function metricsPage(fault: Fault | undefined): string {
  const lines = SERIES.filter(
    ({ labels }) => fault !== "a metric without waiting requests" || labels.request_type !== "waiting",
  ).map(({ name, labels }) => {
    const pairs = Object.entries({ ...labels, version: "1" }).map(([key, value]) => `${key}="${value}"`);
    return `${name}{${pairs.join(",")}} 0`;
  });
  return `# HELP nv_inference_count Number of inferences\n${lines.join("\n")}\n`;
}

/** Unit vectors with the published similarities: a triangle in three dimensions. */
const SUN = Math.sqrt(1 - 0.666 ** 2);
const STADIUM = (0.1411 - 0.1046 * 0.666) / SUN;
const TEXT_VECTORS: Readonly<Record<string, readonly number[]>> = {
  "The weather is lovely today.": [1, 0, 0],
  "It's so sunny outside!": [0.666, SUN, 0],
  "He drove to the stadium.": [0.1046, STADIUM, Math.sqrt(1 - 0.1046 ** 2 - STADIUM ** 2)],
};

const SAMPLES = sampleManifest().pictures;

function inferAnswer(model: string, body: Body, fault: Fault | undefined): object {
  const inputs = body.inputs as readonly { readonly name: string; readonly data: readonly string[] }[];
  const data = (name: string) => inputs.find((input) => input.name === name)?.data ?? [];
  const outputs = {
    text_embedding: data("text").map((text) =>
      model === "clip_text"
        ? place(SAMPLES.findIndex((sample) => sample.text === text))
        : textVector(text, data("text").length, fault),
    ),
    image_embedding: data("image").map((image) => place(pictureIndex(image, fault))),
  };
  return {
    outputs: Object.entries(outputs)
      .filter(([, rows]) => rows.length > 0)
      .map(([name, rows]) => ({
        name,
        datatype: "FP32",
        shape: [rows.length, rows[0]?.length ?? 0],
        data: rows.flat(),
      })),
  };
}

function textVector(text: string, batch: number, fault: Fault | undefined): readonly number[] {
  const vector = TEXT_VECTORS[text] ?? [0, 0, 1];
  if (fault === "other vectors of texts") return [0, 0, 1];
  return fault === "other vectors in a batch" && batch > 1 ? vector.map((value) => value + 0.1) : vector;
}

function pictureIndex(image: string, fault: Fault | undefined): number {
  const base64 = image.slice(image.indexOf(",") + 1);
  const id =
    base64 === goldenPicture("coffee").base64 ? "sample-coffee" : Buffer.from(base64, "base64").toString();
  const index = SAMPLES.findIndex((sample) => sample.id === id);
  return fault === "pictures mixed up" ? index + 1 : index;
}

/** A different unit vector for each place. */
function place(index: number): number[] {
  return Array.from({ length: SAMPLES.length + 1 }, (_, at) => (at === index ? 1 : 0));
}
