/** Connections of a stack's pods, as a table and as NetworkPolicies: a connection that is not in the table is refused. */
import type { types } from "@pulumi/kubernetes";
import { DATABASE_PORTS } from "../containers/databases.ts";
import { GATEWAY_PORT } from "../containers/gateway.ts";
import type { Plain } from "../plain.ts";
import { TRITON_PORTS } from "../repository/launch.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { type Labels, objectLabels, POD_ROLES, type PodRole, podSelector, unlessEmpty } from "./labels.ts";
import type { PolicyPlan } from "./types.ts";

type PolicyPeer = Plain<types.input.networking.v1.NetworkPolicyPeer>;
type PolicySpec = Plain<types.input.networking.v1.NetworkPolicySpec>;

/** One end of a connection. */
export type Peer =
  | PodRole
  /** The cluster's resolver. */
  | "dns"
  /** Every address that reaches the cluster's pods. */
  | "anyone"
  /** Addresses outside of private networks. */
  | "internet"
  /** Pods of another namespace. */
  | { readonly namespace: string };

/** A row of the table. */
export interface NetworkEdge {
  readonly from: Peer;
  readonly to: Peer;
  readonly port: number;
  readonly protocol: "TCP" | "UDP";
}

const DNS_PORT = 53;
const HTTPS_PORT = 443;

/** Pods that the scripts start beside the stack. */
const TOOLS: readonly PodRole[] = ["bench", "smoke"];

/** A policy for each role, and one that refuses everything. The namespace may have policies of others. */
export function networkPolicies(stack: string, plan: ClusterPlan): readonly PolicyPlan[] {
  const edges = networkEdges(plan);
  const selector = podSelector(stack);
  const roles = [...new Set(edges.flatMap(({ from, to }) => [from, to]).filter(isRole))].sort();
  const policy = (role: PodRole | null, resource: string, spec: PolicySpec): PolicyPlan => ({
    role,
    resource,
    policy: { metadata: { name: `engine-room-${resource}`, labels: objectLabels(stack) }, spec },
  });
  return [
    policy(null, "default-deny", {
      podSelector: { matchLabels: selector },
      policyTypes: ["Ingress", "Egress"],
    }),
    ...roles.map((role) =>
      policy(
        role,
        role.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
        roleSpec(role, edges, selector),
      ),
    ),
  ];
}

function isRole(peer: Peer): peer is PodRole {
  return (POD_ROLES as readonly Peer[]).includes(peer);
}

/** A rule without peers allows all of them. */
function roleSpec(role: PodRole, edges: readonly NetworkEdge[], selector: Labels): PolicySpec {
  const rules = <Key extends "from" | "to">(key: Key, own: "from" | "to") =>
    edges
      .filter((edge) => edge[own] === role)
      .map(({ [key]: peer, port, protocol }) => {
        return { [key]: policyPeers(peer, selector), ports: [{ port, protocol }] };
      });
  return {
    podSelector: { matchLabels: roleLabels(role, selector) },
    policyTypes: ["Ingress", "Egress"],
    ingress: unlessEmpty(rules("from", "to")),
    egress: unlessEmpty(rules("to", "from")),
  };
}

function roleLabels(role: PodRole, selector: Labels): Labels {
  return { ...selector, "app.kubernetes.io/component": role };
}

/** A cache of names that runs on every node listens there, outside of all namespaces. */
const NODE_LOCAL_DNS = "169.254.20.10/32";

/** RFC 1918, shared and link-local addresses: the cluster's own network, and the metadata of cloud machines with credentials. */
const PRIVATE_V4 = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];
const PRIVATE_V6 = ["fc00::/7", "fe80::/10"];

/** undefined: everybody. */
function policyPeers(peer: Peer, selector: Labels): PolicyPeer[] | undefined {
  if (typeof peer === "object") return [namespacePeer(peer.namespace)];
  switch (peer) {
    case "dns":
      return [namespacePeer("kube-system"), { ipBlock: { cidr: NODE_LOCAL_DNS } }];
    case "internet":
      return [
        { ipBlock: { cidr: "0.0.0.0/0", except: PRIVATE_V4 } },
        { ipBlock: { cidr: "::/0", except: PRIVATE_V6 } },
      ];
    case "anyone":
      return undefined;
    default:
      return [{ podSelector: { matchLabels: roleLabels(peer, selector) } }];
  }
}

/** By the label that every namespace has by itself. */
function namespacePeer(namespace: string): PolicyPeer {
  return { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } } };
}

/** The table of a stack, without ends that the stack does not have. */
export function networkEdges(plan: ClusterPlan): readonly NetworkEdge[] {
  const { databases, tritonClients, monitoringNamespace } = plan.cluster;
  const prometheus = { namespace: monitoringNamespace };
  const roles = rolesOf(plan);
  const edges = [
    ...roles.flatMap((role) => [
      { ...edge(role, "dns", DNS_PORT), protocol: "UDP" as const },
      edge(role, "dns", DNS_PORT),
    ]),
    // Clients, and the controller of an Ingress.
    edge("anyone", "gateway", GATEWAY_PORT),
    ...TOOLS.map((tool) => edge(tool, "gateway", GATEWAY_PORT)),
    ...(["triton", "encoders"] as const).flatMap((role) => tritonEdges(role, tritonClients)),
    edge("gateway", "mongo", DATABASE_PORTS.mongo),
    edge("gateway", "vector", DATABASE_PORTS.vector),
    edge(prometheus, "triton", TRITON_PORTS.metrics),
    edge(prometheus, "encoders", TRITON_PORTS.metrics),
    ...(databases?.kind === "mock" ? [edge(prometheus, "mongo", DATABASE_PORTS.mongoMetrics)] : []),
    edge(prometheus, "vector", DATABASE_PORTS.vector),
    // Weights of a hub.
    edge("engineBuild", "internet", HTTPS_PORT),
    edge("encoderBuild", "internet", HTTPS_PORT),
    ...(fetchesWeights(plan) ? [edge("encoders", "internet", HTTPS_PORT)] : []),
    ...imagePorts(plan).map((port) => edge("gateway", "internet", port)),
    ...externalDatabasePorts(plan).map((port) => edge("gateway", "anyone", port)),
  ];
  const isThere = (peer: Peer) => !isRole(peer) || roles.includes(peer);
  return edges.filter(({ from, to }) => isThere(from) && isThere(to));
}

/** Roles of a stack's pods that have connections, and of its tools. */
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

function edge(from: Peer, to: Peer, port: number): NetworkEdge {
  return { from, to, port, protocol: "TCP" };
}

/** Triton has no keys and takes requests that change it, so that only namespaces of the stack file reach it. */
function tritonEdges(role: PodRole, clients: readonly string[]): readonly NetworkEdge[] {
  const { http, grpc } = TRITON_PORTS;
  return [
    edge("gateway", role, http),
    ...[...TOOLS, ...clients.map((namespace) => ({ namespace }))].flatMap((client) => [
      edge(client, role, http),
      edge(client, role, grpc),
    ]),
  ];
}

/** Whether the encoders fetch weights when they start: the CPU tier has no builds, and its image may lack some. */
function fetchesWeights(plan: ClusterPlan): boolean {
  if (plan.tier === "gpu") return false;
  const { text, vision } = plan.encoders;
  return [...text.sources, ...vision.sources].some(({ kind }) => kind === "hub");
}

/** Ports of the stack file's hosts from which the gateway fetches images. */
function imagePorts({ gateway: { imageHosts } }: ClusterPlan): readonly number[] {
  const ports = new Set(imageHosts.map((host) => Number(/:(\d+)$/.exec(host)?.[1] ?? HTTPS_PORT)));
  return [...ports].sort((a, b) => a - b);
}

/** Databases elsewhere may be in any network. The address of the first is a secret, its port is not. */
function externalDatabasePorts({ cluster: { databases } }: ClusterPlan): readonly number[] {
  if (databases?.kind !== "external") return [];
  const { protocol, port } = new URL(databases.vector.url);
  const vectorPort = port === "" ? (protocol === "https:" ? HTTPS_PORT : 80) : Number(port);
  return [databases.mongoPort, vectorPort];
}
