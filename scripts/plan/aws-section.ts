/** What a stack on AWS stands on: its network, its door and its version of Kubernetes. */
import { machineZones, natZones, parseCidr, vpcCidr, zoneCidrs } from "../../infra/plan/aws/network.ts";
import {
  CHART_NAMES,
  type ChartName,
  isInstalled,
  kubernetesVersions,
} from "../../infra/plan/catalogue/aws.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { paragraph, type Section } from "./text-table.ts";

/** AWS keeps the first four addresses of a subnet and the last. https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html */
const RESERVED_ADDRESSES = 5;

/** Nothing for other platforms. */
export function awsSection(plan: StackPlan): Section[] {
  if (plan.platform !== "aws") return [];
  const lines = [
    networkWords(plan),
    gatewayWords(plan),
    ...versionWords(plan),
    ...chartWords(plan),
    ...ttlWords(plan),
  ];
  return [{ title: `Account ${plan.config.account}`, lines: lines.flatMap((line) => paragraph(line)) }];
}

function networkWords({ config }: AwsPlan): string {
  const { network } = config;
  const zones = machineZones(network).join(", ");
  if (network.existing !== undefined)
    return `Network: ${network.existing.vpcId} (${vpcCidr(network)}) as it is, machines in zones ${zones}.`;
  const [first] = network.zones;
  const addresses = first === undefined ? 0 : parseCidr(zoneCidrs(network.cidr, first).privateCidr).size;
  const nat =
    network.nat === "one"
      ? `one NAT gateway, in zone ${natZones(config).join(", ")}`
      : "a NAT gateway in each";
  return `Network: a VPC ${network.cidr}, zones ${zones} with ${addresses - RESERVED_ADDRESSES} addresses for machines and pods each, ${nat}.`;
}

function gatewayWords({ config: { gateway, network } }: AwsPlan): string {
  if (gateway.exposure === "public")
    return `Gateway: https://${gateway.hostname}, for everybody on the internet who has a key (${gateway.apiKeys.length} of them).`;
  const networks = [vpcCidr(network), ...network.peeredCidrs].join(", ");
  return `Gateway: an internal load balancer, for ${networks} alone.`;
}

/** A date is no check: a plan has no clock. */
function versionWords(plan: AwsPlan): readonly string[] {
  if (plan.compute !== "eks") return [];
  const { version } = plan.config.cluster;
  const { standardSupportUntil } = kubernetesVersions[version];
  return [
    `Kubernetes ${version}: AWS's standard support ends on ${standardSupportUntil}; AWS then updates the cluster to the next version by itself, so write that one before.`,
  ];
}

/** What a cluster does without, where a chart is `none`. */
const MISSING: Readonly<Record<ChartName, string>> = {
  "device-plugin": "no pod is given a GPU",
  "dcgm-exporter": "no metrics of GPUs, so no alerts on them and nothing on their board",
  "cluster-autoscaler": "nobody starts or ends machines",
  "load-balancer-controller": "no load balancer before the gateway",
  keda: "no server's number follows its load",
  "kube-prometheus-stack": "no Prometheus, so no monitors, alerts and dashboards",
};

function chartWords(plan: AwsPlan): readonly string[] {
  if (plan.compute !== "eks") return [];
  const { charts } = plan.config.cluster;
  const missing = CHART_NAMES.filter((name) => !isInstalled(name, charts));
  if (missing.length === 0) return [];
  return [`Not installed: ${missing.map((name) => `${name} (${MISSING[name]})`).join("; ")}.`];
}

function ttlWords({ config: { guard } }: AwsPlan): readonly string[] {
  if (guard.ttlHours === undefined) return [];
  return [
    `Time: \`npx engine-room expire --down\` ends the stack ${guard.ttlHours} h after its last \`up\` (guard.ttlHours).`,
  ];
}
