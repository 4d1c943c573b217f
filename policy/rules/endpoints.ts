/**
 * What everybody may reach speaks TLS, and wants a key: prompts and keys cross the internet in clear otherwise, and anybody
 * uses the GPUs.
 */
import {
  type CheckedResource,
  type CheckedStack,
  type Finding,
  type Rule,
  type StackFacts,
  UNKNOWN,
  undecided,
} from "../rule.ts";
import { at, listAt, textAt } from "../values.ts";

const KEYS_FIX = "Make a key with `npm run key` and add the lines that it prints to gateway.apiKeys.";
const TLS_FIX = "Set gateway.tls and gateway.hostname, or keep it inside with `exposure: internal`.";

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

function annotation(resource: CheckedResource, name: string): string | undefined {
  const annotations = at(resource.inputs, "metadata", "annotations");
  return textAt(annotations, name);
}

function isInternal(resource: CheckedResource): boolean {
  return Object.entries(INTERNAL_ANNOTATIONS).some(([name, value]) => annotation(resource, name) === value);
}

function hasTlsAnnotation(resource: CheckedResource): boolean {
  return TLS_ANNOTATIONS.some((name) => (annotation(resource, name) ?? "") !== "");
}

/** An address that a stack means to be inside is only as private as what is in front of it. */
function reachFinding(
  resource: CheckedResource,
  facts: StackFacts,
  violation: { readonly reason: string; readonly fix: string },
): Finding {
  if (facts.exposure !== "internal") return { resource, ...violation };
  return {
    resource,
    reason: `${violation.reason} The stack file says exposure: internal, and whether that holds is decided by what is in front of it.`,
    fix: "See that its address is no public one.",
    isUndecided: true,
  };
}

function keyFinding(resource: CheckedResource, facts: StackFacts): readonly Finding[] {
  if (facts.hasApiKeys) return [];
  return [
    reachFinding(resource, facts, {
      reason: "The gateway that it leads to wants no key: everybody who reaches it uses the models.",
      fix: KEYS_FIX,
    }),
  ];
}

function ingressFindings(resource: CheckedResource, facts: StackFacts): readonly Finding[] {
  if (isInternal(resource)) return [];
  const { inputs } = resource;
  const tls = at(inputs, "spec", "tls");
  if (tls === UNKNOWN) return [{ resource, ...undecided("spec.tls") }, ...keyFinding(resource, facts)];
  const secured = new Set(listAt(inputs, "spec", "tls").flatMap((entry) => listAt(entry, "hosts")));
  const open = listAt(inputs, "spec", "rules")
    .map((rule) => textAt(rule, "host") ?? "every host")
    .filter((host) => !secured.has(host) && !hasTlsAnnotation(resource));
  return [
    ...(open.length === 0
      ? []
      : [
          reachFinding(resource, facts, {
            reason: `The Ingress has no TLS for ${open.join(", ")}: keys and prompts cross the network in clear.`,
            fix: TLS_FIX,
          }),
        ]),
    ...keyFinding(resource, facts),
  ];
}

function routeFindings(resource: CheckedResource, facts: StackFacts): readonly Finding[] {
  const tls = facts.listenerEndsTls
    ? []
    : [
        reachFinding(resource, facts, {
          reason:
            "The listener of its Gateway ends no TLS (gateway.route.tls is false): keys and prompts are sent in clear.",
          fix: "Name a listener with a certificate in gateway.route.listener.",
        }),
      ];
  return [...tls, ...keyFinding(resource, facts)];
}

function serviceFindings(resource: CheckedResource, facts: StackFacts): readonly Finding[] {
  const type = at(resource.inputs, "spec", "type");
  if (type === UNKNOWN) return [{ resource, ...undecided("spec.type") }];
  if ((type !== "LoadBalancer" && type !== "NodePort") || isInternal(resource)) return [];
  const plain =
    type === "LoadBalancer" && hasTlsAnnotation(resource)
      ? []
      : [
          reachFinding(resource, facts, {
            reason: `A Service of type ${type} gives its ports to whoever reaches ${type === "NodePort" ? "a machine of the cluster" : "its address"}, without TLS.`,
            fix: "Leave the Service at ClusterIP, and lead clients to it through an Ingress or an HTTPRoute with TLS.",
          }),
        ];
  return [...plain, ...keyFinding(resource, facts)];
}

/** Protocols of AWS's load balancers that encrypt. */
const TLS_PROTOCOLS = ["HTTPS", "TLS"];

function listenerFindings(resource: CheckedResource, { resources, facts }: CheckedStack): readonly Finding[] {
  const { inputs, propertyDependencies } = resource;
  const sources = propertyDependencies.loadBalancerArn ?? [];
  const balancer = resources.find(
    ({ type, urn }) => type === "aws:lb/loadBalancer:LoadBalancer" && sources.includes(urn),
  );
  const internal = balancer?.inputs.internal;
  if (internal === true) return [];
  if (internal === UNKNOWN || inputs.protocol === UNKNOWN)
    return [{ resource, ...undecided("internal of its load balancer, or its protocol,") }];
  const redirects = listAt(inputs, "defaultActions").some(
    (action) => at(action, "type") === "redirect" && at(action, "redirect", "protocol") === "HTTPS",
  );
  if (redirects) return [];
  // AWS takes HTTP for an application load balancer where a listener names none.
  const protocol = textAt(inputs, "protocol") ?? "HTTP";
  return [
    ...(TLS_PROTOCOLS.includes(protocol)
      ? []
      : [
          {
            resource,
            reason: `A listener of a load balancer that faces the internet speaks ${protocol}: keys and prompts cross it in clear.`,
            fix: "Give it protocol HTTPS and a certificate, or a redirect to HTTPS; or make the load balancer internal.",
          },
        ]),
    ...keyFinding(resource, facts),
  ];
}

const GATEWAY_ROLE = "gateway";

/** Networks that no router of the internet leads to, and this machine. */
const PRIVATE =
  /^(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|::1$|f[cd])/;

function containerFindings(resource: CheckedResource, facts: StackFacts): readonly Finding[] {
  const isGateway = listAt(resource.inputs, "labels").some(
    (label) => at(label, "label") === "engine-room.role" && at(label, "value") === GATEWAY_ROLE,
  );
  if (resource.inputs.ports === UNKNOWN) return [{ resource, ...undecided("ports") }];
  return listAt(resource.inputs, "ports").flatMap((port): readonly Finding[] => {
    // Docker binds to every address where none is named.
    const ip = textAt(port, "ip") ?? "0.0.0.0";
    if (ip === UNKNOWN) return [{ resource, ...undecided("the address of a port") }];
    if (PRIVATE.test(ip)) return [];
    const where = `Port ${String(at(port, "external"))} is bound to ${ip}`;
    if (isGateway && facts.hasApiKeys)
      return [
        {
          resource,
          reason: `${where} without TLS; whether a proxy in front ends it, or a firewall stops others, isn't seen from here.`,
          fix: "Bind it to an address of a private network with host.address, behind a proxy that ends TLS.",
          isUndecided: true,
        },
      ];
    return [
      {
        resource,
        reason: `${where}, and ${isGateway ? "the gateway wants no key" : "only the gateway checks keys"}: everybody who reaches the host uses it.`,
        fix: isGateway ? KEYS_FIX : "Bind it to 127.0.0.1.",
      },
    ];
  });
}

const checks: Readonly<
  Record<string, (resource: CheckedResource, stack: CheckedStack) => readonly Finding[]>
> = {
  "kubernetes:networking.k8s.io/v1:Ingress": (resource, { facts }) => ingressFindings(resource, facts),
  "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": (resource, { facts }) =>
    routeFindings(resource, facts),
  "kubernetes:core/v1:Service": (resource, { facts }) => serviceFindings(resource, facts),
  "aws:lb/listener:Listener": listenerFindings,
  "docker:index/container:Container": (resource, { facts }) => containerFindings(resource, facts),
};

export const publicEndpointIsGuarded: Rule = {
  description: "What everybody may reach speaks TLS and wants a key.",
  scope: "stack",
  check: (stack) => stack.resources.flatMap((resource) => checks[resource.type]?.(resource, stack) ?? []),
};
