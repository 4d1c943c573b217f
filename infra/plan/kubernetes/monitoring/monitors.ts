/** Which Services Prometheus reads. */
import type { ClusterPlan } from "../cluster-plan.ts";
import { objectLabels, podSelector } from "../labels.ts";
import type { PodRole } from "../pod-types.ts";
import type { ServicePlan } from "../types.ts";
import type { WatchedStack } from "./scope.ts";
import type { MonitorPlan } from "./types.ts";

/** What is read, on which port of its Service. */
interface Target {
  readonly service: ServicePlan;
  readonly role: PodRole;
  readonly port: "metrics" | "http";
}

/** Every Service with a page of metrics; mongod has none. */
export function targets({ models, encoders, gateway, databases }: WatchedStack): readonly Target[] {
  const tritons = [...models, ...(encoders === null ? [] : [encoders])];
  return [
    ...tritons.map(({ service, pod }) => ({ service, role: pod.role, port: "metrics" as const })),
    { service: gateway.service, role: "gateway", port: "http" },
    ...databases.flatMap(({ service, pod }): Target[] => {
      if (pod.role === "vector") return [{ service, role: pod.role, port: "http" }];
      return "metrics" in service.ports ? [{ service, role: pod.role, port: "metrics" }] : [];
    }),
  ];
}

/** Value of `job` of the series of GPUs, so that a second monitor of the same exporter counts nothing twice. */
export function gpuJob(stack: string): string {
  return `engine-room-gpus-${stack}`;
}

type Options = NonNullable<ClusterPlan["cluster"]["monitoring"]>;

/** One a role: a model more is no monitor more. */
export function monitors(
  watched: WatchedStack,
  { labels, intervalSeconds, gpuExporter }: Options,
): readonly MonitorPlan[] {
  const { stack } = watched;
  const ofRoles = new Map(targets(watched).map(({ role, port }) => [role, port]));
  return [
    ...[...ofRoles].map(
      ([role, port]): MonitorPlan => ({
        name: `engine-room-${role}`,
        labels: { ...objectLabels(stack, { role }), ...labels },
        namespace: null,
        selector: podSelector(stack, { role }),
        port,
        intervalSeconds,
        job: null,
      }),
    ),
    ...(gpuExporter === null
      ? []
      : [
          {
            name: "engine-room-gpus",
            labels: { ...objectLabels(stack), ...labels },
            namespace: gpuExporter.namespace,
            selector: gpuExporter.labels,
            port: gpuExporter.port,
            intervalSeconds,
            job: gpuJob(stack),
          },
        ]),
  ];
}
