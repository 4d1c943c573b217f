/** What watches a stack in a cluster. */
import { objectLabels } from "../labels.ts";
import { alerts } from "./alerts.ts";
import { databasesDashboard } from "./databases-dashboard.ts";
import { type Dashboard, dashboardJson } from "./grafana.ts";
import { monitors } from "./monitors.ts";
import { overviewDashboard } from "./overview-dashboard.ts";
import { recorded } from "./recorded.ts";
import type { WatchedStack } from "./scope.ts";
import { gpusDashboard, modelsDashboard } from "./serving-dashboards.ts";
import type { MonitoringPlan } from "./types.ts";

/** null where the stack file has `monitoring: none`. */
export function monitoringPlan(watched: WatchedStack): MonitoringPlan | null {
  const { stack, plan } = watched;
  const options = plan.cluster.monitoring;
  if (options === null) return null;
  const databases = databasesDashboard(watched);
  const dashboards: readonly Dashboard[] = [
    overviewDashboard(watched),
    modelsDashboard(watched),
    ...(plan.tier === "cpu" ? [] : [gpusDashboard(watched, options.gpuExporter !== null)]),
    ...(databases === null ? [] : [databases]),
  ];
  const labels = objectLabels(stack);
  return {
    monitors: monitors(watched, options),
    rules: {
      name: "engine-room",
      labels: { ...labels, ...options.labels },
      alerts: alerts(watched, options),
      recorded: recorded(watched),
    },
    dashboards: dashboards.map((dashboard) => ({
      name: `dashboard-${dashboard.name}`,
      labels: { ...labels, ...options.dashboardLabels },
      json: dashboardJson(dashboard),
    })),
  };
}
