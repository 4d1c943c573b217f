/** Endpoints of a stack on another machine, their ports on this machine, and the commands that forward them. */
import { connect, createServer } from "node:net";
import type { Endpoints } from "../../infra/plan/endpoints.ts";
import { clusterEndpoints } from "../../infra/plan/kubernetes/endpoints.ts";
import { portSession } from "../aws/machine.ts";
import { clusterProbe, kubectlCommand, kubectlItems, silenceWords } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { lastLine, type ProbeAnswer } from "../preflight/host-probe.ts";
import type { ClusterTarget } from "../program/targets.ts";

/** Parts that are forwarded on request; the gateway is always forwarded. */
export type ConnectedPart = "triton" | "databases" | "grafana";

/** An address of the stack, as its own host or cluster sees it. */
interface RemoteEndpoint {
  /** `gateway`, `llava gRPC`. */
  readonly name: string;
  /** As the outputs have it: a URL, or `host:port`. */
  readonly address: string;
}

/** Returns a port of 127.0.0.1: the wanted port, or another. */
export type ClaimPort = (wanted: number) => Promise<number>;

export interface Forward extends RemoteEndpoint {
  readonly host: string;
  readonly port: number;
  readonly localPort: number;
  /** The same address through the tunnel. */
  readonly localAddress: string;
}

/** A program that forwards: all ports of one Service, or one port of a machine. */
export interface ForwardCommand {
  /** Name in messages: `gateway`, `llava`. */
  readonly service: string;
  readonly argv: readonly string[];
  /** Number of ports that it reports as forwarded, a line each. */
  readonly ports: number;
  /** Message if it ends before all ports are forwarded. */
  failure(end: ProbeAnswer): string;
}

/** Every address of the outputs, the gateway first. */
export function remoteEndpoints({ gateway, encoders, models, mongo, vector }: Endpoints): RemoteEndpoint[] {
  const tritons = { ...(encoders === null ? {} : { encoders }), ...models };
  return [
    { name: "gateway", address: gateway },
    ...Object.entries(tritons).flatMap(([name, { http, grpc, metrics }]) => [
      { name, address: http },
      { name: `${name} gRPC`, address: grpc },
      { name: `${name} metrics`, address: metrics },
    ]),
    ...Object.entries({ mongo, vector }).flatMap(([name, address]) =>
      address === null ? [] : [{ name, address }],
    ),
  ];
}

/** The gateway, and the endpoints of the named parts whose host matches the pattern: others are reachable directly. */
export function wantedEndpoints(
  endpoints: Endpoints,
  parts: readonly ConnectedPart[],
  host: RegExp,
): readonly RemoteEndpoint[] {
  return remoteEndpoints(endpoints).filter(({ name, address }) => {
    const part = name === "mongo" || name === "vector" ? "databases" : "triton";
    return host.test(address) && (name === "gateway" || parts.includes(part));
  });
}

/**
 * Forwards to the same local ports if they are free, so that addresses remain the same.
 *
 * @param claimPort - By default a free port.
 */
export async function forwards(
  endpoints: readonly RemoteEndpoint[],
  claimPort: ClaimPort = portClaims(),
): Promise<readonly Forward[]> {
  const made: Forward[] = [];
  for (const endpoint of endpoints) {
    const [, scheme = "", host = "", ownPort, path = ""] =
      /^([a-z]+:\/\/)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?(\/.*)?$/.exec(endpoint.address) ?? [];
    const port = Number(ownPort ?? (scheme === "https://" ? 443 : 80));
    const localPort = await claimPort(port);
    made.push({ ...endpoint, host, port, localPort, localAddress: `${scheme}127.0.0.1:${localPort}${path}` });
  }
  return made;
}

/** Endpoints as they are reached from this machine; those that are not forwarded are unchanged. */
export function localEndpoints(endpoints: Endpoints, all: readonly Forward[]): Endpoints {
  const ports = new Map(all.map(({ host, port, localPort }) => [`${host}:${port}`, localPort]));
  const replaced = (value: unknown): unknown => {
    if (typeof value === "string")
      return value.replace(/[a-z0-9.-]+:\d+/, (address) => {
        const port = ports.get(address);
        return port === undefined ? address : `127.0.0.1:${port}`;
      });
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, replaced(inner)]));
  };
  return replaced(endpoints) as Endpoints;
}

/** An ssh that forwards all ports, runs nothing, and ends when a port is in use or the host is unreachable. */
export function sshCommand(destination: readonly string[], all: readonly Forward[]): readonly string[] {
  return [
    ...["ssh", "-N", "-T"],
    ...["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"],
    ...all.flatMap(({ localPort, host, port }) => ["-L", `127.0.0.1:${localPort}:${host}:${port}`]),
    ...destination,
  ];
}

/** The gateway by its Service: its host name may not resolve yet. */
export function serviceEndpoints({ plan }: ClusterTarget): Endpoints {
  return plan.tier === "cpu"
    ? clusterEndpoints({ ...plan, cluster: { ...plan.cluster, ingress: null } })
    : clusterEndpoints({ ...plan, cluster: { ...plan.cluster, ingress: null } });
}

/** Services of a stack in a cluster that are forwarded. @throws UserError if Grafana is asked for and missing. */
export async function clusterForwards(
  target: ClusterTarget,
  parts: readonly ConnectedPart[],
  claimPort?: ClaimPort,
): Promise<readonly Forward[]> {
  const wanted = wantedEndpoints(serviceEndpoints(target), parts, /\.svc:\d/);
  const grafana = parts.includes("grafana")
    ? [{ name: "grafana", address: await grafanaAddress(target) }]
    : [];
  return forwards([...wanted, ...grafana], claimPort);
}

interface ApiService {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly ports?: readonly { readonly port: number }[] };
}

/** Found by its Helm chart's label in the namespace of Prometheus. @throws UserError if it is missing. */
async function grafanaAddress({ plan, stack }: ClusterTarget): Promise<string> {
  const { monitoringNamespace: namespace } = plan.cluster;
  const selector = "app.kubernetes.io/name=grafana";
  const words = ["services", "--namespace", namespace, "--selector", selector];
  const [service] = await kubectlItems<ApiService>(clusterProbe(stack.context), words);
  const [port] = service?.spec.ports ?? [];
  if (service === undefined || port === undefined)
    throw new UserError(
      `The namespace ${namespace} has no Service with the label ${selector}; \`monitoringNamespace\` of the stack file says where Grafana is.`,
    );
  return `http://${service.metadata.name}.${namespace}.svc:${port.port}`;
}

/** One kubectl for each Service. @param context - Context of the kubeconfig; null for the current context. */
export function kubectlForwards(context: string | null, all: readonly Forward[]): readonly ForwardCommand[] {
  return [...new Set(all.map(({ host }) => host))].map((host) => {
    const own = all.filter((forward) => forward.host === host);
    const [service = "", namespace = ""] = host.split(".");
    return {
      service,
      ports: own.length,
      argv: [
        ...kubectlCommand(context),
        ...["--namespace", namespace, "port-forward", "--address", "127.0.0.1", `service/${service}`],
        ...own.map(({ localPort, port }) => `${localPort}:${port}`),
      ],
      failure: (end) =>
        silenceWords(context, end) ??
        `The Service ${service} can't be forwarded: ${lastLine(end.stderr)}\n\`npx engine-room status\` says whether its pods run.`,
    };
  });
}

/** One session of Systems Manager for each port of a machine. @param id - Id of the machine. */
export function sessionForwards(
  region: string,
  id: string,
  all: readonly Forward[],
): readonly ForwardCommand[] {
  return all.map((forward) => ({
    service: forward.name,
    ports: 1,
    argv: portSession(region, id, forward),
    failure: ({ stderr }) =>
      `The endpoint ${forward.name} can't be forwarded: ${lastLine(stderr)}\n\`npx engine-room status\` says whether the machine runs; your credentials must be allowed ssm:StartSession on it.`,
  }));
}

/** Between ports that are tried: two servers of a stack may have the same port, and get the same two at each start. */
const PORT_STEP = 100;

/**
 * Finds free ports of this machine, each only once. A port can still be taken before the program that forwards it starts.
 *
 * @param take - Returns the port if it may be used; of 0 any free port.
 */
export function portClaims(take: (port: number) => Promise<number | undefined> = tryListen): ClaimPort {
  const claimed = new Set<number>();
  return async (wanted) => {
    let next = wanted;
    let port: number | undefined;
    while (port === undefined || claimed.has(port)) {
      port = claimed.has(next) ? undefined : await take(next);
      next = next + PORT_STEP > 65_535 ? 0 : next + PORT_STEP;
    }
    claimed.add(port);
    return port;
  };
}

/** Whether a program takes connections to a port of 127.0.0.1. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

/** @param port - 0 for any. @returns The port; undefined if it is in use. */
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
