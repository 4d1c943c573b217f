/** The rule about public endpoints: without TLS keys and prompts cross the internet in clear, without keys anybody uses the GPUs. */
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

const KEYS_FIX = "Make a key with `npm run key` and add the lines that it prints to gateway.apiKeys.";

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

/** Empty where all annotations are unknown: they guard nothing then. */
function annotation({ inputs }: CheckedResource, name: string): string {
  const annotations = at(inputs, "metadata", "annotations");
  return annotations === UNKNOWN ? "" : (textAt(annotations, name) ?? "");
}

function hasTlsAnnotation(resource: CheckedResource): boolean {
  return TLS_ANNOTATIONS.some((name) => annotation(resource, name) !== "");
}

/** Whether an endpoint with `exposure: internal` is really private depends on its network: a violation is undecided then. */
function ifReachable(finding: Finding, { exposure }: StackFacts): Finding {
  if (exposure !== "internal" || finding.isUndecided) return finding;
  return {
    reason: `${finding.reason} The stack file says exposure: internal, and whether that holds is decided by what is in front of it.`,
    fix: "Make sure that its address is not public.",
    isUndecided: true,
  };
}

function missingKeys(facts: StackFacts): readonly Finding[] {
  const reason = "The gateway behind it requires no API key: everybody who reaches it can use the models.";
  return violatedIf(!facts.hasApiKeys, reason, KEYS_FIX).map((finding) => ifReachable(finding, facts));
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
    if (findings === undefined || isInternal) return [];
    return [...findings.map((finding) => ifReachable(finding, facts)), ...missingKeys(facts)];
  };
}

const service = entrance((resource) => {
  const type = at(resource.inputs, "spec", "type");
  if (type === "LoadBalancer" && hasTlsAnnotation(resource)) return [];
  if (type !== "LoadBalancer" && type !== "NodePort") return undefined;
  return [
    {
      reason: `A Service of type ${type} gives its ports to whoever reaches ${type === "NodePort" ? "a machine of the cluster" : "its address"}, without TLS.`,
      fix: "Leave the Service at ClusterIP, and lead clients to it through an Ingress or an HTTPRoute with TLS.",
    },
  ];
});

/** Loopback and private networks. */
const PRIVATE_ADDRESS =
  /^(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|::1$|f[cd])/;

function openPort(port: unknown, isGateway: boolean, { hasApiKeys }: StackFacts): readonly Finding[] {
  // Docker's default.
  const ip = textAt(port, "ip") ?? "0.0.0.0";
  if (ip === UNKNOWN) return [undecided("the address of a port")];
  const where = `Port ${String(at(port, "external"))} is bound to ${ip}`;
  const isPrivate = PRIVATE_ADDRESS.test(ip);
  if (!isPrivate && isGateway && hasApiKeys)
    return [
      {
        reason: `${where} without TLS; a proxy with TLS or a firewall in front of it can't be seen from here.`,
        fix: "Bind it to an address of a private network with host.address, behind a proxy that terminates TLS.",
        isUndecided: true,
      },
    ];
  return violatedIf(
    !isPrivate,
    `${where}, and ${isGateway ? "the gateway requires no API key" : "only the gateway checks keys"}: everybody who reaches the host uses it.`,
    isGateway ? KEYS_FIX : "Bind it to 127.0.0.1.",
  );
}

export const publicEndpointIsGuarded: Rule = {
  description: "Public endpoints use TLS and require an API key.",
  // On previews too: anybody can find their addresses.
  level: "mandatory",
  scope: "stack",
  checks: {
    "kubernetes:networking.k8s.io/v1:Ingress": entrance((resource) => {
      const tls = at(resource.inputs, "spec", "tls");
      if (tls === UNKNOWN) return [undecided("spec.tls")];
      const secured = listAt(tls).flatMap((entry) => listAt(entry, "hosts"));
      const open = listAt(resource.inputs, "spec", "rules")
        .map((rule) => textAt(rule, "host") ?? "every host")
        .filter((host) => !secured.includes(host));
      return violatedIf(
        open.length > 0 && !hasTlsAnnotation(resource),
        `The Ingress has no TLS for ${open.join(", ")}: keys and prompts cross the network in clear.`,
        "Set gateway.tls and gateway.hostname, or keep it inside with `exposure: internal`.",
      );
    }),
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": entrance((_route, { listenerEndsTls }) =>
      violatedIf(
        !listenerEndsTls,
        "The listener of its Gateway does not terminate TLS (gateway.route.tls is false): keys and prompts are sent in clear.",
        "Name a listener with a certificate in gateway.route.listener.",
      ),
    ),
    "kubernetes:core/v1:Service": (resource, stack) =>
      at(resource.inputs, "spec", "type") === UNKNOWN ? [undecided("spec.type")] : service(resource, stack),
    "aws:lb/listener:Listener": ({ inputs, propertyDependencies }, { resources, facts }) => {
      const balancer = resources.find(
        ({ type, urn }) =>
          type === "aws:lb/loadBalancer:LoadBalancer" && propertyDependencies.loadBalancerArn?.includes(urn),
      );
      const internal = balancer?.inputs.internal;
      const redirects = listAt(inputs.defaultActions).some(
        (action) => at(action, "type") === "redirect" && at(action, "redirect", "protocol") === "HTTPS",
      );
      if (internal === true) return [];
      if (internal === UNKNOWN || inputs.protocol === UNKNOWN)
        return [undecided("internal of its load balancer, or its protocol,")];
      if (redirects) return [];
      // AWS's default for application load balancers.
      const protocol = textAt(inputs, "protocol") ?? "HTTP";
      return [
        ...violatedIf(
          protocol !== "HTTPS" && protocol !== "TLS",
          `A listener of a load balancer that faces the internet speaks ${protocol}: keys and prompts cross it in clear.`,
          "Give it protocol HTTPS and a certificate, or a redirect to HTTPS; or make the load balancer internal.",
        ),
        ...missingKeys(facts),
      ];
    },
    "docker:index/container:Container": ({ inputs: { labels, ports } }, { facts }) => {
      const isGateway = listAt(labels).some(
        (label) => at(label, "label") === "engine-room.role" && at(label, "value") === "gateway",
      );
      return ports === UNKNOWN
        ? [undecided("ports")]
        : listAt(ports).flatMap((port) => openPort(port, isGateway, facts));
    },
  },
};
