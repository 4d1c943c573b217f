/** The table of connections as NetworkPolicies. Pure: the same table gives the same policies. */
import type { types } from "@pulumi/kubernetes";
import type { Labels, PodRole } from "../../infra/plan/kubernetes/pod-types.ts";
import type { NetworkEdge, Peer } from "../../infra/plan/kubernetes/types.ts";

type PolicySpec = types.input.networking.v1.NetworkPolicySpec;
type PolicyPeer = types.input.networking.v1.NetworkPolicyPeer;

interface Policy {
  readonly name: string;
  /** Whose pods it is about; null: all. */
  readonly role: PodRole | null;
  readonly spec: PolicySpec;
}

/** A policy of each role, behind one that refuses everything. @param selector - Of all pods of the stack. */
export function networkPolicies(edges: readonly NetworkEdge[], selector: Labels): readonly Policy[] {
  const roles = [...new Set(edges.flatMap(({ from, to }) => [...roleOf(from), ...roleOf(to)]))].sort();
  return [
    {
      name: "default-deny",
      role: null,
      spec: { podSelector: { matchLabels: { ...selector } }, policyTypes: ["Ingress", "Egress"] },
    },
    ...roles.map((role) => rolePolicy(role, edges, selector)),
  ];
}

function roleOf(peer: Peer): readonly PodRole[] {
  return peer.kind === "role" ? [peer.role] : [];
}

function rolePolicy(role: PodRole, edges: readonly NetworkEdge[], selector: Labels): Policy {
  const ingress = edges
    .filter(({ to }) => roleOf(to).includes(role))
    .map((edge) => ({ ...peersAs("from", edge.from, selector), ports: [portOf(edge)] }));
  const egress = edges
    .filter(({ from }) => roleOf(from).includes(role))
    .map((edge) => ({ ...peersAs("to", edge.to, selector), ports: [portOf(edge)] }));
  return {
    // Names of objects are lower case.
    role,
    name: role.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    spec: {
      podSelector: { matchLabels: roleLabels(role, selector) },
      policyTypes: ["Ingress", "Egress"],
      ...(ingress.length === 0 ? {} : { ingress }),
      ...(egress.length === 0 ? {} : { egress }),
    },
  };
}

function roleLabels(role: PodRole, selector: Labels): Record<string, string> {
  return { ...selector, "app.kubernetes.io/component": role };
}

function portOf({ port, protocol }: NetworkEdge) {
  return { port, protocol };
}

/** No list of peers stands for everybody. */
function peersAs<Key extends "from" | "to">(
  key: Key,
  peer: Peer,
  selector: Labels,
): Partial<Record<Key, PolicyPeer[]>> {
  const peers = policyPeers(peer, selector);
  return peers === null ? {} : ({ [key]: peers } as Record<Key, PolicyPeer[]>);
}

/** Label that every namespace has by itself. */
const NAMESPACE_NAME = "kubernetes.io/metadata.name";

/** A cache of names that runs on every machine listens there, outside of all namespaces. */
const NODE_LOCAL_DNS = "169.254.20.10/32";

/**
 * RFC 1918, shared and link-local addresses: the cluster's own network, and the metadata of cloud machines, whose
 * credentials are nobody's business here.
 */
const PRIVATE_V4 = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];
const PRIVATE_V6 = ["fc00::/7", "fe80::/10"];

/** null: everybody. */
function policyPeers(peer: Peer, selector: Labels): PolicyPeer[] | null {
  switch (peer.kind) {
    case "role":
      return [{ podSelector: { matchLabels: roleLabels(peer.role, selector) } }];
    case "namespace":
      return [namespacePeer(peer.namespace)];
    case "dns":
      return [namespacePeer("kube-system"), { ipBlock: { cidr: NODE_LOCAL_DNS } }];
    case "internet":
      return [
        { ipBlock: { cidr: "0.0.0.0/0", except: PRIVATE_V4 } },
        { ipBlock: { cidr: "::/0", except: PRIVATE_V6 } },
      ];
    case "anyone":
      return null;
  }
}

function namespacePeer(namespace: string): PolicyPeer {
  return { namespaceSelector: { matchLabels: { [NAMESPACE_NAME]: namespace } } };
}
