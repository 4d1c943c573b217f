/** Whether a server's Prometheus page has the series that the catalogue names. */
import type { MetricSeries } from "../../infra/plan/catalogue/metrics.ts";
import { fetchText } from "../smoke/requests.ts";

/** Names listed in a sentence about what is missing. */
const SHOWN = 3;

/** @throws Error that names what is missing. */
export async function checkMetricNames(url: string, expected: readonly MetricSeries[]) {
  const page = parsePage(await fetchText(url));
  const missing = expected.filter((series) => !page.some((found) => matches(found, series)));
  if (missing.length > 0) {
    const shown = missing.slice(0, SHOWN).map(seriesText).join(", ");
    const more = missing.length > SHOWN ? `, and ${missing.length - SHOWN} more` : "";
    throw new Error(`${missing.length} of ${expected.length} series are missing: ${shown}${more}`);
  }
  return { text: `all ${expected.length} series are there`, figures: { series: expected.length } };
}

/** Series of a page in Prometheus' text format; a line that is none is left out. */
export function parsePage(text: string): MetricSeries[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = ""] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+[-+]?(?:\d|Inf|NaN)/.exec(line) ?? [];
    if (name === undefined) return [];
    const pairs = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)];
    return [{ name, labels: Object.fromEntries(pairs.map(([, key, value]) => [key, value])) }];
  });
}

function matches(found: MetricSeries, { name, labels }: MetricSeries): boolean {
  return found.name === name && Object.entries(labels).every(([key, value]) => found.labels[key] === value);
}

function seriesText({ name, labels }: MetricSeries): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}
