/** Who decides how many servers there are in a cluster, and who watches them. */

import { neededImages } from "../../infra/plan/images.ts";
import type { AutoscalerPlan } from "../../infra/plan/kubernetes/autoscaling.ts";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import { kubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { paragraph, type Section, textTable } from "./text-table.ts";

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
      title: "Numbers of servers, and who watches",
      lines: [
        ...autoscalerLines(autoscalers),
        ...scheduleLines(autoscalers),
        ...paragraph(watchedBy(monitoring)),
      ],
    },
  ];
}

function autoscalerLines(autoscalers: readonly AutoscalerPlan[]): readonly string[] {
  if (autoscalers.length === 0)
    return paragraph("Every server always has its replicas: none has minReplicas.");
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
  if (monitoring === null) return "Nobody watches: monitoring is none.";
  const { monitors, rules, dashboards } = monitoring;
  const alerts = rules.spec.groups.flatMap((group) => group.rules).filter(({ alert }) => alert !== undefined);
  return `Prometheus' operator gets ${monitors.length} monitors and ${alerts.length} alerts, Grafana ${dashboards.length} dashboards.`;
}
