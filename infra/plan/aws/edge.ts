/** The door for clients: an application load balancer before the gateway. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import type { AwsPlan } from "../gpu-stack.ts";
import { GATEWAY_PORT } from "../kubernetes/gateway.ts";
import { vpcCidr } from "./network.ts";
import { keyedName } from "./plain-name.ts";
import type { AwsContext, EdgePlan } from "./types.ts";

/** Of load balancers and target groups. https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html */
const LONGEST_NAME = 32;

/** An answer that the gateway gives at its own limit still passes. */
const MARGIN_SECONDS = 10;

/** Who reaches a public gateway: the internet. TLS and a key of the gateway's are what it asks for, and checks see to both. */
const EVERYBODY = "0.0.0.0/0";

/** The process lives; not whether what stands behind it does: the gateway answers for one model while another loads. */
const HEALTH_PATH = "/healthz";

export function edgePlan(plan: AwsPlan, context: AwsContext): EdgePlan {
  const { config } = plan;
  const { exposure, hostname = null, zoneId = null, tls, limits } = config.gateway;
  const isPublic = exposure === "public";
  const target = targetOf(plan);
  const { existing } = config.network;
  // What AWS can't change about either: it is replaced. A target group is of one load balancer, and goes with it.
  // https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html
  const door = { isPublic, network: existing?.vpcId ?? config.network.cidr };
  return {
    loadBalancerName: keyedName(context.name, LONGEST_NAME, door),
    targetGroupName: keyedName(context.name, LONGEST_NAME, { ...target, ...door }),
    isPublic,
    cidrs: isPublic ? [EVERYBODY] : internalCidrs(config.network),
    hostname,
    zoneId,
    certificateArn: tls?.certificateArn ?? null,
    ...target,
    healthPath: HEALTH_PATH,
    idleTimeoutSeconds: limits.requestSeconds + MARGIN_SECONDS,
    drainSeconds: limits.requestSeconds,
    url: hostname === null ? null : `${tls === undefined ? "http" : "https"}://${hostname}`,
  };
}

/** Pods are reached by their own addresses; the one machine by the port that its gateway is published on. */
function targetOf(plan: AwsPlan): Pick<EdgePlan, "targetPort" | "targetType"> {
  return plan.compute === "eks"
    ? { targetPort: GATEWAY_PORT, targetType: "ip" }
    : { targetPort: plan.gateway.port, targetType: "instance" };
}

function internalCidrs(network: AwsConfig["network"]): readonly string[] {
  return [...new Set([vpcCidr(network), ...network.peeredCidrs])];
}
