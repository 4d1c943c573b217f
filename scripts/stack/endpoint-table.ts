/** Outputs of a stack as a table for people. */
import type { StackOutputs } from "../../infra/outputs.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";

/** One line an endpoint, then what has to be known about them. */
export function endpointTable({ endpoints, models, notes }: StackOutputs): string {
  const titles = new Map(models.map((model) => [model.name, model.model]));
  const rows: [string, string, string][] = [
    ["gateway", endpoints.gateway, "web page, API at /v1, documentation at /docs"],
    ...(endpoints.encoders === null ? [] : encoderRows(endpoints.encoders)),
    ...optionalRow("mongo", endpoints.mongo, "documents (MongoDB's protocol)"),
    ...optionalRow("vector", endpoints.vector, "vectors (Qdrant's REST API)"),
    ...Object.entries(endpoints.models).flatMap(([name, model]): [string, string, string][] => [
      [name, model.generate, `Triton: ${titles.get(name) ?? name}`],
      ["", model.grpc, "gRPC"],
      ["", model.metrics, "metrics"],
    ]),
  ];
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const lines = rows.map(
    ([name, url, text]) => `  ${name.padEnd(widths[0] ?? 0)}  ${url.padEnd(widths[1] ?? 0)}  ${text}`,
  );
  return [
    ...lines,
    "",
    ...notes.map((note) => `  Note: ${note}`),
    `  Reachable from: ${reach(endpoints)}`,
    "",
  ].join("\n");
}

function reach({ gatewayReach, reach: others }: StackOutputs["endpoints"]): string {
  return gatewayReach === others ? others : `${gatewayReach} (gateway), ${others} (all others)`;
}

function encoderRows({ http, grpc, metrics }: TritonEndpoints): [string, string, string][] {
  return [
    ["encoders", http, "Triton: text_encoder, vision_encoder, llava_ensemble"],
    ["", grpc, "gRPC"],
    ["", metrics, "metrics"],
  ];
}

function optionalRow(name: string, address: string | null, text: string): [string, string, string][] {
  return address === null ? [] : [[name, address, text]];
}
