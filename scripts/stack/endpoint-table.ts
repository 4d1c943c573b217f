/** Outputs of a stack as a table for people, and endpoints that do not answer. */
import { connect } from "node:net";
import type { StackOutputs } from "../../infra/outputs.ts";

/** Aligned cells without titles. @param rows - The last cell of a row may be empty. */
export function alignedLines(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** One line an endpoint, then notes about them. */
export function endpointTable({ endpoints, models, notes }: StackOutputs): string {
  const { gateway, gatewayReach, encoders, mongo, vector, reach } = endpoints;
  const titles = new Map(models.map((model) => [model.name, model.model]));
  const rows = [
    ["gateway", gateway, "web UI, API at /v1, documentation at /docs"],
    ["encoders", encoders?.http, "Triton: text_encoder, vision_encoder, llava_ensemble"],
    ["", encoders?.grpc, "gRPC"],
    ["", encoders?.metrics, "metrics"],
    ["mongo", mongo, "documents (MongoDB's protocol)"],
    ["vector", vector, "vectors (Qdrant's REST API)"],
    ...Object.entries(endpoints.models).flatMap(([name, model]) => [
      [name, model.generate, `Triton: ${titles.get(name) ?? name}`],
      ["", model.grpc, "gRPC"],
      ["", model.metrics, "metrics"],
    ]),
  ].filter((row): row is string[] => Boolean(row[1]));
  const reaches = gatewayReach === reach ? reach : `${gatewayReach} (gateway), ${reach} (all others)`;
  const said = [...notes.map((note) => `Note: ${note}`), `Reachable from: ${reaches}`];
  return [...alignedLines(rows).map((line) => `  ${line}`), "", ...said.map((line) => `  ${line}`), ""].join(
    "\n",
  );
}

interface Endpoint {
  readonly name: string;
  readonly address: string;
}

const CONNECT_TIMEOUT_MILLISECONDS = 500;

/** Endpoints that this machine should reach, and whose port does not accept a connection. */
export async function unreachableEndpoints({ endpoints }: StackOutputs): Promise<readonly Endpoint[]> {
  const { gateway, gatewayReach, encoders, models, mongo, vector, reach } = endpoints;
  const all = [
    { name: "gateway", address: gateway, reach: gatewayReach },
    { name: "encoders", address: encoders?.http, reach },
    { name: "mongo", address: mongo, reach },
    { name: "vector", address: vector, reach },
    ...Object.entries(models).map(([name, { http }]) => ({ name, address: http, reach })),
  ];
  const reachable = all.flatMap(({ name, address, reach: from }) =>
    address && (from === "host" || from === "public") ? [{ name, address }] : [],
  );
  const answers = await Promise.all(reachable.map(({ address }) => takesConnections(address)));
  return reachable.filter((_, index) => answers[index] === false);
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
