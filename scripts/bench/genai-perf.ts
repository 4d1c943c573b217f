/** Runs GenAI-Perf beside a stack in a cluster, and keeps its figures. */
import { setTimeout as sleep } from "node:timers/promises";
import { type ClusterProbe, kubectlText } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { lastLine } from "../preflight/host-probe.ts";
import type { ClusterTarget } from "../program/cluster-target.ts";
import {
  DEFAULT_LOAD,
  type Figures,
  figuresOf,
  genaiPerfJob,
  type Load,
  measuredPlan,
  sdkImage,
} from "./genai-perf-job.ts";

/** What is kept of one run, to be compared with that of another release. */
export interface GenaiPerfRecord {
  readonly model: string;
  readonly release: string;
  /** Key of the engine that was measured. */
  readonly engineKey: string | null;
  readonly image: string;
  readonly load: Load;
  readonly figures: Figures;
}

const POLL_SECONDS = 5;

/**
 * Makes the Job, waits for its end, reads its figures, and deletes it, whatever came of it.
 *
 * @throws UserError where the cluster refuses it, or it fails; with its last lines.
 */
export async function measureWithGenaiPerf(
  target: ClusterTarget,
  model: string,
  probe: ClusterProbe,
): Promise<GenaiPerfRecord> {
  const load = DEFAULT_LOAD;
  const job = genaiPerfJob(target, model, { suffix: Date.now().toString(36), load });
  const { name, namespace } = job.metadata;
  const own = ["--namespace", namespace];
  await kubectlText(probe, ["create", ...own, "--filename", "-"], JSON.stringify(job));
  try {
    const failure = await jobEnd(probe, name, own);
    const log = await probe.kubectl(["logs", ...own, "--tail", "-1", `job/${name}`]);
    if (failure !== null)
      throw new UserError(
        `The Job ${name} failed: ${failure}\n${log.stdout.trim().split("\n").slice(-5).join("\n")}`.trimEnd(),
      );
    if (log.exitCode !== 0)
      throw new UserError(`The log of the Job ${name} can't be read: ${lastLine(log.stderr)}`);
    const plan = measuredPlan(target);
    return {
      model,
      release: plan.release.tag,
      engineKey: plan.models.find((one) => one.name === model)?.engine?.key ?? null,
      image: sdkImage(plan),
      load,
      figures: figuresOf(log.stdout),
    };
  } finally {
    await probe.kubectl(["delete", ...own, "--wait=false", "--ignore-not-found", `job/${name}`]);
  }
}

interface JobStatus {
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
  };
}

/** @returns null for success, else the Job's own words; its deadline ends the wait. */
async function jobEnd(probe: ClusterProbe, name: string, own: readonly string[]): Promise<string | null> {
  for (;;) {
    const text = await kubectlText(probe, ["get", ...own, "--output", "json", `job/${name}`]);
    const conditions = (JSON.parse(text) as JobStatus).status?.conditions ?? [];
    const has = (type: string) => conditions.find((one) => one.type === type && one.status === "True");
    if (has("Complete") !== undefined) return null;
    const failed = has("Failed");
    if (failed !== undefined) return failed.message ?? "no reason was given";
    await sleep(POLL_SECONDS * 1000);
  }
}

const SHOWN = ["avg", "p50", "p90", "p99"] as const;

/** A row a statistic; with a record of before, how its average has changed. */
export function genaiPerfTable({ figures }: GenaiPerfRecord, before?: GenaiPerfRecord): readonly string[] {
  const names = Object.keys(figures).map((name) => `${name} (${figures[name]?.unit ?? ""})`);
  const width = Math.max(0, ...names.map(({ length }) => length));
  const titles = [...SHOWN, ...(before === undefined ? [] : [`against ${before.release}`])];
  return [
    `${"".padEnd(width)} ${titles.map((title) => title.padStart(10)).join(" ")}`.trimEnd(),
    ...Object.entries(figures).map(([name, statistic], index) => {
      const cells = SHOWN.map((key) => statistic[key]?.toFixed(2) ?? "");
      const old = before?.figures[name];
      // Of another unit it is another statistic.
      const ratio =
        old === undefined || old.unit !== statistic.unit || old.avg === 0
          ? ""
          : `× ${(statistic.avg / old.avg).toFixed(2)}`;
      const all = before === undefined ? cells : [...cells, ratio];
      return `${(names[index] ?? "").padEnd(width)} ${all.map((cell) => cell.padStart(10)).join(" ")}`.trimEnd();
    }),
  ];
}
