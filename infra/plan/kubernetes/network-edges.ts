/** Who may talk to whom, as a table: what is not in it is refused. */
import { DATABASE_PORTS } from "../database-servers.ts";
import { TRITON_PORTS } from "../repository/launch.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { GATEWAY_PORT } from "./gateway.ts";
import type { PodRole } from "./pod-types.ts";
import type { NetworkEdge, Peer } from "./types.ts";

const DNS_PORT = 53;
const HTTPS_PORT = 443;

/** Pods that the scripts start beside the stack. */
const TOOLS: readonly PodRole[] = ["bench", "smoke"];

/** Roles of a stack's pods, and of its tools'. */
function rolesOf(plan: ClusterPlan): readonly PodRole[] {
  const { databases } = plan.cluster;
  return [
    ...(plan.tier === "cpu" ? [] : (["engineBuild"] as const)),
    ...(plan.tier === "cpu" || plan.encoders === null ? [] : (["encoderBuild"] as const)),
    ...(plan.encoders === null ? [] : (["encoders"] as const)),
    "triton",
    "gateway",
    ...(databases === null || databases.kind === "external" ? [] : (["mongo", "vector"] as const)),
    ...TOOLS,
  ];
}

/** The table of a stack. */
export function networkEdges(plan: ClusterPlan): readonly NetworkEdge[] {
  const roles = rolesOf(plan);
  const edges = [
    ...roles.flatMap((role) => dns(role)),
    edge({ kind: "anyone" }, peer("gateway"), GATEWAY_PORT, "clients, and the controller of an Ingress"),
    ...TOOLS.map((tool) => edge(peer(tool), peer("gateway"), GATEWAY_PORT, "measurements and checks")),
    ...tritonEdges(plan),
    ...(["mongo", "vector"] as const).map((name) =>
      edge(peer("gateway"), peer(name), DATABASE_PORTS[name], "documents and their vectors"),
    ),
    ...metricsEdges(plan),
    edge(peer("engineBuild"), { kind: "internet" }, HTTPS_PORT, "weights from a hub"),
    edge(peer("encoderBuild"), { kind: "internet" }, HTTPS_PORT, "weights from a hub"),
    ...encoderWeightEdges(plan),
    ...imageEdges(plan),
    ...externalDatabaseEdges(plan),
  ];
  const isThere = (one: Peer) => one.kind !== "role" || roles.includes(one.role);
  return edges.filter(({ from, to }) => isThere(from) && isThere(to));
}

function peer(role: PodRole): Peer {
  return { kind: "role", role };
}

function edge(
  from: Peer,
  to: Peer,
  port: number,
  why: string,
  protocol: NetworkEdge["protocol"] = "TCP",
): NetworkEdge {
  return { from, to, port, protocol, why };
}

function dns(role: PodRole): readonly NetworkEdge[] {
  return (["UDP", "TCP"] as const).map((protocol) =>
    edge(peer(role), { kind: "dns" }, DNS_PORT, "names", protocol),
  );
}

/** Triton has no keys, and takes requests that change it: besides the gateway and the tools, whom the stack file names. */
function tritonEdges({ cluster }: ClusterPlan): readonly NetworkEdge[] {
  const servers = ["triton", "encoders"] as const;
  return servers.flatMap((role) => [
    edge(peer("gateway"), peer(role), TRITON_PORTS.http, "inference"),
    ...TOOLS.flatMap((tool) => [
      edge(peer(tool), peer(role), TRITON_PORTS.http, "measurements and checks"),
      edge(peer(tool), peer(role), TRITON_PORTS.grpc, "measurements and checks"),
    ]),
    ...cluster.tritonClients.flatMap((namespace) =>
      [TRITON_PORTS.http, TRITON_PORTS.grpc].map((port) =>
        edge({ kind: "namespace", namespace }, peer(role), port, "clients of Triton itself"),
      ),
    ),
  ]);
}

function metricsEdges({ cluster }: ClusterPlan): readonly NetworkEdge[] {
  const prometheus: Peer = { kind: "namespace", namespace: cluster.monitoringNamespace };
  const hasMockMongo = cluster.databases?.kind === "mock";
  return [
    edge(prometheus, peer("triton"), TRITON_PORTS.metrics, "metrics"),
    edge(prometheus, peer("encoders"), TRITON_PORTS.metrics, "metrics"),
    ...(hasMockMongo ? [edge(prometheus, peer("mongo"), DATABASE_PORTS.mongoMetrics, "metrics")] : []),
    ...(cluster.databases === null || cluster.databases.kind === "external"
      ? []
      : [edge(prometheus, peer("vector"), DATABASE_PORTS.vector, "metrics")]),
  ];
}

/** On a CPU there are no builds: the encoders fetch weights that their image lacks when they start. */
function encoderWeightEdges(plan: ClusterPlan): readonly NetworkEdge[] {
  if (plan.tier === "gpu") return [];
  const { text, vision } = plan.encoders;
  if (![...text.sources, ...vision.sources].some(({ kind }) => kind === "hub")) return [];
  return [edge(peer("encoders"), { kind: "internet" }, HTTPS_PORT, "weights that the image lacks")];
}

/** Only the gateway fetches images by their address, and only from hosts of the stack file. */
function imageEdges({ gateway: { imageHosts } }: ClusterPlan): readonly NetworkEdge[] {
  const ports = new Set(imageHosts.map((host) => Number(/:(\d+)$/.exec(host)?.[1] ?? HTTPS_PORT)));
  return [...ports]
    .sort((a, b) => a - b)
    .map((port) => edge(peer("gateway"), { kind: "internet" }, port, "images by their address"));
}

/** Databases elsewhere may be in any network; the address of the first is a secret, its port is not. */
function externalDatabaseEdges({ cluster: { databases } }: ClusterPlan): readonly NetworkEdge[] {
  if (databases?.kind !== "external") return [];
  const { protocol, port } = new URL(databases.vector.url);
  const vectorPort = port === "" ? (protocol === "https:" ? HTTPS_PORT : 80) : Number(port);
  const anywhere: Peer = { kind: "anyone" };
  return [
    edge(peer("gateway"), anywhere, databases.mongoPort, "the document database"),
    edge(peer("gateway"), anywhere, vectorPort, "the vector database"),
  ];
}
