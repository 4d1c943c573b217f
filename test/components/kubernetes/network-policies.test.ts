import { describe, expect, test } from "vitest";
import { networkPolicies } from "../../../components/kubernetes/network-policy-args.ts";
import { objectLabels, podSelector } from "../../../infra/plan/kubernetes/labels.ts";
import { POD_ROLES } from "../../../infra/plan/kubernetes/pod-types.ts";
import type { KubernetesStack, Peer } from "../../../infra/plan/kubernetes/types.ts";
import { clusterStack, clusterValues, fullValues } from "../../infra/plan/kubernetes/stacks.ts";
import { isAllowed, type Party, type PolicySpec } from "./policy-walk.ts";

/** All that a stack's pods could talk to, by the peers of the table that stand for it. */
function parties(
  namespace: string,
): readonly { readonly name: string; readonly party: Party; readonly peers: readonly string[] }[] {
  return [
    ...POD_ROLES.map((role) => ({
      name: role,
      party: { kind: "pod" as const, namespace, labels: objectLabels("demo", { role, model: "gpt" }) },
      peers: [role, "anyone"],
    })),
    {
      name: "a pod of another stack here",
      party: { kind: "pod", namespace, labels: objectLabels("other", { role: "gateway" }) },
      peers: ["anyone"],
    },
    { name: "a pod elsewhere", party: { kind: "pod", namespace: "default", labels: {} }, peers: ["anyone"] },
    {
      name: "a gateway elsewhere",
      party: { kind: "pod", namespace: "default", labels: objectLabels("demo", { role: "gateway" }) },
      peers: ["anyone"],
    },
    {
      name: "the resolver",
      party: { kind: "pod", namespace: "kube-system", labels: {} },
      peers: ["dns", "anyone"],
    },
    {
      name: "Prometheus",
      party: { kind: "pod", namespace: "monitoring", labels: {} },
      peers: ["monitoring", "anyone"],
    },
    {
      name: "a notebook",
      party: { kind: "pod", namespace: "notebooks", labels: {} },
      peers: ["notebooks", "anyone"],
    },
    {
      name: "the machine's cache of names",
      party: { kind: "address", address: "169.254.20.10" },
      peers: ["dns", "anyone"],
    },
    {
      name: "a server of the internet",
      party: { kind: "address", address: "203.0.113.7" },
      peers: ["internet", "anyone"],
    },
    {
      name: "a server of the internet, IPv6",
      party: { kind: "address", address: "2606:4700::1" },
      peers: ["internet", "anyone"],
    },
    {
      name: "the machine's metadata",
      party: { kind: "address", address: "169.254.169.254" },
      peers: ["anyone"],
    },
    { name: "a server of the company", party: { kind: "address", address: "10.1.2.3" }, peers: ["anyone"] },
    {
      name: "a server of the company, IPv6",
      party: { kind: "address", address: "fd00::7" },
      peers: ["anyone"],
    },
  ];
}

/** Ports of the stack, and some of nobody. */
const PORTS = [53, 80, 443, 6333, 6334, 8000, 8001, 8002, 8080, 8443, 9216, 22, 27_017];
const PROTOCOLS = ["TCP", "UDP"] as const;

function peerName(peer: Peer): string {
  if (peer.kind === "role") return peer.role;
  return peer.kind === "namespace" ? peer.namespace : peer.kind;
}

const isOurs = (name: string) => (POD_ROLES as readonly string[]).includes(name);

function policiesOf({
  edges,
}: KubernetesStack): readonly { readonly name: string; readonly spec: PolicySpec }[] {
  // Without outputs in it, what the API gets is what the types say.
  return networkPolicies(edges, podSelector("demo")) as unknown as readonly {
    name: string;
    spec: PolicySpec;
  }[];
}

describe.each([
  ["mock databases", clusterStack(clusterValues)],
  ["databases elsewhere, and images by their address", clusterStack(fullValues)],
  ["clients of Triton itself", clusterStack({ ...clusterValues, tritonClients: ["notebooks"] })],
])("of a stack with %s", (_, stack) => {
  const namespace = stack.namespace.name;
  const specs = policiesOf(stack).map(({ spec }) => spec);

  test("every connection of the table gets through, and no other", () => {
    const wrong: string[] = [];
    let allowed = 0;
    for (const from of parties(namespace))
      for (const to of parties(namespace))
        for (const protocol of PROTOCOLS)
          for (const port of PORTS) {
            // What neither end of the stack takes part in is no business of its policies.
            if (!isOurs(from.name) && !isOurs(to.name)) continue;
            const rows = stack.edges.filter((edge) => edge.port === port && edge.protocol === protocol);
            const leaves = rows.some(
              (row) => peerName(row.from) === from.name && to.peers.includes(peerName(row.to)),
            );
            const enters = rows.some(
              (row) => peerName(row.to) === to.name && from.peers.includes(peerName(row.from)),
            );
            // Both ends have a say: a row for the gateway's clients opens no way out of another pod of the stack.
            const planned = (leaves || !isOurs(from.name)) && (enters || !isOurs(to.name));
            const found = isAllowed(specs, namespace, from.party, to.party, { port, protocol });
            if (found) allowed += 1;
            if (found !== planned)
              wrong.push(`${from.name} -> ${to.name} ${protocol} ${port}: ${found ? "open" : "refused"}`);
          }
    expect(wrong).toEqual([]);
    expect(allowed).toBeGreaterThan(stack.edges.length);
  });

  test("a pod that no row is about is shut off", () => {
    const stray: Party = { kind: "pod", namespace, labels: podSelector("demo") };
    for (const { party } of parties(namespace))
      for (const port of PORTS) {
        expect(isAllowed(specs, namespace, stray, party, { port, protocol: "TCP" })).toBe(false);
        expect(isAllowed(specs, namespace, party, stray, { port, protocol: "TCP" })).toBe(false);
      }
  });
});

describe("the table", () => {
  const reach = (stack: KubernetesStack, from: string, to: string) =>
    stack.edges
      .filter((edge) => peerName(edge.from) === from && peerName(edge.to) === to)
      .map(({ port }) => port);

  test("lets the gateway and the tools reach Triton, and Prometheus its metrics", () => {
    const stack = clusterStack(clusterValues);
    const intoTriton = stack.edges.filter(({ to }) => peerName(to) === "triton");
    expect(intoTriton.map(({ from, port }) => `${peerName(from)} ${port}`)).toEqual([
      "gateway 8000",
      "bench 8000",
      "bench 8001",
      "smoke 8000",
      "smoke 8001",
      "monitoring 8002",
    ]);
  });

  test("lets nobody but builds out to the internet, and the gateway only for images by their address", () => {
    const out = (stack: KubernetesStack) =>
      stack.edges
        .filter(({ to }) => to.kind === "internet")
        .map(({ from, port }) => `${peerName(from)} ${port}`);
    expect(out(clusterStack(clusterValues))).toEqual(["engineBuild 443", "encoderBuild 443"]);
    expect(out(clusterStack(fullValues))).toEqual([
      "engineBuild 443",
      "encoderBuild 443",
      "gateway 443",
      "gateway 8443",
    ]);
  });

  test("knows databases elsewhere by their ports", () => {
    expect(reach(clusterStack(fullValues), "gateway", "anyone")).toEqual([27_017, 6334]);
    expect(reach(clusterStack(clusterValues), "gateway", "mongo")).toEqual([27_017]);
  });

  test("has no row for what the stack does not have", () => {
    const small = clusterStack({ ...clusterValues, encoders: false });
    const names = new Set(small.edges.flatMap(({ from, to }) => [peerName(from), peerName(to)]));
    for (const absent of ["encoders", "encoderBuild", "mongo", "vector"]) expect(names).not.toContain(absent);
  });
});
