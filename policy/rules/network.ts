/** Rules about who reaches what: TLS and keys at public endpoints, and the networks that reach an API or a port. */
import {
  at,
  type Check,
  type CheckedResource,
  type Finding,
  listAt,
  type Rule,
  type StackFacts,
  textAt,
  UNKNOWN,
  undecided,
  violatedIf,
} from "../rule.ts";

const KEYS_FIX = "Make a key with `npx engine-room key` and add the lines that it prints to gateway.apiKeys.";

/** By which cloud controllers are told to keep a load balancer inside of a network. */
const INTERNAL_ANNOTATIONS: Readonly<Record<string, string>> = {
  "alb.ingress.kubernetes.io/scheme": "internal",
  "service.beta.kubernetes.io/aws-load-balancer-scheme": "internal",
  "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
  "service.beta.kubernetes.io/azure-load-balancer-internal": "true",
  "networking.gke.io/load-balancer-type": "Internal",
};

const TLS_ANNOTATIONS = [
  "alb.ingress.kubernetes.io/certificate-arn",
  "service.beta.kubernetes.io/aws-load-balancer-ssl-cert",
];

/** Empty if all annotations are unknown: they guard nothing then. */
function annotation({ inputs }: CheckedResource, name: string): string {
  const annotations = at(inputs, "metadata", "annotations");
  return annotations === UNKNOWN ? "" : (textAt(annotations, name) ?? "");
}

function hasTlsAnnotation(resource: CheckedResource): boolean {
  return TLS_ANNOTATIONS.some((name) => annotation(resource, name) !== "");
}

function missingKeys({ hasApiKeys }: StackFacts): readonly Finding[] {
  const reason = "The gateway behind it requires no API key: everyone who reaches it can use the models.";
  return violatedIf(!hasApiKeys, reason, KEYS_FIX);
}

/** Whether an endpoint with `exposure: internal` is really private depends on its network: a violation is undecided then. */
function ifReachable(findings: readonly Finding[], { exposure }: StackFacts): readonly Finding[] {
  if (exposure !== "internal") return findings;
  return findings.map((finding) =>
    finding.isUndecided
      ? finding
      : {
          reason: `${finding.reason} The stack file has exposure: internal, and the network in front of it decides whether that is true.`,
          fix: "Make sure that its address is not public.",
          isUndecided: true,
        },
  );
}

/** For objects of Kubernetes that lead to the gateway. @param missingTls - undefined: it can't be reached from outside. */
function entrance(
  missingTls: (resource: CheckedResource, facts: StackFacts) => readonly Finding[] | undefined,
): Check {
  return (resource, { facts }) => {
    const findings = missingTls(resource, facts);
    const isInternal = Object.entries(INTERNAL_ANNOTATIONS).some(
      ([name, value]) => annotation(resource, name) === value,
    );
    return findings === undefined || isInternal
      ? []
      : ifReachable([...findings, ...missingKeys(facts)], facts);
  };
}

const service = entrance((resource) => {
  const type = at(resource.inputs, "spec", "type");
  if (type === "LoadBalancer" && hasTlsAnnotation(resource)) return [];
  if (type !== "LoadBalancer" && type !== "NodePort") return undefined;
  return [
    {
      reason: `A Service of type ${type} opens its ports to everyone who reaches ${type === "NodePort" ? "a machine of the cluster" : "its address"}, without TLS.`,
      fix: "Leave the Service at ClusterIP, and lead clients to it through an Ingress or an HTTPRoute with TLS.",
    },
  ];
});

/** Loopback and private networks. */
const PRIVATE_ADDRESS =
  /^(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|::1$|f[cd])/;

function publishedPort(port: unknown, isGateway: boolean, { hasApiKeys }: StackFacts): readonly Finding[] {
  // Docker's default.
  const ip = textAt(port, "ip") ?? "0.0.0.0";
  if (ip === UNKNOWN) return undecided("the address of a port");
  const where = `Port ${String(at(port, "external"))} is bound to ${ip}`;
  if (PRIVATE_ADDRESS.test(ip)) return [];
  if (!isGateway) {
    const reason = `${where}, and only the gateway checks keys: everyone who reaches the host can use it.`;
    return [{ reason, fix: "Bind it to 127.0.0.1." }];
  }
  if (!hasApiKeys) {
    const reason = `${where}, and the gateway requires no API key: everyone who reaches the host can use it.`;
    return [{ reason, fix: KEYS_FIX }];
  }
  return [
    {
      reason: `${where} without TLS; a proxy with TLS or a firewall in front of it can't be seen from here.`,
      fix: "Bind it to an address of a private network with host.address, behind a proxy that terminates TLS.",
      isUndecided: true,
    },
  ];
}

/** Without TLS, keys and prompts cross the internet in plain text; without keys anyone can use the GPUs. */
export const publicEndpointIsGuarded: Rule = {
  description: "Public endpoints use TLS and require an API key.",
  // Mandatory on previews too: anyone can find their addresses.
  scope: "stack",
  checks: {
    "kubernetes:networking.k8s.io/v1:Ingress": entrance((resource) => {
      const tls = at(resource.inputs, "spec", "tls");
      if (tls === UNKNOWN) return undecided("spec.tls");
      const secured = listAt(tls).flatMap((entry) => listAt(entry, "hosts"));
      const open = listAt(resource.inputs, "spec", "rules")
        .map((rule) => textAt(rule, "host") ?? "every host")
        .filter((host) => !secured.includes(host));
      return violatedIf(
        open.length > 0 && !hasTlsAnnotation(resource),
        `The Ingress has no TLS for ${open.join(", ")}: keys and prompts cross the network in plain text.`,
        "Set gateway.tls and gateway.hostname, or keep it inside with `exposure: internal`.",
      );
    }),
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": entrance((_route, { listenerEndsTls }) =>
      violatedIf(
        !listenerEndsTls,
        "The listener of its Gateway does not terminate TLS (gateway.route.tls is false): keys and prompts are sent in plain text.",
        "Name a listener with a certificate in gateway.route.listener.",
      ),
    ),
    "kubernetes:core/v1:Service": (resource, stack) =>
      at(resource.inputs, "spec", "type") === UNKNOWN ? undecided("spec.type") : service(resource, stack),
    "aws:lb/listener:Listener": ({ inputs, propertyDependencies }, { resources, facts }) => {
      const balancer = resources.find(
        ({ type, urn }) =>
          type === "aws:lb/loadBalancer:LoadBalancer" && propertyDependencies.loadBalancerArn?.includes(urn),
      );
      const internal = balancer?.inputs.internal;
      // AWS's default for application load balancers.
      const protocol = textAt(inputs, "protocol") ?? "HTTP";
      const redirects = listAt(inputs.defaultActions).some(
        (action) => at(action, "type") === "redirect" && at(action, "redirect", "protocol") === "HTTPS",
      );
      if (internal === true) return [];
      if (internal === UNKNOWN || protocol === UNKNOWN)
        return undecided("internal of its load balancer, or its protocol,");
      if (redirects) return [];
      return [
        ...violatedIf(
          protocol !== "HTTPS" && protocol !== "TLS",
          `A listener of a load balancer that faces the internet speaks ${protocol}: keys and prompts cross it in plain text.`,
          "Give it protocol HTTPS and a certificate, or a redirect to HTTPS; or make the load balancer internal.",
        ),
        ...ifReachable(missingKeys(facts), facts),
      ];
    },
    "docker:index/container:Container": ({ inputs: { labels, ports } }, { facts }) => {
      const isGateway = listAt(labels).some(
        (label) => at(label, "label") === "engine-room.role" && at(label, "value") === "gateway",
      );
      return ports === UNKNOWN
        ? undecided("ports")
        : listAt(ports).flatMap((port) => publishedPort(port, isGateway, facts));
    },
  },
};

/** Shortest prefix of an organisation's network: the largest networks ever assigned have eight bits. */
const SHORTEST_PREFIX_BITS = 8;

const TLS_PORT = 443;

/** `0.0.0.0/0`, `::/0`, and halves or quarters of them. */
function isOpenToAll(cidr: unknown): boolean {
  const bits = typeof cidr === "string" ? /\/(\d+)$/.exec(cidr)?.[1] : undefined;
  return bits !== undefined && Number(bits) < SHORTEST_PREFIX_BITS;
}

/** @param rule - In any of the forms of @pulumi/aws: within a group, or a resource of one of two types. */
function openPorts(path: string, rule: unknown): readonly Finding[] {
  const [fromPort, toPort] = [at(rule, "fromPort"), at(rule, "toPort")];
  // Clients reach a public gateway there; public-endpoint-is-guarded checks the listener.
  if (fromPort === TLS_PORT && toPort === TLS_PORT) return [];
  const cidrs = ["cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6"].flatMap((key) => at(rule, key));
  const open = cidrs.find(isOpenToAll);
  if (open === undefined && cidrs.includes(UNKNOWN)) return undecided(path);
  const isRange = fromPort !== undefined && fromPort !== toPort;
  const ports = isRange ? `ports ${fromPort} to ${toPort}` : `port ${fromPort ?? "of any number"}`;
  return violatedIf(
    open !== undefined,
    `${path} lets ${String(open)} reach ${ports}, and only ${TLS_PORT} is meant for everyone.`,
    "Name the networks, or the security group, that may reach it.",
  );
}

const openGroup: Check = ({ inputs: { ingress } }) =>
  ingress === UNKNOWN
    ? undecided("ingress")
    : listAt(ingress).flatMap((rule, index) => openPorts(`ingress[${index}]`, rule));

export const apiIsNotOpenToAll: Rule = {
  description: "Neither the cluster's API nor any port except 443 is open to every address.",
  scope: "resource",
  checks: {
    "aws:eks/cluster:Cluster": ({ inputs: { vpcConfig } }) => {
      const cidrs = at(vpcConfig, "publicAccessCidrs");
      if (at(vpcConfig, "endpointPublicAccess") === false) return [];
      if (cidrs === UNKNOWN || listAt(cidrs).includes(UNKNOWN))
        return undecided("vpcConfig.publicAccessCidrs");
      const open = listAt(cidrs).length > 0 ? listAt(cidrs).find(isOpenToAll) : "0.0.0.0/0";
      return violatedIf(
        open !== undefined,
        `vpcConfig.publicAccessCidrs ${cidrs === undefined ? "is absent, which means" : "has"} ${open}: the whole internet may try the cluster's API.`,
        "Write the networks of those who administer it in access.apiCidrs.",
      );
    },
    "aws:ec2/securityGroup:SecurityGroup": openGroup,
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": openGroup,
    "aws:ec2/securityGroupRule:SecurityGroupRule": ({ inputs }) =>
      inputs.type === "ingress" ? openPorts("cidrBlocks", inputs) : [],
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": ({ inputs }) =>
      openPorts("cidrIpv4", inputs),
    "kubernetes:core/v1:Service": ({ inputs: { spec } }) =>
      violatedIf(
        at(spec, "type") === "LoadBalancer" && listAt(spec, "loadBalancerSourceRanges").some(isOpenToAll),
        "spec.loadBalancerSourceRanges has every address of the internet.",
        "Name the networks that may reach it.",
      ),
  },
};
