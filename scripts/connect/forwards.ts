/** Endpoints of a stack on another machine, and the ports of this one that lead to them. */
import { connect, createServer } from "node:net";
import type { Endpoints } from "../../infra/plan/endpoints.ts";

/** One address that the stack answers at, as its own host sees it. */
export interface RemoteEndpoint {
  /** `gateway`, `llava gRPC`. */
  readonly name: string;
  /** As the outputs have it: a URL, or `host:port`. */
  readonly address: string;
}

export interface Forward extends RemoteEndpoint {
  readonly host: string;
  readonly port: number;
  readonly localPort: number;
  /** The same address through the tunnel. */
  readonly localAddress: string;
}

/** Every address of the outputs, the gateway first. */
export function remoteEndpoints({ gateway, encoders, models, mongo, vector }: Endpoints): RemoteEndpoint[] {
  const databases = { mongo, vector };
  const tritons = { ...(encoders === null ? {} : { encoders }), ...models };
  return [
    { name: "gateway", address: gateway },
    ...Object.entries(tritons).flatMap(([name, { http, grpc, metrics }]) => [
      { name, address: http },
      { name: `${name} gRPC`, address: grpc },
      { name: `${name} metrics`, address: metrics },
    ]),
    ...Object.entries(databases).flatMap(([name, address]) => (address === null ? [] : [{ name, address }])),
  ];
}

/**
 * The same ports here where they are free, so that addresses stay what they are; others where somebody listens.
 *
 * @param claimPort - A free port of 127.0.0.1: the wanted one, or another.
 */
export async function forwards(
  endpoints: readonly RemoteEndpoint[],
  claimPort: (wanted: number) => Promise<number>,
): Promise<readonly Forward[]> {
  const made: Forward[] = [];
  for (const endpoint of endpoints) {
    const { host, port, localAddress } = parts(endpoint.address);
    const localPort = await claimPort(port);
    made.push({ ...endpoint, host, port, localPort, localAddress: localAddress(localPort) });
  }
  return made;
}

/** Words of one ssh that forwards all of it, runs nothing, and ends when a port can't be had or the host is gone. */
export function sshCommand(destination: readonly string[], all: readonly Forward[]): readonly string[] {
  return [
    ...["ssh", "-N", "-T"],
    ...["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"],
    ...all.flatMap(({ localPort, host, port }) => ["-L", `127.0.0.1:${localPort}:${host}:${port}`]),
    ...destination,
  ];
}

/**
 * Finds free ports of this machine, none of them twice. A port is free for everybody again until ssh takes it, which ends
 * with a sentence where somebody was faster.
 */
export function portClaims(): (wanted: number) => Promise<number> {
  const claimed = new Set<number>();
  return async (wanted) => {
    const isFree = !claimed.has(wanted) && (await tryListen(wanted)) !== undefined;
    let port = isFree ? wanted : undefined;
    while (port === undefined || (port !== wanted && claimed.has(port))) port = await tryListen(0);
    claimed.add(port);
    return port;
  };
}

/** Whether somebody takes connections to a port of 127.0.0.1. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

/** @returns The port, 0 standing for any; undefined where it can't be had. */
function tryListen(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? address?.port : undefined));
    });
  });
}

function parts(address: string): {
  readonly host: string;
  readonly port: number;
  readonly localAddress: (port: number) => string;
} {
  const [, scheme = "", host = "", port, path = ""] =
    /^([a-z]+:\/\/)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?(\/.*)?$/.exec(address) ?? [];
  return {
    host,
    port: Number(port ?? (scheme === "https://" ? 443 : 80)),
    localAddress: (local) => `${scheme}127.0.0.1:${local}${path}`,
  };
}
