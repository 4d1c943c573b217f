/** One real request to every endpoint of a stack's outputs. */
import { credentials, makeGenericClientConstructor } from "@grpc/grpc-js";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { askedModel } from "../ask/golden.ts";
import { gatewayModelChecks, generateChecks } from "./model-checks.ts";
import {
  type Check,
  expect,
  fetchText,
  gatewayHeaders,
  gatewayRequests,
  postJson,
  REQUEST_TIMEOUT_MILLISECONDS,
} from "./requests.ts";
import { retrievalChecks } from "./retrieval-checks.ts";
import { sampleChecks } from "./sample-checks.ts";
import { SAMPLE_IMAGE_DATA_URL } from "./sample-image.ts";

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
    get("/docs/", (text) => expect(/<html/i.test(text), "no page", "a page")),
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
  const infer = (model: string, inputs: Record<string, string>, expected: Record<string, number>): Check => ({
    name: `encoders ${model}`,
    run: async () => {
      const body = {
        inputs: Object.entries(inputs).map(([name, value]) => ({
          name,
          datatype: "BYTES",
          shape: [1, 1],
          data: [value],
        })),
      };
      const answer = JSON.parse(await postJson(`${encoders.http}/v2/models/${model}/infer`, body)) as {
        outputs: { name: string; data: number[] }[];
      };
      return Object.entries(expected)
        .map(
          ([name, dimension]) =>
            `${name}: ${describeVector(answer.outputs.find((output) => output.name === name)?.data ?? [], dimension)}`,
        )
        .join("; ");
    },
  });
  const text = { text: "a cat on a sofa" };
  const image = { image: SAMPLE_IMAGE_DATA_URL };
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
