/** The cluster's API, and every port but that of TLS, are closed to the internet at large. */
import { type ResourceFinding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, listAt, textAt } from "../values.ts";

/** A prefix shorter than this is no organisation's network: the largest that were ever given out are of eight bits. */
const SHORTEST_PREFIX_BITS = 8;

const TLS_PORT = 443;

/** `0.0.0.0/0`, `::/0`, and halves or quarters of them. */
function isOpenToAll(cidr: unknown): boolean {
  if (typeof cidr !== "string") return false;
  const bits = /\/(\d+)$/.exec(cidr)?.[1];
  return bits !== undefined && Number(bits) < SHORTEST_PREFIX_BITS;
}

/** One ingress rule of a security group, in whichever of its three forms. */
interface Ingress {
  readonly path: string;
  readonly cidrs: readonly unknown[];
  readonly fromPort: unknown;
  readonly toPort: unknown;
}

function ingressRules(type: string, inputs: Readonly<Record<string, unknown>>): readonly Ingress[] {
  switch (type) {
    case "aws:ec2/securityGroup:SecurityGroup":
    case "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup":
      return inputs.ingress === UNKNOWN
        ? [{ path: "ingress", cidrs: [UNKNOWN], fromPort: undefined, toPort: undefined }]
        : listAt(inputs, "ingress").map((rule, index) => listed(`ingress[${index}]`, rule));
    case "aws:ec2/securityGroupRule:SecurityGroupRule":
      return inputs.type === "ingress" ? [listed("cidrBlocks", inputs)] : [];
    case "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
      return [
        {
          path: "cidrIpv4",
          cidrs: [inputs.cidrIpv4, inputs.cidrIpv6],
          fromPort: inputs.fromPort,
          toPort: inputs.toPort,
        },
      ];
    default:
      return [];
  }
}

function listed(path: string, rule: unknown): Ingress {
  const blocks = ["cidrBlocks", "ipv6CidrBlocks"].flatMap((key) => {
    const value = at(rule, key);
    return Array.isArray(value) ? value : [value];
  });
  return { path, cidrs: blocks, fromPort: at(rule, "fromPort"), toPort: at(rule, "toPort") };
}

function ingressFindings({ path, cidrs, fromPort, toPort }: Ingress): readonly ResourceFinding[] {
  const open = cidrs.find(isOpenToAll);
  // A public gateway is reached there; public-endpoint-is-guarded looks at what answers.
  if (fromPort === TLS_PORT && toPort === TLS_PORT) return [];
  if (open !== undefined) {
    const ports =
      fromPort === undefined || fromPort === toPort
        ? `port ${fromPort ?? "of any number"}`
        : `ports ${fromPort} to ${toPort}`;
    return [
      {
        reason: `${path} lets ${String(open)} reach ${ports}, and only ${TLS_PORT} is meant for everybody.`,
        fix: "Name the networks, or the security group, that may reach it.",
      },
    ];
  }
  return cidrs.includes(UNKNOWN) ? [undecided(path)] : [];
}

function clusterFindings(inputs: Readonly<Record<string, unknown>>): readonly ResourceFinding[] {
  const network = inputs.vpcConfig;
  if (network === UNKNOWN) return [undecided("vpcConfig")];
  if (at(network, "endpointPublicAccess") === false) return [];
  const cidrs = at(network, "publicAccessCidrs");
  if (cidrs === UNKNOWN || (Array.isArray(cidrs) && cidrs.includes(UNKNOWN)))
    return [undecided("vpcConfig.publicAccessCidrs")];
  const open = Array.isArray(cidrs) && cidrs.length > 0 ? cidrs.find(isOpenToAll) : "0.0.0.0/0";
  if (open === undefined) return [];
  return [
    {
      reason: `vpcConfig.publicAccessCidrs ${cidrs === undefined ? "is absent, which means" : "has"} ${open}: the whole internet may try the cluster's API.`,
      fix: "Write the networks of those who administer it in access.apiCidrs.",
    },
  ];
}

export const apiIsNotOpenToAll: Rule = {
  description: "Neither the cluster's API nor a port other than TLS's is open to every address.",
  scope: "resource",
  check({ type, inputs }) {
    if (type === "aws:eks/cluster:Cluster") return clusterFindings(inputs);
    if (type === "kubernetes:core/v1:Service" && textAt(inputs, "spec", "type") === "LoadBalancer")
      return listAt(inputs, "spec", "loadBalancerSourceRanges").some(isOpenToAll)
        ? [
            {
              reason: "spec.loadBalancerSourceRanges has every address of the internet.",
              fix: "Name the networks that may reach it.",
            },
          ]
        : [];
    return ingressRules(type, inputs).flatMap(ingressFindings);
  },
};
