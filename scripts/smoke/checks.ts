/** One real request to every endpoint of a stack's outputs. */

import { credentials, makeGenericClientConstructor } from "@grpc/grpc-js";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { type AskedModel, answer, askedModel, atGateway, atTriton, CantAskError } from "../ask/golden.ts";
import { gatewayCompletion, type PreparedRequest } from "../ask/prepared-request.ts";
import { isAnswered, SAMPLE_COLLECTION, sampleManifest } from "../seed/samples.ts";
import {
  assertSuccess,
  type Check,
  CheckSkipped,
  encode,
  expect,
  fetchText,
  fetchWithin,
  gatewayHeaders,
  gatewayRequests,
  quote,
  REQUEST_TIMEOUT_MILLISECONDS,
  SAMPLE_IMAGE_DATA_URL,
} from "./requests.ts";

/**
 * @param plan - How the stack's models are asked.
 * @param apiKey - Sent to the gateway, where it asks for one.
 */
export function smokeChecks(plan: StackPlan, outputs: StackOutputs, apiKey: string | undefined): Check[] {
  const { gateway, encoders, models } = outputs.endpoints;
  const asked = Object.entries(models).map(([name, server]) =>
    askedModel(plan, name, {
      server,
      gateway,
      apiKey,
      whenUnreachable: "`npx engine-room status` says what runs.",
    }),
  );
  return [
    ...gatewayChecks(gateway, apiKey),
    ...asked.flatMap(gatewayModelChecks),
    ...(outputs.endpoints.vector === null
      ? []
      : [
          ...retrievalChecks(gateway, gatewayHeaders(apiKey)),
          ...sampleChecks(gateway, gatewayHeaders(apiKey)),
        ]),
    ...(encoders === null ? [] : [embeddingCheck(gateway, apiKey), ...encoderChecks(encoders)]),
    ...asked.flatMap((model) => [...tritonChecks(model.name, model.server), ...generateChecks(model)]),
  ];
}

function gatewayChecks(gateway: string, apiKey: string | undefined): Check[] {
  const { get } = gatewayRequests(gateway, gatewayHeaders(apiKey));
  return [
    get("/healthz", () => "alive"),
    get("/readyz", () => "all upstreams ready"),
    get("/v1/models", (text) =>
      (JSON.parse(text) as { data: { id: string }[] }).data.map((model) => model.id).join(", "),
    ),
    get(
      "/metrics",
      (text) => `${text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).length} series`,
    ),
    get("/docs", (text) => expect(/<html/i.test(text), "no page", "a page")),
  ];
}

function embeddingCheck(gateway: string, apiKey: string | undefined): Check {
  return gatewayRequests(gateway, gatewayHeaders(apiKey)).post(
    "/v1/embeddings",
    { model: "all-MiniLM-L6-v2", input: ["a cat on a sofa"], encoding_format: "float" },
    (answer) => {
      const { data } = answer as { data: { embedding: number[] }[] };
      return describeVector(data[0]?.embedding ?? [], 384);
    },
  );
}

function encoderChecks(encoders: TritonEndpoints): Check[] {
  const infer = (
    model: string,
    inputs: Record<string, readonly string[]>,
    expected: Record<string, number>,
  ): Check => ({
    name: `encoders ${model}`,
    run: async () => {
      const outputs = await encode(encoders.http, model, inputs);
      const described = Object.entries(expected).map(([name, dimension]) => {
        const vector = outputs.find((output) => output.name === name)?.data ?? [];
        return `${name}: ${describeVector(vector, dimension)}`;
      });
      return described.join("; ");
    },
  });
  const text = { text: ["a cat on a sofa"] };
  const image = { image: [SAMPLE_IMAGE_DATA_URL] };
  return [
    ...tritonChecks("encoders", encoders),
    infer("text_encoder", text, { text_embedding: 384 }),
    infer("vision_encoder", image, { image_embedding: 512 }),
    infer("llava_ensemble", { ...text, ...image }, { text_embedding: 384, image_embedding: 512 }),
  ];
}

function tritonChecks(name: string, { http, grpc, metrics }: TritonEndpoints): Check[] {
  return [
    { name: `${name} HTTP`, run: async () => describeServer(await fetchText(`${http}/v2`)) },
    { name: `${name} gRPC`, run: () => serverReady(grpc) },
    {
      name: `${name} metrics`,
      run: async () => {
        const text = await fetchText(metrics);
        return expect(text.includes(COUNT), `${COUNT} is missing`, `${COUNT} is there`);
      },
    },
  ];
}

/** One of the metrics that every server has; `npx engine-room verify` looks for all of them. */
const COUNT = "nv_inference_count";

/** `GRPCInferenceService.ServerReady`: an empty request; field 1 of the answer is the truth value. */
function serverReady(address: string): Promise<string> {
  const identity = (bytes: Buffer) => bytes;
  const Client = makeGenericClientConstructor(
    {
      ServerReady: {
        path: "/inference.GRPCInferenceService/ServerReady",
        requestStream: false,
        responseStream: false,
        requestSerialize: identity,
        requestDeserialize: identity,
        responseSerialize: identity,
        responseDeserialize: identity,
      },
    },
    "GRPCInferenceService",
  );
  const client = new Client(address, credentials.createInsecure());
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + REQUEST_TIMEOUT_MILLISECONDS;
    const call = client.ServerReady as (
      request: Buffer,
      options: object,
      done: (error: Error | null, answer: Buffer) => void,
    ) => void;
    call.call(client, Buffer.alloc(0), { deadline }, (error, answer) => {
      client.close();
      if (error !== null) reject(error);
      else if (!answer.equals(Buffer.from([0x08, 0x01]))) reject(new Error("the server is not ready"));
      else resolve("ready");
    });
  });
}

function describeServer(text: string): string {
  const { name, version } = JSON.parse(text) as { name: string; version: string };
  return `${name} ${version}`;
}

function describeVector(vector: readonly number[], dimension: number): string {
  const norm = Math.hypot(...vector);
  return expect(
    vector.length === dimension && Math.abs(norm - 1) < 1e-3,
    `${vector.length} numbers of norm ${norm.toFixed(4)}, expected ${dimension} of norm 1`,
    `${dimension} numbers, norm ${norm.toFixed(3)}`,
  );
}

/** What the gateway has for the model: a chat where there is a template, and a text to go on with where it needs no picture. */
export function gatewayModelChecks(model: AskedModel): Check[] {
  const { name, profile, gateway, chats, apiKey } = model;
  const endpoint = (path: string) => `gateway POST /v1/${path} ${name}`;
  const prompt = { model: name, text: "The capital of France is", images: [], maxTokens: 8, stream: false };
  return [
    ...(chats
      ? [
          asked(endpoint("chat/completions"), model, () => atGateway(model)),
          streamed(`${endpoint("chat/completions")} (stream)`, model, () => atGateway(model, true)),
        ]
      : []),
    ...(profile.image?.isRequired === true
      ? []
      : [
          asked(endpoint("completions"), model, () =>
            gatewayCompletion(gateway, prompt, apiKey !== undefined),
          ),
        ]),
  ];
}

/** Triton's generate extension. */
export function generateChecks(model: AskedModel): Check[] {
  return [
    asked(`${model.name} generate`, model, () => atTriton(model, model.golden, false)),
    streamed(`${model.name} generate_stream`, model, () => {
      if (!model.profile.decoupled) throw new CheckSkipped("its repository is not decoupled");
      return atTriton(model, model.golden, true);
    }),
  ];
}

function asked(name: string, model: AskedModel, request: () => PreparedRequest): Check {
  return { name, run: async () => quote((await answer(model, orSkipped(request))).text) };
}

function streamed(name: string, model: AskedModel, request: () => PreparedRequest): Check {
  return {
    name,
    run: async () => {
      const { text, figures } = await answer(model, orSkipped(request));
      return expect(figures.firstTextSeconds !== null, "the stream has no text", quote(text));
    },
  };
}

function orSkipped(request: () => PreparedRequest): PreparedRequest {
  try {
    return request();
  } catch (error) {
    throw error instanceof CantAskError ? new CheckSkipped(error.message) : error;
  }
}

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
