/**
 * Evaluates NetworkPolicies as Kubernetes does:
 * https://kubernetes.io/docs/concepts/services-networking/network-policies/
 */
import { BlockList, isIPv6 } from "node:net";

type Labels = Readonly<Record<string, string>>;

/** A pod of some namespace, or an address outside of the cluster. */
export type Party =
  | { readonly kind: "pod"; readonly namespace: string; readonly labels: Labels }
  | { readonly kind: "address"; readonly address: string };

interface Selector {
  readonly matchLabels?: Labels;
}
interface PeerRule {
  readonly podSelector?: Selector;
  readonly namespaceSelector?: Selector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}
interface PortRule {
  readonly port: number;
  readonly protocol: string;
}
export interface PolicySpec {
  readonly podSelector: Selector;
  readonly policyTypes: readonly string[];
  readonly ingress?: readonly { readonly from?: readonly PeerRule[]; readonly ports?: readonly PortRule[] }[];
  readonly egress?: readonly { readonly to?: readonly PeerRule[]; readonly ports?: readonly PortRule[] }[];
}

/** Whether a connection gets through: out of one end, and into the other. */
export function isAllowed(
  specs: readonly PolicySpec[],
  ownNamespace: string,
  from: Party,
  to: Party,
  port: PortRule,
): boolean {
  const side = (party: Party, type: "Ingress" | "Egress", other: Party) => {
    if (party.kind === "address" || party.namespace !== ownNamespace) return true;
    const governing = specs.filter(
      (spec) => spec.policyTypes.includes(type) && matches(spec.podSelector, party.labels),
    );
    if (governing.length === 0) return true;
    return governing.some((spec) =>
      rulesOf(spec, type).some(
        ({ peers, ports }) =>
          (ports === undefined ||
            ports.some((one) => one.port === port.port && one.protocol === port.protocol)) &&
          (peers === undefined || peers.some((peer) => isPeer(peer, other, ownNamespace))),
      ),
    );
  };
  return side(from, "Egress", to) && side(to, "Ingress", from);
}

function rulesOf(spec: PolicySpec, type: "Ingress" | "Egress") {
  return type === "Ingress"
    ? (spec.ingress ?? []).map(({ from, ports }) => ({ peers: from, ports }))
    : (spec.egress ?? []).map(({ to, ports }) => ({ peers: to, ports }));
}

function isPeer({ podSelector, namespaceSelector, ipBlock }: PeerRule, party: Party, own: string): boolean {
  if (party.kind === "address") return ipBlock !== undefined && isInBlock(ipBlock, party.address);
  if (ipBlock !== undefined) return false;
  const isInNamespace =
    namespaceSelector === undefined
      ? party.namespace === own
      : matches(namespaceSelector, { "kubernetes.io/metadata.name": party.namespace });
  return isInNamespace && (podSelector === undefined || matches(podSelector, party.labels));
}

function isInBlock({ cidr, except = [] }: NonNullable<PeerRule["ipBlock"]>, address: string): boolean {
  return isIn(cidr, address) && !except.some((one) => isIn(one, address));
}

function isIn(cidr: string, address: string): boolean {
  const [network = "", length = "0"] = cidr.split("/");
  const family = isIPv6(address) ? "ipv6" : "ipv4";
  if (isIPv6(network) !== (family === "ipv6")) return false;
  const list = new BlockList();
  list.addSubnet(network, Number(length), family);
  return list.check(address, family);
}

function matches({ matchLabels = {} }: Selector, labels: Labels): boolean {
  return Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
}
