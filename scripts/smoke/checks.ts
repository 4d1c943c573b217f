/** One real request to every endpoint of a stack's outputs. */

import { Client, credentials } from "@grpc/grpc-js";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import { servedEncoders } from "../../infra/plan/gateway-config.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import {
  type AskedModel,
  answer,
  atGateway,
  atTriton,
  SAMPLE_IMAGE_DATA_URL,
  Skipped,
} from "../ask/golden.ts";
import { gatewayCompletion, type PreparedRequest } from "../ask/prepared-request.ts";
import { asked } from "../ask/question.ts";
import {
  assertSuccess,
  encode,
  fetchText,
  fetchWithin,
  gatewayHeaders,
  postJson,
  REQUEST_TIMEOUT_MILLISECONDS,
} from "../http.ts";
import { isAnswered, SAMPLE_COLLECTION, sampleManifest } from "../seed/samples.ts";

export interface Check {
  /** Endpoint as the outputs name it, and the request. */
  readonly name: string;
  /**
   * @returns The answer, in a few words.
   * @throws Skipped when the stack has nothing to check; any other error for a wrong answer.
   */
  run(): Promise<string>;
}

/** @param plan - Plan with the models' questions. @param apiKey - Key for the gateway, if required. */
export function smokeChecks(plan: StackPlan, outputs: StackOutputs, apiKey: string | undefined): Check[] {
  const { gateway, encoders, models, vector } = outputs.endpoints;
  const served = servedEncoders(plan);
  const headers = gatewayHeaders(apiKey);
  const whenUnreachable = "`npx engine-room status` says what runs.";
  const askedModels = Object.entries(models).map(
    ([name, server]): AskedModel => ({
      name,
      ...asked(plan, name),
      ...{ server, gateway, apiKey, whenUnreachable },
    }),
  );
  return [
    ...gatewayChecks(gateway, headers),
    ...askedModels.flatMap(gatewayModelChecks),
    ...(vector === null ? [] : retrievalChecks(gateway, headers)),
    ...(encoders === null || served === null ? [] : encoderChecks(encoders, served, gateway, headers)),
    ...askedModels.flatMap((model) => [...tritonChecks(model.name, model.server), ...generateChecks(model)]),
  ];
}

type Headers = Readonly<Record<string, string>>;

function get(gateway: string, headers: Headers, path: string, describe: (text: string) => string): Check {
  const run = async () => describe(await fetchText(`${gateway}${path}`, { headers }));
  return { name: `gateway GET ${path}`, run };
}

function post<Answer>(
  gateway: string,
  headers: Headers,
  path: string,
  body: object,
  describe: (answer: Answer) => string,
): Check {
  const run = async () => describe(JSON.parse(await postJson(`${gateway}${path}`, body, headers)) as Answer);
  return { name: `gateway POST ${path}`, run };
}

const describePage = (text: string) => expect(/<html/i.test(text), "no page", "a page");

function gatewayChecks(gateway: string, headers: Headers): Check[] {
  const checks: Readonly<Record<string, (text: string) => string>> = {
    "/healthz": () => "alive",
    "/readyz": () => "all upstreams ready",
    "/v1/models": (text) =>
      (JSON.parse(text) as { data: { id: string }[] }).data.map((model) => model.id).join(", "),
    "/metrics": (text) => `${text.match(/^[^#\n]/gm)?.length ?? 0} series`,
    "/docs": describePage,
  };
  return Object.entries(checks).map(([path, describe]) => get(gateway, headers, path, describe));
}

function encoderChecks(
  encoders: TritonEndpoints,
  served: NonNullable<ReturnType<typeof servedEncoders>>,
  gateway: string,
  headers: Headers,
): Check[] {
  const { modelName, dimension: text_embedding, imageDimension: image_embedding } = served;
  const words = ["a cat on a sofa"];
  const request = { model: modelName, input: words, encoding_format: "float" };
  const [text, image] = [{ text: words }, { image: [SAMPLE_IMAGE_DATA_URL] }];
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
  return [
    post<{ data: { embedding: number[] }[] }>(gateway, headers, "/v1/embeddings", request, ({ data }) =>
      describeVector(data[0]?.embedding ?? [], text_embedding),
    ),
    ...tritonChecks("encoders", encoders),
    infer("text_encoder", text, { text_embedding }),
    infer("vision_encoder", image, { image_embedding }),
    infer("llava_ensemble", { ...text, ...image }, { text_embedding, image_embedding }),
  ];
}

function describeVector(vector: readonly number[], dimension: number): string {
  const norm = Math.hypot(...vector);
  return expect(
    vector.length === dimension && Math.abs(norm - 1) < 1e-3,
    `${vector.length} numbers of norm ${norm.toFixed(4)}, expected ${dimension} of norm 1`,
    `${dimension} numbers, norm ${norm.toFixed(3)}`,
  );
}

function tritonChecks(name: string, { http, grpc, metrics }: TritonEndpoints): Check[] {
  const describeServer = (text: string) => {
    const server = JSON.parse(text) as { name: string; version: string };
    return `${server.name} ${server.version}`;
  };
  return [
    { name: `${name} HTTP`, run: async () => describeServer(await fetchText(`${http}/v2`)) },
    { name: `${name} gRPC`, run: () => serverReady(grpc) },
    {
      name: `${name} metrics`,
      run: async () => {
        const text = await fetchText(metrics);
        return expect(text.includes(COUNT), `${COUNT} is missing`, `has ${COUNT}`);
      },
    },
  ];
}

/** A metric of every server; `npx engine-room verify` checks all metrics. */
const COUNT = "nv_inference_count";

/** `GRPCInferenceService.ServerReady`: an empty request; field 1 of the answer is the truth value. */
function serverReady(address: string): Promise<string> {
  const identity = (bytes: Buffer) => bytes;
  const client = new Client(address, credentials.createInsecure());
  const deadline = Date.now() + REQUEST_TIMEOUT_MILLISECONDS;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      "/inference.GRPCInferenceService/ServerReady",
      identity,
      identity,
      Buffer.alloc(0),
      { deadline },
      (error, answer) => {
        client.close();
        if (error !== null) reject(error);
        else if (answer?.equals(Buffer.from([0x08, 0x01])) !== true)
          reject(new Error("the server is not ready"));
        else resolve("ready");
      },
    );
  });
}

/** The gateway's checks of the model: a chat if there is a template, and a completion if it needs no picture. */
export function gatewayModelChecks(model: AskedModel): Check[] {
  const { name, profile, gateway, chats, apiKey } = model;
  const endpoint = (path: string) => `gateway POST /v1/${path} ${name}`;
  const prompt = { model: name, text: "The capital of France is", images: [], maxTokens: 8, stream: false };
  return [
    ...(chats
      ? [
          question(endpoint("chat/completions"), model, () => atGateway(model)),
          question(`${endpoint("chat/completions")} (stream)`, model, () => atGateway(model, true)),
        ]
      : []),
    ...(profile.image?.isRequired === true
      ? []
      : [
          question(endpoint("completions"), model, () =>
            gatewayCompletion(gateway, prompt, apiKey !== undefined),
          ),
        ]),
  ];
}

/** Triton's generate extension. */
export function generateChecks(model: AskedModel): Check[] {
  return [
    question(`${model.name} generate`, model, () => atTriton(model, model.golden, false)),
    question(`${model.name} generate_stream`, model, () => {
      if (!model.profile.decoupled) throw new Skipped("doesNotStream");
      return atTriton(model, model.golden, true);
    }),
  ];
}

function question(name: string, model: AskedModel, request: () => PreparedRequest): Check {
  return { name, run: async () => quote((await answer(model, request())).text) };
}

/** A document that the check deletes at the end; its special id keeps documents of users unchanged. */
const DOCUMENT = {
  id: "engine-room-smoke",
  text: "The zebrafish tank in the basement is cleaned by Ms Okonkwo every Thursday.",
  metadata: { source: "smoke" },
};

interface Answer {
  readonly answer: string;
  readonly sources: readonly { readonly id: string }[];
}

/** Each check depends on the check before. */
function retrievalChecks(gateway: string, headers: Headers): Check[] {
  const ofStatus = (text: string) =>
    (JSON.parse(text) as { name: string; state: string }[]).map(({ name, state }) => `${name} ${state}`);
  const image = SAMPLE_IMAGE_DATA_URL;
  const asking = { question: "Who cleans the zebrafish tank?", maxTokens: 48 };
  return [
    get(gateway, headers, "/", describePage),
    get(gateway, headers, "/status", (text) => ofStatus(text).join(", ")),
    post<{ documents: { status: string }[] }>(
      gateway,
      headers,
      "/v1/documents",
      { ...DOCUMENT, image },
      ({ documents }) => documents[0]?.status ?? "nothing",
    ),
    // Searched by its own words, which fit no document of a user better.
    post<{ matches: { id: string }[] }>(
      gateway,
      headers,
      "/v1/match",
      { text: DOCUMENT.text, image },
      ({ matches }) =>
        expect(
          matches[0]?.id === DOCUMENT.id,
          `the first match is ${matches[0]?.id ?? "nothing"}`,
          `${matches.length} matches, the document first`,
        ),
    ),
    post<Answer>(gateway, headers, "/v1/answer", asking, (answer) => answerFrom(DOCUMENT.id, answer)),
    {
      name: "gateway DELETE /v1/documents/{id}",
      run: async () => {
        await fetchText(`${gateway}/v1/documents/${DOCUMENT.id}`, { method: "DELETE", headers });
        return "gone";
      },
    },
    { name: "gateway POST /v1/answer (samples)", run: () => askAboutSample(gateway, headers) },
  ];
}

async function askAboutSample(gateway: string, headers: Headers): Promise<string> {
  const { question } = sampleManifest();
  const picture = await fetchWithin(`${gateway}/v1/documents/${question.picture}/image`, { headers });
  if (picture.status === 404) throw new Skipped("noSamples");
  await assertSuccess(picture);
  const form = new FormData();
  form.set("question", question.text);
  form.set("image", await picture.blob(), "picture.jpg");
  // A user's own documents do not change the answer.
  form.set("filter", JSON.stringify({ "metadata.collection": SAMPLE_COLLECTION }));
  const text = await fetchText(`${gateway}/v1/answer`, { method: "POST", headers, body: form });
  const answer = JSON.parse(text) as Answer;
  const shown = answerFrom(question.picture, answer);
  return expect(isAnswered(question, answer.answer), `${shown} names no ${question.answer}`, shown);
}

/** @throws Error if the document is not among the answer's sources. */
function answerFrom(id: string, { answer, sources }: Answer): string {
  return expect(
    sources.some((source) => source.id === id),
    `${id} is not among the sources`,
    quote(answer),
  );
}

/** The beginning of a text, which must not be empty. */
function quote(text: string): string {
  return expect(text.trim() !== "", "an empty text", JSON.stringify(text.slice(0, 60)));
}

/** @returns `description`. @throws Error with `otherwise`. */
function expect(holds: boolean, otherwise: string, description: string): string {
  if (!holds) throw new Error(otherwise);
  return description;
}
