/** The load balancer in front of the gateway, and notes for users of a stack on AWS. */
import type { CertificateArgs } from "@pulumi/aws/acm/certificate.js";
import type { ListenerArgs } from "@pulumi/aws/lb/listener.js";
import type { LoadBalancerArgs } from "@pulumi/aws/lb/loadBalancer.js";
import type { TargetGroupArgs } from "@pulumi/aws/lb/targetGroup.js";
import { GATEWAY_PORT } from "../containers/gateway.ts";
import type { AwsPlan } from "../gpu-stack.ts";
import { type AwsContext, keyedName } from "./context.ts";
import { hasEdge, vpcCidr } from "./network.ts";

export type EdgePlan = ReturnType<typeof edgePlan>;

/** https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html */
const LONGEST_NAME = 32;

/** The gateway's own timeout still gets an answer through. */
const MARGIN_SECONDS = 10;

/** Clients of a public gateway. Checks require TLS and keys for it. */
const EVERYBODY = "0.0.0.0/0";

/** Whether the gateway's process runs; it also answers while a model loads. */
const HEALTH_CHECK = {
  path: "/healthz",
  matcher: "200",
  interval: 10,
  timeout: 5,
  healthyThreshold: 2,
  unhealthyThreshold: 3,
};

/** TLS 1.2 and 1.3 with forward secrecy: AWS's advice of https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html */
const TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09";

export function edgePlan(plan: AwsPlan, context: AwsContext) {
  const { gateway, network } = plan.config;
  const { hostname = null, zoneId = null, tls, accessLogsBucket, allowedCidrs = [EVERYBODY] } = gateway;
  const { requestSeconds } = gateway.limits;
  const isPublic = gateway.exposure === "public";
  // ACM reads the record that proves the name from the internet, where a zone of a VPC is not found.
  const isCertified = isPublic && tls === undefined && hostname !== null && zoneId !== null;
  const isTls = tls !== undefined || isCertified;
  // Pods are reached by their own addresses, a machine by the port that its gateway is published on.
  const target =
    plan.compute === "eks"
      ? { targetPort: GATEWAY_PORT, targetType: "ip" }
      : { targetPort: plan.gateway.port, targetType: "instance" };
  // AWS can't change these, so the names contain them. A target group belongs to one load balancer, and is replaced with it.
  // https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html
  const fixed = { isPublic, network: network.existing?.vpcId ?? network.cidr };
  return {
    isPublic,
    /** Networks of clients. */
    cidrs: [...new Set(isPublic ? allowedCidrs : [vpcCidr(network), ...network.peeredCidrs])],
    hostname,
    /** Route 53 zone of the host name's record; null: the stack makes no record. */
    zoneId,
    /** Whether the record of the host name is made elsewhere. */
    needsRecord: hostname !== null && zoneId === null,
    /** null when clients use the name that AWS gives the load balancer. */
    url: hostname === null ? null : `${isTls ? "https" : "http"}://${hostname}`,
    webAclArn: gateway.wafAclArn ?? null,
    /** null when the stack creates no certificate. */
    certificate: isCertified
      ? ({ domainName: hostname, validationMethod: "DNS" } satisfies CertificateArgs)
      : null,
    loadBalancer: {
      name: keyedName(context.name, LONGEST_NAME, fixed),
      loadBalancerType: "application",
      internal: !isPublic,
      idleTimeout: requestSeconds + MARGIN_SECONDS,
      dropInvalidHeaderFields: true,
      enableDeletionProtection: context.isRetained,
      ...(accessLogsBucket === undefined
        ? {}
        : // Stacks share a bucket.
          { accessLogs: { bucket: accessLogsBucket, prefix: context.name, enabled: true } }),
    } satisfies LoadBalancerArgs,
    targetGroup: {
      name: keyedName(context.name, LONGEST_NAME, { ...target, ...fixed }),
      targetType: target.targetType,
      protocol: "HTTP",
      port: target.targetPort,
      deregistrationDelay: requestSeconds,
      healthCheck: HEALTH_CHECK,
    } satisfies TargetGroupArgs,
    // No second listener redirects to TLS: a key sent to it in plain text would be exposed already.
    listener: (isTls
      ? { protocol: "HTTPS", port: 443, certificateArn: tls?.certificateArn, sslPolicy: TLS_POLICY }
      : { protocol: "HTTP", port: 80 }) satisfies Partial<ListenerArgs>,
  };
}

/** Notes for users, in addition to those of the platform below: who may use the models, and what `down` deletes. */
export function awsNotes(
  { config }: AwsPlan,
  { isRetained, stack }: AwsContext,
  { cidrs }: EdgePlan,
): readonly string[] {
  const who = hasEdge(config)
    ? `Everybody in ${cidrs.join(", ")}${config.compute === "eks" ? ", every pod of the cluster among them," : ""}`
    : "Every pod of the cluster";
  const keyNote = `${who} may use the models: gateway.apiKeys is empty; \`npx engine-room key\` makes a key.`;
  const { existing } = config.engineStore;
  const lost =
    existing === undefined
      ? "documents, weights and engines with it"
      : `documents with it; weights and engines stay in ${existing.fileSystemId}`;
  return [
    ...(config.gateway.apiKeys.length > 0 ? [] : [keyNote]),
    isRetained
      ? "`npx engine-room down` stops at what `retain` protects: docs/platforms/aws.md says how such a stack ends, and what stays."
      : `\`npx engine-room down\` deletes all that the stack has made, ${lost}. \`retain: [${stack}]\` has it stop before that.`,
  ];
}

/** @param dnsName - DNS name of the load balancer. */
export function recordNote({ hostname }: EdgePlan, dnsName: string): string {
  return `Clients can't resolve ${hostname} until its record points at the load balancer: a CNAME, or an alias, of ${dnsName}.`;
}
