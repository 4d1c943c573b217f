/** Alerts of what the cluster itself reports: GPUs, volumes, Jobs. Where it does not, they never fire. */
import type { ClusterPlan } from "../cluster-plan.ts";
import type { Alert } from "./alerts.ts";
import { gpuJob } from "./monitors.ts";
import { series, sum } from "./promql.ts";
import { claims, of, type WatchedStack } from "./scope.ts";

/** Weights of one more model rarely fit into less, and databases stop writing before their disk is full. */
const FREE_SHARE = 0.1;

/** Reports come every few minutes. */
const REPORTED_SECONDS = 600;

export function clusterAlerts(
  watched: WatchedStack,
  { gpuExporter }: NonNullable<ClusterPlan["cluster"]["monitoring"]>,
): readonly Alert[] {
  return [
    ...buildAlerts(watched),
    ...volumeAlerts(watched),
    ...(gpuExporter === null ? [] : gpuAlerts(watched)),
  ];
}

function buildAlerts(watched: WatchedStack): readonly Alert[] {
  const jobs = watched.builds.map(({ name }) => name);
  if (jobs.length === 0) return [];
  return [
    {
      name: "EngineRoomBuildFailed",
      expression: `${sum(series("kube_job_status_failed", { ...of(watched), job_name: jobs }), "job_name")} > 0`,
      forSeconds: 0,
      severity: "warning",
      summary: "{{ $value }} pods of the build {{ $labels.job_name }} have failed.",
    },
  ];
}

function volumeAlerts(watched: WatchedStack): readonly Alert[] {
  const names = claims(watched);
  if (names.length === 0) return [];
  const at = { ...of(watched), persistentvolumeclaim: names };
  const bytes = (name: "kubelet_volume_stats_available_bytes" | "kubelet_volume_stats_capacity_bytes") =>
    `min by (persistentvolumeclaim) (${series(name, at)})`;
  return [
    {
      name: "EngineRoomVolumeFull",
      expression: `${bytes("kubelet_volume_stats_available_bytes")} / ${bytes("kubelet_volume_stats_capacity_bytes")} < ${FREE_SHARE}`,
      forSeconds: REPORTED_SECONDS,
      severity: "warning",
      summary:
        "{{ $value | humanizePercentage }} of the volume {{ $labels.persistentvolumeclaim }} are free.",
    },
  ];
}

function gpuAlerts(watched: WatchedStack): readonly Alert[] {
  const at = { ...of(watched), job: gpuJob(watched.stack) };
  return [
    {
      name: "EngineRoomGpuError",
      expression: `${series("DCGM_FI_DEV_XID_ERRORS", at)} > 0`,
      forSeconds: 0,
      severity: "warning",
      summary: "The driver reports XID {{ $value }} of GPU {{ $labels.gpu }} on {{ $labels.node }}.",
    },
    {
      name: "EngineRoomGpuMemoryFault",
      expression: `${series("DCGM_FI_DEV_ROW_REMAP_FAILURE", at)} > 0`,
      forSeconds: 0,
      severity: "critical",
      summary: "GPU {{ $labels.gpu }} on {{ $labels.node }} has broken memory that it can't replace.",
    },
  ];
}
