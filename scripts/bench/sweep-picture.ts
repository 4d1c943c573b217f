/** Rows of a sweep as an SVG: the same rows give the same bytes, and it follows the reader's light or dark scheme. */
import { type Limits, largestLoad, type SweepRow } from "./sweep.ts";

const WIDTH = 760;
const LEFT = 64;
const RIGHT = 88;
const TOP = 56;
/** Pixels of one panel: its title, its plot, and the gap below it. */
const PANEL = { title: 24, plot: 130, gap: 26 } as const;
const PANEL_HEIGHT = PANEL.title + PANEL.plot + PANEL.gap;

/** Classes without variables: programs other than browsers support only these in an SVG. */
const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; }
  .page { fill: #fff; } .kept { fill: #e0f2f0; }
  path { fill: none; stroke-width: 2; } .grid { stroke: #d8dee4; stroke-width: 1; }
  path.p50 { stroke: #6e7781; } path.p95 { stroke: #0e6b70; } path.limit { stroke: #b42318; stroke-dasharray: 6 4; }
  text.p50, circle.p50 { fill: #6e7781; } text.p95, circle.p95 { fill: #0e6b70; } text.limit { fill: #b42318; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; } .kept { fill: #10302f; } .grid { stroke: #30363d; }
    path.p50 { stroke: #9aa4af; } path.p95 { stroke: #8fe0d6; } path.limit { stroke: #ff8d85; }
    text.p50, circle.p50 { fill: #9aa4af; } text.p95, circle.p95 { fill: #8fe0d6; } text.limit { fill: #ff8d85; }
  }`;

interface Series {
  readonly kind: "p50" | "p95";
  readonly label: string;
  value(row: SweepRow): number | undefined;
}

interface Panel {
  readonly title: string;
  readonly limit?: number | undefined;
  readonly series: readonly Series[];
}

/** @param title - One line above the panels. */
export function sweepPicture(title: string, rows: readonly SweepRow[], limits: Limits): string {
  const latency = (name: "ttftMs" | "itlMs"): readonly Series[] => [
    { kind: "p50", label: "p50", value: (row) => row[name]?.p50 },
    { kind: "p95", label: "p95", value: (row) => row[name]?.p95 },
  ];
  const panels: readonly Panel[] = [
    { title: "Time to first token, ms", limit: limits.ttftMs, series: latency("ttftMs") },
    { title: "Inter-token latency, ms", limit: limits.itlMs, series: latency("itlMs") },
    {
      title: "Output tokens a second",
      series: [{ kind: "p95", label: "all requests", value: (row) => row.outputTokensPerSecond }],
    },
  ];
  const height = TOP + panels.length * PANEL_HEIGHT + 16;
  const step = (WIDTH - LEFT - RIGHT) / Math.max(1, rows.length - 1);
  const x = (index: number) => LEFT + (rows.length === 1 ? (WIDTH - LEFT - RIGHT) / 2 : index * step);
  const largest = largestLoad(rows, limits);
  const at = x(largest === undefined ? 0 : rows.indexOf(largest));
  const half = Math.min(18, step / 3);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}\n</style>`,
    `<rect width="${WIDTH}" height="${height}" class="page"/>`,
    `<text class="title" x="16" y="22">${escaped(title)}</text>`,
    `<text x="16" y="40">${largest === undefined ? "No load keeps the limits" : `Largest load that keeps the limits: concurrency ${largest.concurrency}`}</text>`,
    ...(largest === undefined
      ? []
      : [
          `<rect x="${fixed(at - half)}" y="${TOP}" width="${fixed(2 * half)}" height="${panels.length * PANEL_HEIGHT - PANEL.gap}" class="kept"/>`,
        ]),
    ...panels.flatMap((panel, index) => panelLines(panel, TOP + index * PANEL_HEIGHT, rows, x)),
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${height - 8}" text-anchor="middle">requests at a time</text>`,
    "</svg>\n",
  ].join("\n");
}

function panelLines(
  { title, limit, series }: Panel,
  top: number,
  rows: readonly SweepRow[],
  x: (index: number) => number,
): readonly string[] {
  const plotTop = top + PANEL.title;
  const bottom = plotTop + PANEL.plot;
  const values = series.flatMap(({ value }) => rows.flatMap((row) => value(row) ?? []));
  const most = roundUp(Math.max(limit ?? 0, ...values));
  const y = (value: number) => bottom - (value / most) * PANEL.plot;
  const end = WIDTH - RIGHT;
  const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => {
    const height = fixed(bottom - share * PANEL.plot);
    return [
      `<path class="grid" d="M${LEFT} ${height}H${end}"/>`,
      `<text x="${LEFT - 8}" y="${height}" dy="4" text-anchor="end">${Number((share * most).toPrecision(3))}</text>`,
    ];
  });
  const lines = series.flatMap(({ kind, label, value }) => {
    const points = rows.flatMap((row, index) => {
      const found = value(row);
      return found === undefined ? [] : [{ left: fixed(x(index)), height: fixed(y(found)) }];
    });
    const last = points.at(-1);
    if (last === undefined) return [];
    return [
      `<path class="${kind}" d="M${points.map(({ left, height }) => `${left} ${height}`).join("L")}"/>`,
      ...points.map(({ left, height }) => `<circle cx="${left}" cy="${height}" r="3" class="${kind}"/>`),
      `<text class="${kind}" x="${end + 8}" y="${last.height}" dy="${kind === "p50" ? 10 : 0}">${label}</text>`,
    ];
  });
  return [
    `<text class="title" x="16" y="${top + 14}">${title}</text>`,
    ...grid,
    ...(limit === undefined
      ? []
      : [
          `<path class="limit" d="M${LEFT} ${fixed(y(limit))}H${end}"/>`,
          `<text class="limit" x="${LEFT + 4}" y="${fixed(y(limit))}" dy="-4">limit ${limit} ms</text>`,
        ]),
    ...lines,
    ...rows.map(
      ({ concurrency }, index) =>
        `<text x="${fixed(x(index))}" y="${bottom + 16}" text-anchor="middle">${concurrency}</text>`,
    ),
  ];
}

/** The next of 1, 2, 4, 6, 8, 10 times a power of ten: quarters of them are short numbers. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 6, 8, 10].find((times) => times * power >= value) ?? 10) * power;
}

const fixed = (value: number) => value.toFixed(1);

const escaped = (text: string) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
