/**
 * Connections of a stack's pods, as a table and as NetworkPolicies, and access to the gateway from outside of the cluster, by an
 * Ingress or through a Gateway of the Gateway API. A connection that is not in the table is refused.
 */
import type { types } from "@pulumi/kubernetes";
import { DATABASE_PORTS } from "../containers/databases.ts";
import { GATEWAY_PORT } from "../containers/gateway.ts";
import type { Plain } from "../plain-data.ts";
import { TRITON_PORTS } from "../repository/launch.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import {
  type ApiObject,
  type CustomObject,
  type Labels,
  objectLabels,
  POD_ROLES,
  type PodRole,
  podSelector,
  unlessEmpty,
} from "./objects.ts";

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
  /** The agent on each node that hands pods the credentials of their role. */
  | "podIdentity"
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

/** A policy for each role, and one that refuses everything else of the stack's pods. */
export function networkPolicies(stack: string, plan: ClusterPlan) {
  const edges = networkEdges(plan);
  const selector = podSelector(stack);
  const roles = [...new Set(edges.flatMap(({ from, to }) => [from, to]).filter(isRole))].sort();
  const policy = (role: PodRole | null, resource: string, spec: PolicySpec) => ({
    /** null for all pods of the stack. */
    role,
    /** Last part of the resource's name in Pulumi. */
    resource,
    policy: {
      kind: "NetworkPolicy",
      metadata: { name: `engine-room-${resource}`, labels: objectLabels(stack) },
      spec: { ...spec, policyTypes: ["Ingress", "Egress"] },
    } satisfies ApiObject<"NetworkPolicy">,
  });
  return [
    policy(null, "default-deny", { podSelector: { matchLabels: selector } }),
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
    podSelector: rolePods(role, selector),
    ingress: unlessEmpty(rules("from", "to")),
    egress: unlessEmpty(rules("to", "from")),
  };
}

function rolePods(role: PodRole, selector: Labels) {
  return { matchLabels: { ...selector, "app.kubernetes.io/component": role } };
}

/** A cache of names that runs on every node listens there, outside of all namespaces. */
const NODE_LOCAL_DNS = "169.254.20.10/32";

/** https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html, considerations */
const POD_IDENTITY = "169.254.170.23/32";
const POD_IDENTITY_PORT = 80;

/** RFC 1918, shared and link-local addresses: the cluster's own network, and the metadata of cloud machines with credentials. */
const PRIVATE_V4 = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];
const PRIVATE_V6 = ["fc00::/7", "fe80::/10"];

/** undefined for any peer. */
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
    case "podIdentity":
      return [{ ipBlock: { cidr: POD_IDENTITY } }];
    case "anyone":
      return undefined;
    default:
      return [{ podSelector: rolePods(peer, selector) }];
  }
}

/** By the label that every namespace has by itself. */
function namespacePeer(namespace: string): PolicyPeer {
  return { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } } };
}

/** The table of a stack, without ends that the stack does not have. */
export function networkEdges(plan: ClusterPlan): readonly NetworkEdge[] {
  const { databases, tritonClients, monitoringNamespace, bucketAccount } = plan.cluster;
  const { http, grpc, metrics } = TRITON_PORTS;
  const prometheus = { namespace: monitoringNamespace };
  // Triton has no keys and takes requests that change it, so that only namespaces of the stack file reach it.
  const clients = [...TOOLS, ...tritonClients.map((namespace) => ({ namespace }))];
  const roles = rolesOf(plan);
  const tcp = (from: Peer, to: Peer, ...ports: readonly number[]) =>
    ports.map((port): NetworkEdge => ({ from, to, port, protocol: "TCP" }));
  const edges = [
    ...roles.flatMap((from) => [
      { from, to: "dns", port: DNS_PORT, protocol: "UDP" } as const,
      ...tcp(from, "dns", DNS_PORT),
    ]),
    // Clients, and the controller of an Ingress.
    ...(["anyone", ...TOOLS] as const).flatMap((client) => tcp(client, "gateway", GATEWAY_PORT)),
    ...(["triton", "encoders"] as const).flatMap((server) => [
      ...tcp("gateway", server, http),
      ...clients.flatMap((client) => tcp(client, server, http, grpc)),
    ]),
    ...tcp("gateway", "mongo", DATABASE_PORTS.mongo),
    ...tcp("gateway", "vector", DATABASE_PORTS.vector),
    ...tcp(prometheus, "triton", metrics),
    ...tcp(prometheus, "encoders", metrics),
    ...(databases?.kind === "mock" ? tcp(prometheus, "mongo", DATABASE_PORTS.mongoMetrics) : []),
    ...tcp(prometheus, "vector", DATABASE_PORTS.vector),
    // Weights of a hub.
    ...tcp("engineBuild", "internet", HTTPS_PORT),
    ...(bucketAccount === null ? [] : tcp("engineBuild", "podIdentity", POD_IDENTITY_PORT)),
    ...tcp("encoderBuild", "internet", HTTPS_PORT),
    ...(fetchesWeights(plan) ? tcp("encoders", "internet", HTTPS_PORT) : []),
    ...tcp("gateway", "internet", ...imagePorts(plan)),
    ...tcp("gateway", "anyone", ...externalDatabasePorts(plan)),
  ];
  const exists = (peer: Peer) => !isRole(peer) || roles.includes(peer);
  return edges.filter(({ from, to }) => exists(from) && exists(to));
}

/** Roles of a stack's pods that have connections, and of its tools. */
function rolesOf({ tier, encoders, cluster: { databases } }: ClusterPlan): readonly PodRole[] {
  const runsDatabases = databases !== null && databases.kind !== "external";
  const all: readonly (readonly [role: PodRole, exists: boolean])[] = [
    ["engineBuild", tier === "gpu"],
    ["encoderBuild", tier === "gpu" && encoders !== null],
    ["encoders", encoders !== null],
    ["triton", true],
    ["gateway", true],
    ["mongo", runsDatabases],
    ["vector", runsDatabases],
  ];
  return [...all.flatMap(([role, exists]) => (exists ? [role] : [])), ...TOOLS];
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

/** Name of the gateway's Deployment and Service. */
export const GATEWAY = "gateway";

interface GatewayAccess {
  readonly ingress: ApiObject<"Ingress"> | null;
  readonly route: CustomObject | null;
}

/** At most one of both; none if all clients are in the cluster. */
export function gatewayAccess(stack: string, { cluster: { ingress }, gateway }: ClusterPlan): GatewayAccess {
  if (ingress === null) return { ingress: null, route: null };
  const { host, className, tlsSecret, issuer, route } = ingress;
  const { requestSeconds, bodyMiB } = gateway.limits;
  const metadata = { name: GATEWAY, labels: objectLabels(stack, { role: "gateway" }) };
  if (route !== null) {
    // Without a section name, every listener that takes the host.
    const parent = {
      name: route.gateway,
      namespace: route.namespace,
      sectionName: route.listener ?? undefined,
    };
    const rule = {
      matches: [{ path: { type: "PathPrefix", value: "/" } }],
      timeouts: { request: `${requestSeconds}s` },
      backendRefs: [{ name: GATEWAY, port: gateway.port }],
    };
    return {
      ingress: null,
      route: {
        apiVersion: "gateway.networking.k8s.io/v1",
        kind: "HTTPRoute",
        metadata,
        spec: { parentRefs: [parent], hostnames: [host], rules: [rule] },
      },
    };
  }
  const annotations = {
    // https://cert-manager.io/docs/usage/ingress/#supported-annotations
    ...(issuer === null
      ? {}
      : { [`cert-manager.io/${issuer.isClusters ? "cluster-issuer" : "issuer"}`]: issuer.name }),
    // Only ingress-nginx reads these; by default it buffers answers and ends them after a minute.
    "nginx.ingress.kubernetes.io/proxy-body-size": `${bodyMiB}m`,
    "nginx.ingress.kubernetes.io/proxy-buffering": "off",
    "nginx.ingress.kubernetes.io/proxy-read-timeout": String(requestSeconds),
    // Not every controller writes an address into it, which the provider would wait for.
    "pulumi.com/skipAwait": "true",
  };
  const backend = { service: { name: GATEWAY, port: { number: gateway.port } } };
  return {
    ingress: {
      kind: "Ingress",
      metadata: { ...metadata, annotations },
      spec: {
        ingressClassName: className ?? undefined,
        tls: tlsSecret === null ? undefined : [{ hosts: [host], secretName: tlsSecret }],
        rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
      },
    },
    route: null,
  };
}
