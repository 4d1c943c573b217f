/**
 * Grafana's JSON of a dashboard (schema 39, Grafana 10 and later): rows of panels, laid out in reading order. Nothing in it is
 * random, so that the same plan gives the same bytes.
 */
import { canonicalJson, jsonDigest } from "../../canonical-json.ts";

/** Grafana's ids: https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats/categories.ts */
const UNITS = {
  number: "short",
  perSecond: "reqps",
  tokensPerSecond: "short",
  seconds: "s",
  microseconds: "µs",
  bytes: "bytes",
  mebibytes: "mbytes",
  share: "percentunit",
  percent: "percent",
  celsius: "celsius",
  watts: "watt",
  usd: "currencyUSD",
} as const;
export type Unit = keyof typeof UNITS;

/** One line, or with labels in its legend several: `{{model}}`. */
export interface Query {
  readonly expression: string;
  readonly legend: string;
}

export interface Panel {
  /** Unique in its dashboard. */
  readonly title: string;
  /** `table`: labels of the series that are there now. */
  readonly kind: "timeseries" | "stat" | "table";
  readonly unit: Unit;
  readonly queries: readonly Query[];
  /** What a reader has to know. */
  readonly description?: string;
  /** Of 24. */
  readonly width?: 6 | 8 | 12 | 24;
  /** Value from which it is drawn in red. */
  readonly redFrom?: number;
}

/** A question, and the panels that answer it. */
export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export interface Dashboard {
  /** Of its address, with a hash of the stack's name and namespace. */
  readonly name: string;
  readonly title: string;
  readonly rows: readonly Row[];
  /** Marks on all panels: a value is a mark at its time. */
  readonly annotations: readonly (Query & { readonly name: string })[];
  /** What tells this dashboard from that of another stack. */
  readonly owner: { readonly stack: string; readonly namespace: string };
}

const COLUMNS = 24;
const PANEL_HEIGHT = 8;
const ROW_HEIGHT = 1;
/** Grafana takes at most 40 characters. */
const UID_HASH_DIGITS = 12;

const DATA_SOURCE = { type: "prometheus", uid: "$" + "{datasource}" } as const;

interface Place {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** @returns One line of JSON, its keys sorted. */
export function dashboardJson({ name, title, rows, annotations, owner }: Dashboard): string {
  return canonicalJson({
    uid: `${name}-${jsonDigest(owner).slice(0, UID_HASH_DIGITS)}`,
    title: `${title} (${owner.namespace}/${owner.stack})`,
    tags: ["engine-room"],
    schemaVersion: 39,
    version: 1,
    editable: false,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    timezone: "browser",
    templating: {
      list: [{ name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus", hide: 0 }],
    },
    annotations: { list: annotations.map(annotationJson) },
    panels: laidOut(rows).map((panel, index) => ({ ...panel, id: index + 1 })),
  });
}

function annotationJson({ name, expression, legend }: Dashboard["annotations"][number]) {
  return {
    name,
    datasource: DATA_SOURCE,
    enable: true,
    iconColor: "purple",
    expr: expression,
    step: "60s",
    titleFormat: name,
    textFormat: legend,
  };
}

function laidOut(rows: readonly Row[]): readonly object[] {
  let y = 0;
  return rows.flatMap((row) => {
    const heading = {
      type: "row",
      title: row.title,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y, w: COLUMNS, h: ROW_HEIGHT },
    };
    y += ROW_HEIGHT;
    let x = 0;
    const panels = row.panels.map((panel) => {
      const { width = 8 } = panel;
      if (x + width > COLUMNS) {
        x = 0;
        y += PANEL_HEIGHT;
      }
      const place = { x, y, w: width, h: PANEL_HEIGHT };
      x += width;
      return panelJson(panel, place);
    });
    if (panels.length > 0) y += PANEL_HEIGHT;
    return [heading, ...panels];
  });
}

function panelJson({ title, kind, unit, queries, description, redFrom }: Panel, gridPos: Place) {
  return {
    type: kind,
    title,
    ...(description === undefined ? {} : { description }),
    datasource: DATA_SOURCE,
    gridPos,
    fieldConfig: {
      defaults: {
        unit: UNITS[unit],
        min: 0,
        thresholds: {
          mode: "absolute",
          steps: [
            { color: "green", value: null },
            ...(redFrom === undefined ? [] : [{ color: "red", value: redFrom }]),
          ],
        },
      },
      overrides: [],
    },
    options: OPTIONS[kind],
    ...(kind === "table" ? { transformations: LABELS_AS_COLUMNS } : {}),
    targets: queries.map(({ expression, legend }, index) => ({
      refId: String.fromCharCode("A".charCodeAt(0) + index),
      datasource: DATA_SOURCE,
      expr: expression,
      legendFormat: legend,
      ...(kind === "table" ? { format: "table", instant: true } : {}),
    })),
  };
}

const OPTIONS: Readonly<Record<Panel["kind"], object>> = {
  timeseries: {
    legend: { displayMode: "list", placement: "bottom", showLegend: true },
    tooltip: { mode: "multi", sort: "desc" },
  },
  stat: { colorMode: "value", graphMode: "area", reduceOptions: { calcs: ["lastNotNull"] } },
  table: { showHeader: true },
};

/** A table of labels needs neither the time nor the value, which is 1. */
const LABELS_AS_COLUMNS = [
  { id: "organize", options: { excludeByName: { Time: true, Value: true, __name__: true } } },
] as const;
