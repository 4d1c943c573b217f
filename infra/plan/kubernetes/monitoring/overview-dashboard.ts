/** The dashboard that is looked at first: one row for each question. */
import type { Dashboard, Panel } from "./grafana.ts";
import { changePanels, changes, costPanels, owner } from "./plan-panels.ts";
import { quantile, rate, series, sum } from "./promql.ts";
import { claims, of, servicesWith, type WatchedStack } from "./scope.ts";

export function overviewDashboard(watched: WatchedStack): Dashboard {
  const costs = costPanels(watched);
  return {
    name: "engine-room-overview",
    title: "Engine room",
    owner: owner(watched),
    annotations: changes(watched),
    rows: [
      { title: "Is it up?", panels: upPanels(watched) },
      { title: "Is it slow?", panels: slowPanels(watched) },
      { title: "Is it full?", panels: fullPanels(watched) },
      { title: "Is it wrong?", panels: wrongPanels(watched) },
      ...(costs.length === 0 ? [] : [{ title: "What does it cost?", panels: costs }]),
      { title: "What changed?", panels: changePanels(watched) },
    ],
  };
}

function upPanels(watched: WatchedStack): readonly Panel[] {
  const at = of(watched);
  return [
    {
      title: "Servers that answer",
      kind: "timeseries",
      unit: "number",
      queries: [
        { expression: sum(series("up", { ...at, service: { not: "" } }), "service"), legend: "{{service}}" },
      ],
    },
    {
      title: "Ready pods, and those that there should be",
      kind: "timeseries",
      unit: "number",
      queries: [
        {
          expression: sum(series("kube_deployment_status_replicas_available", at), "deployment"),
          legend: "{{deployment}} ready",
        },
        {
          expression: sum(series("kube_deployment_spec_replicas", at), "deployment"),
          legend: "{{deployment}} wanted",
        },
      ],
    },
    {
      title: "Restarts in an hour",
      kind: "timeseries",
      unit: "number",
      queries: [
        {
          expression: sum(`increase(${series("kube_pod_container_status_restarts_total", at)}[1h])`, "pod"),
          legend: "{{pod}}",
        },
      ],
      redFrom: 1,
    },
  ];
}

function slowPanels(watched: WatchedStack): readonly Panel[] {
  const { gateway, plan } = watched;
  const at = of(watched, gateway.service.name);
  const answered = { ...at, model: { not: "" } };
  const half = (share: number) => `${100 * share} % within`;
  return [
    {
      title: "Whole requests",
      kind: "timeseries",
      unit: "seconds",
      queries: [0.5, 0.95].map((share) => ({
        expression: quantile(share, "gateway_http_request_duration_seconds", answered, ["model"]),
        legend: `{{model}}: ${half(share)}`,
      })),
    },
    {
      title: "First text of a stream",
      kind: "timeseries",
      unit: "seconds",
      queries: [0.5, 0.95].map((share) => ({
        expression: quantile(share, "gateway_first_token_seconds", at, ["model"]),
        legend: `{{model}}: ${half(share)}`,
      })),
    },
    {
      title: "Tokens in a second",
      kind: "timeseries",
      unit: "tokensPerSecond",
      queries: [
        {
          expression: sum(rate("gateway_tokens_total", at), "model", "kind"),
          legend: "{{model}} {{kind}}",
        },
      ],
    },
    ...(plan.cluster.databases === null
      ? []
      : [
          {
            title: "Databases",
            kind: "timeseries" as const,
            unit: "seconds" as const,
            queries: [
              {
                expression: quantile(0.95, "gateway_database_duration_seconds", at, [
                  "database",
                  "operation",
                ]),
                legend: `{{database}} {{operation}}: ${half(0.95)}`,
              },
            ],
          },
        ]),
  ];
}

function fullPanels(watched: WatchedStack): readonly Panel[] {
  const { gateway, plan } = watched;
  const at = of(watched, gateway.service.name);
  const { concurrentRequests, queuedRequests } = plan.gateway.limits;
  const waiting = servicesWith(watched, "nv_trt_llm_request_metrics", "waiting");
  const names = claims(watched);
  const volumes = { ...of(watched), persistentvolumeclaim: names };
  return [
    {
      title: "Requests at the gateway",
      description: `A gateway answers ${concurrentRequests} requests at a time, and lets ${queuedRequests} wait.`,
      kind: "timeseries",
      unit: "number",
      queries: [
        { expression: sum(series("gateway_places_taken", at), "pod"), legend: "{{pod}}: places taken" },
        { expression: sum(series("gateway_queue_length", at), "pod"), legend: "{{pod}}: waiting" },
      ],
    },
    ...(waiting.length === 0
      ? []
      : [
          {
            title: "Requests that wait in TensorRT-LLM",
            kind: "timeseries" as const,
            unit: "number" as const,
            queries: [
              {
                expression: sum(
                  series("nv_trt_llm_request_metrics", { ...of(watched, waiting), request_type: "waiting" }),
                  "service",
                ),
                legend: "{{service}}",
              },
            ],
          },
        ]),
    ...scalingPanels(watched),
    ...(names.length === 0
      ? []
      : [
          {
            title: "Free room of volumes",
            description:
              "As far as the storage driver tells the kubelet; an engine store is shared, so that each machine reports it.",
            kind: "timeseries" as const,
            unit: "share" as const,
            queries: [
              {
                expression: `min by (persistentvolumeclaim) (${series("kubelet_volume_stats_available_bytes", volumes)}) / min by (persistentvolumeclaim) (${series("kubelet_volume_stats_capacity_bytes", volumes)})`,
                legend: "{{persistentvolumeclaim}}",
              },
            ],
          },
        ]),
  ];
}

/** The very queries of autoscalers, in replicas that each asks for. */
function scalingPanels({ autoscalers }: WatchedStack): readonly Panel[] {
  if (autoscalers.length === 0) return [];
  return [
    {
      title: "Servers that the load asks for",
      description: "Each autoscaler takes the largest of its own, rounded up, within its least and its most.",
      kind: "timeseries",
      unit: "number",
      queries: autoscalers.flatMap(({ name, metrics }) =>
        metrics.map(({ name: metric, query, target }) => ({
          expression: `${query} / ${target}`,
          legend: `${name}: ${metric}`,
        })),
      ),
    },
  ];
}

function wrongPanels(watched: WatchedStack): readonly Panel[] {
  const { gateway, plan } = watched;
  const at = of(watched, gateway.service.name);
  return [
    {
      title: "Answers by status",
      kind: "timeseries",
      unit: "perSecond",
      queries: [
        {
          expression: sum(
            rate("gateway_http_requests_total", { ...at, model: { not: "" } }),
            "model",
            "status",
          ),
          legend: "{{model}} {{status}}",
        },
      ],
    },
    {
      title: "Failed requests to Tritons",
      kind: "timeseries",
      unit: "perSecond",
      queries: [
        {
          expression: sum(rate("gateway_upstream_errors_total", at), "upstream", "kind"),
          legend: "{{upstream}} {{kind}}",
        },
      ],
    },
    ...(plan.cluster.databases === null
      ? []
      : [
          {
            title: "Failed calls of databases",
            kind: "timeseries" as const,
            unit: "perSecond" as const,
            queries: [
              {
                expression: sum(rate("gateway_database_errors_total", at), "database", "kind"),
                legend: "{{database}} {{kind}}",
              },
            ],
          },
        ]),
  ];
}
