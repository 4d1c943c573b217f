/** Which Services of a stack in a cluster are brought to this machine, and by which command. Pure. */
import type { Endpoints } from "../../infra/plan/endpoints.ts";
import { kubectlCommand, silenceWords } from "../cluster/kubectl.ts";
import { lastLine } from "../preflight/host-probe.ts";
import { forwards, type RemoteEndpoint, remoteEndpoints } from "./forwards.ts";
import type { ForwardCommand, ForwardFailure } from "./port-forwarder.ts";

/** Parts that are forwarded on request; the gateway always is. */
export type ConnectedPart = "triton" | "databases" | "grafana";

/** One address in a cluster, and the port of this machine that leads to it. */
export interface ServiceForward {
  /** `gateway`, `llava gRPC`. */
  readonly name: string;
  /** In the cluster. */
  readonly address: string;
  readonly localAddress: string;
  readonly service: string;
  readonly namespace: string;
  /** Of the Service. */
  readonly port: number;
  readonly localPort: number;
}

interface WantedEndpoints {
  /** Inside of the cluster, the gateway by its Service whatever its host name is. */
  readonly endpoints: Endpoints;
  readonly parts: ReadonlySet<ConnectedPart>;
  /** Address of the cluster's own Grafana; null: none is wanted, or there. */
  readonly grafana: string | null;
}

/**
 * The same ports here where they are free; others where somebody listens, as all Tritons have the same.
 *
 * @param claimPort - A free port of 127.0.0.1: the wanted one, or another.
 */
export async function serviceForwards(
  { endpoints, parts, grafana }: WantedEndpoints,
  claimPort: (wanted: number) => Promise<number>,
): Promise<readonly ServiceForward[]> {
  const wanted = wantedEndpoints(endpoints, parts);
  const all = [...wanted, ...(grafana === null ? [] : [{ name: "grafana", address: grafana }])];
  const made = await forwards(
    all.filter(({ address }) => serviceOf(address) !== null),
    claimPort,
  );
  return made.map(({ host, ...rest }) => {
    const [service = "", namespace = ""] = host.split(".");
    return { ...rest, service, namespace };
  });
}

/** The gateway, and those of the parts that are asked for. */
export function wantedEndpoints(
  endpoints: Endpoints,
  parts: ReadonlySet<ConnectedPart>,
): readonly RemoteEndpoint[] {
  const databases = new Set(["mongo", "vector"]);
  return remoteEndpoints(endpoints).filter(({ name }) => {
    if (name === "gateway") return true;
    return parts.has(databases.has(name) ? "databases" : "triton");
  });
}

/** What stands before `.NAMESPACE.svc`; null for an address that is no Service's. */
function serviceOf(address: string): string | null {
  return /^(?:[a-z]+:\/\/)?([a-z0-9-]+)\.[a-z0-9-]+\.svc(?:[:/]|$)/.exec(address)?.[1] ?? null;
}

/** @param context - Of the kubeconfig; null: the current one. */
export function forwardCommands(
  context: string | null,
  all: readonly ServiceForward[],
): readonly ForwardCommand[] {
  const services = [...new Set(all.map(({ service, namespace }) => `${namespace}/${service}`))];
  return services.map((key) => {
    const own = all.filter(({ service, namespace }) => `${namespace}/${service}` === key);
    const [namespace = "", service = ""] = key.split("/");
    return {
      service,
      ports: own.length,
      argv: [
        ...kubectlCommand(context),
        ...["--namespace", namespace, "port-forward", "--address", "127.0.0.1", `service/${service}`],
        ...own.map(({ localPort, port }) => `${localPort}:${port}`),
      ],
    };
  });
}

/** Where no API server answers, that is said as of any other question. @param context - As {@link forwardCommands}. */
export function serviceFailure(context: string | null): ForwardFailure {
  return (service, end) =>
    silenceWords(context, end) ??
    `The Service ${service} can't be forwarded: ${lastLine(end.stderr)}\n\`npx engine-room status\` says whether its pods run.`;
}

/** Endpoints as they are reached from here; those that are not forwarded stay what they are. */
export function localEndpoints(endpoints: Endpoints, all: readonly ServiceForward[]): Endpoints {
  const ports = new Map(
    all.map(({ service, namespace, port, localPort }) => [`${service}.${namespace}.svc:${port}`, localPort]),
  );
  const replaced = (value: unknown): unknown => {
    if (typeof value === "string")
      return value.replace(/[a-z0-9-]+\.[a-z0-9-]+\.svc:\d+/, (address) => {
        const port = ports.get(address);
        return port === undefined ? address : `127.0.0.1:${port}`;
      });
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, replaced(inner)]));
  };
  return replaced(endpoints) as Endpoints;
}
