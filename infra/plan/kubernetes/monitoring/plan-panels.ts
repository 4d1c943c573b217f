/** What dashboards say of the plan itself: whose they are, what it costs, what of it changed. */
import type { Dashboard, Panel } from "./grafana.ts";
import { rate, series, sum } from "./promql.ts";
import { of, type WatchedStack } from "./scope.ts";

const SECONDS_PER_HOUR = 3600;
const HOURS_PER_MONTH = 730;

/** What tells a dashboard from that of another stack. */
export function owner({ stack, plan }: WatchedStack): Dashboard["owner"] {
  return { stack, namespace: plan.cluster.namespace.name };
}

/** Marks where the plan changed: a series that was not there ten minutes before. */
export function changes(watched: WatchedStack): Dashboard["annotations"] {
  const isNew = (selector: string) => `${selector} unless ${selector} offset 10m`;
  const at = planned(watched);
  const hasEngines = watched.plan.tier === "gpu";
  return [
    {
      name: hasEngines ? "Engine or release" : "Model or release",
      expression: isNew(series("engine_room_model_info", at)),
      legend: `{{model}}: ${hasEngines ? "engine {{engine_key}}" : "{{served}}"}, release {{release}}`,
    },
    {
      name: "Image",
      expression: isNew(series("engine_room_image_info", at)),
      legend: "{{image}}: {{reference}}",
    },
  ];
}

function planned(watched: WatchedStack) {
  return { ...of(watched), stack: watched.stack };
}

/** Price of the plan, and of what was answered for it; nothing where no machine of the plan has a price. */
export function costPanels(watched: WatchedStack): readonly Panel[] {
  const { gateway, plan } = watched;
  if (plan.tier === "cpu" || plan.cost.hourlyUsd === null) return [];
  const { withoutPrice, besides, pricesAsOf } = plan.cost;
  const inNoSum = [...withoutPrice, ...besides];
  const bound = withoutPrice.length === 0 ? "" : ", at least";
  const price = `max(${series("engine_room_hourly_usd", planned(watched))})`;
  const tokens = (minutes: number) =>
    sum(rate("gateway_tokens_total", of(watched, gateway.service.name), minutes));
  const source = [
    "Of all machines at their planned number.",
    ...(pricesAsOf === null ? [] : [`Prices as of ${pricesAsOf}.`]),
    ...(inNoSum.length === 0 ? [] : [`In no sum: ${inNoSum.join("; ")}.`]),
  ].join(" ");
  return [
    {
      title: `An hour${bound}`,
      description: source,
      kind: "stat",
      unit: "usd",
      width: 8,
      queries: [{ expression: price, legend: "an hour" }],
    },
    {
      title: `A month${bound}`,
      description: source,
      kind: "stat",
      unit: "usd",
      width: 8,
      queries: [{ expression: `${price} * ${HOURS_PER_MONTH}`, legend: "a month" }],
    },
    {
      title: `A million tokens${bound}`,
      description: `${source} Prompts and answers of the last hour; without requests there is no value.`,
      kind: "timeseries",
      unit: "usd",
      width: 8,
      queries: [
        {
          expression: `${price} / (${tokens(60)} * ${SECONDS_PER_HOUR} / 1e6 > 0)`,
          legend: "a million tokens",
        },
      ],
    },
  ];
}

/** What is planned, beside what runs. */
export function changePanels(watched: WatchedStack): readonly Panel[] {
  const table = (title: string, expression: string): Panel => ({
    title,
    kind: "table",
    unit: "number",
    width: 8,
    queries: [{ expression, legend: "" }],
  });
  const models = series("engine_room_model_info", planned(watched));
  return [
    watched.plan.tier === "gpu"
      ? table("Engines that are planned", sum(models, "model", "served", "engine_key", "release", "pool"))
      : table("Models that are planned", sum(models, "model", "served", "release")),
    table(
      "Images that are planned",
      sum(series("engine_room_image_info", planned(watched)), "image", "reference"),
    ),
    table(
      "Images that run",
      sum(series("kube_pod_container_info", of(watched)), "pod", "container", "image_id"),
    ),
  ];
}
