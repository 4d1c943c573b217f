/** Dashboard of documents: what is written, and what the databases hold. */
import type { Dashboard, Panel, Unit } from "./grafana.ts";
import { changes, owner } from "./plan-panels.ts";
import { rate, series, sum } from "./promql.ts";
import { of, type WatchedStack } from "./scope.ts";

/** null: the stack has no documents. */
export function databasesDashboard(watched: WatchedStack): Dashboard | null {
  const { databases } = watched.plan.cluster;
  if (databases === null) return null;
  return {
    name: "engine-room-databases",
    title: "Engine room: databases",
    owner: owner(watched),
    annotations: changes(watched),
    rows: [
      { title: "Documents", panels: documentPanels(watched) },
      ...(databases.kind === "external"
        ? []
        : [{ title: "Databases", panels: HELD[databases.kind](watched) }]),
    ],
  };
}

function documentPanels(watched: WatchedStack): readonly Panel[] {
  const at = of(watched, watched.gateway.service.name);
  return [
    line("Written documents", "perSecond", sum(rate("gateway_documents_total", at), "status"), "{{status}}"),
    line("Put in order", "perSecond", sum(rate("gateway_repaired_total", at), "what"), "{{what}}"),
    line(
      "Calls",
      "perSecond",
      sum(`rate(${series("gateway_database_duration_seconds_count", at)}[5m])`, "database", "operation"),
      "{{database}} {{operation}}",
    ),
  ];
}

const HELD: Readonly<Record<"mock" | "container", (watched: WatchedStack) => readonly Panel[]>> = {
  mock: (watched) => {
    const mongo = of(watched, "mongo");
    const vector = of(watched, "vector");
    return [
      line("Documents that are kept", "number", sum(series("mongo_documents", mongo)), "documents"),
      line("Points that are kept", "number", sum(series("vector_points", vector)), "points"),
      {
        title: "Files",
        kind: "timeseries",
        unit: "bytes",
        queries: [
          { expression: sum(series("mongo_store_bytes", mongo)), legend: "documents" },
          { expression: sum(series("vector_store_bytes", vector)), legend: "points" },
        ],
      },
    ];
  },
  container: (watched) => {
    const vector = of(watched, "vector");
    return [
      line("Collections", "number", sum(series("collections_total", vector)), "collections"),
      line(
        "Answers of Qdrant",
        "perSecond",
        sum(rate("rest_responses_total", vector), "method", "status"),
        "{{method}} {{status}}",
      ),
    ];
  },
};

function line(title: string, unit: Unit, expression: string, legend: string): Panel {
  return { title, kind: "timeseries", unit, queries: [{ expression, legend }] };
}
