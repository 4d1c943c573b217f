/** Expressions of PromQL, of metrics that the tables name and no others. */
import type {
  clusterMetrics,
  dcgmMetrics,
  recordedMetrics,
  scrapeMetrics,
} from "../../catalogue/cluster-metrics.ts";
import type { gpuMetrics, MetricSeries, tensorRtLlmMetrics, tritonMetrics } from "../../catalogue/metrics.ts";
import type {
  gatewayMetrics,
  mockMongoMetrics,
  mockVectorMetrics,
  qdrantMetrics,
  retrievalMetrics,
} from "../../catalogue/service-metrics.ts";

type Tables = typeof clusterMetrics &
  typeof dcgmMetrics &
  typeof recordedMetrics &
  typeof scrapeMetrics &
  typeof gpuMetrics &
  typeof tensorRtLlmMetrics &
  typeof tritonMetrics &
  typeof gatewayMetrics &
  typeof mockMongoMetrics &
  typeof mockVectorMetrics &
  typeof qdrantMetrics &
  typeof retrievalMetrics;

type NamesOf<Kind> = {
  [Name in keyof Tables]: Tables[Name]["kind"] extends Kind ? Name : never;
}[keyof Tables];

type HistogramName = NamesOf<"histogram">;
type CounterName = NamesOf<"counter">;
type PlainName = NamesOf<"counter" | "gauge">;

/** A label's value; several: one of them; `not`: any other, or none. */
type Match = string | readonly string[] | { readonly not: string } | { readonly like: string };
export type Matches = Readonly<Record<string, Match>>;

/** `name{label="value"}`. */
export function series(name: PlainName | `${HistogramName}_${"bucket" | "sum" | "count"}`, matches: Matches) {
  return selector({ name, labels: matches });
}

/** The same of a series that the plan names. */
export function selector({ name, labels }: MetricSeries | { name: string; labels: Matches }): string {
  return `${name}{${Object.entries(labels).map(matcher).join(", ")}}`;
}

function matcher([label, match]: readonly [string, Match]): string {
  if (typeof match === "string") return `${label}=${quoted(match)}`;
  if ("not" in match) return `${label}!=${quoted(match.not)}`;
  if ("like" in match) return `${label}=~${quoted(match.like)}`;
  const [only] = match;
  if (match.length === 1 && only !== undefined) return `${label}=${quoted(only)}`;
  return `${label}=~${quoted(match.map(literal).join("|"))}`;
}

/** Escapes of a double-quoted string are Go's, which has those of JSON. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

/** A regular expression that is matched by the text alone. */
function literal(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** A counter's increase in a second, over the last minutes. */
export function rate(name: CounterName, matches: Matches, minutes = 5): string {
  return `rate(${series(name, matches)}[${minutes}m])`;
}

/** One value for each combination of some labels; none: of all. */
export function sum(expression: string, ...by: readonly string[]): string {
  return by.length === 0 ? `sum(${expression})` : `sum by (${by.join(", ")}) (${expression})`;
}

/** A quantile of a histogram over the last minutes, for each combination of some labels. */
export function quantile(
  share: number,
  name: HistogramName,
  matches: Matches,
  by: readonly string[],
  minutes = 5,
): string {
  const buckets = `rate(${series(`${name}_bucket`, matches)}[${minutes}m])`;
  return `histogram_quantile(${share}, ${sum(buckets, "le", ...by)})`;
}
