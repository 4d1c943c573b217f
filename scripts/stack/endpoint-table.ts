/** Outputs of a stack as a table for people, and which endpoints do not answer. */
import { connect } from "node:net";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { Reach, TritonEndpoints } from "../../infra/plan/endpoints.ts";

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

interface Endpoint {
  readonly name: string;
  readonly address: string;
}

const CONNECT_TIMEOUT_MILLISECONDS = 500;

/** Endpoints that this machine should reach, and whose port takes no connection. */
export async function silentEndpoints({ endpoints }: StackOutputs): Promise<readonly Endpoint[]> {
  const { gateway, gatewayReach, encoders, models, mongo, vector, reach: others } = endpoints;
  const isHere = (reach: Reach) => reach === "host" || reach === "public";
  const named: readonly (readonly [string, string | null | undefined])[] = [
    ...(isHere(gatewayReach) ? ([["gateway", gateway]] as const) : []),
    ...(isHere(others)
      ? [
          ["encoders", encoders?.http] as const,
          ["mongo", mongo] as const,
          ["vector", vector] as const,
          ...Object.entries(models).map(([name, { http }]) => [name, http] as const),
        ]
      : []),
  ];
  const given = named.flatMap(([name, address]) => (address ? [{ name, address }] : []));
  const answers = await Promise.all(given.map(({ address }) => takesConnections(address)));
  return given.filter((_, index) => answers[index] === false);
}

function takesConnections(address: string): Promise<boolean> {
  const { hostname, port, protocol } = new URL(address);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) || (protocol === "https:" ? 443 : 80) });
    const end = (isOpen: boolean) => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.setTimeout(CONNECT_TIMEOUT_MILLISECONDS, () => end(false));
    socket.once("connect", () => end(true)).once("error", () => end(false));
  });
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
