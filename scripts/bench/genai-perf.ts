/**
 * A measurement by NVIDIA's own load generator, as a Job beside the stack: GenAI-Perf of the SDK image of the model's release,
 * straight at the model's Triton.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { tokenizerDirectory } from "../../infra/plan/engine/weights.ts";
import type { ClusterGpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { placementOf } from "../../infra/plan/kubernetes/capacity.ts";
import { objectLabels, objectName } from "../../infra/plan/kubernetes/objects.ts";
import { poolNamed } from "../../infra/plan/pool-space.ts";
import { TRITON_PORTS } from "../../infra/plan/repository/launch.ts";
import { type ClusterProbe, kubectlText } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { isOlder } from "../preflight/finding.ts";
import { lastLine } from "../preflight/host-probe.ts";
import type { ClusterTarget } from "../program/targets.ts";

export interface Load {
  /** Requests at a time. */
  readonly concurrency: number;
  readonly requests: number;
  /** Of each prompt, and of each answer. */
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export const DEFAULT_LOAD: Load = { concurrency: 8, requests: 100, inputTokens: 200, outputTokens: 100 };

/** `genai-perf profile` came with it: https://github.com/triton-inference-server/client/pull/745. */
const LEAST_RELEASE = "24.08";

/** What stands in the log before the figures. */
const FIGURES_MARK = "@@figures";

const ARTIFACTS = "/tmp/artifacts";
const STORE = "/store";

/** Image, start of Python, and the load itself; a Job that takes longer has hung. */
const DEADLINE_SECONDS = 3600;
/** Whoever started it deletes it; this is for one that was killed. */
const KEPT_SECONDS = 3600;

/** Within what the stack's quota leaves to tools. */
const REQUESTS = { cpu: "1", memory: "4Gi", "ephemeral-storage": "2Gi" } as const;

/** As the API takes it. */
interface BenchJob {
  readonly apiVersion: "batch/v1";
  readonly kind: "Job";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
}

/** @throws UserError for a release without the program, or a model whose tokenizer is not in the engine store. */
export function genaiPerfJob(
  target: ClusterTarget,
  model: string,
  { suffix, load }: { readonly suffix: string; readonly load: Load },
): BenchJob {
  const { name: stack } = target;
  const { plan, planned } = measured(target, model);
  const labels = {
    ...objectLabels(stack, { role: "bench", model }),
    "app.kubernetes.io/managed-by": "engine-room",
  };
  const { nodeSelector, tolerations } = placementOf(plan, poolNamed(plan.spec.pools, planned.spec.pool));
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: `bench-${objectName(model).slice(0, 40)}-${suffix}`,
      namespace: plan.cluster.namespace.name,
      labels,
    },
    spec: {
      // Figures of a second try would be of a server that is warm.
      backoffLimit: 0,
      activeDeadlineSeconds: DEADLINE_SECONDS,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: {
        metadata: { labels },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 1000,
            runAsGroup: 1000,
            fsGroup: 1000,
            fsGroupChangePolicy: "OnRootMismatch",
            seccompProfile: { type: "RuntimeDefault" },
          },
          // Where the server is: a store that one machine mounts is mounted there.
          nodeSelector,
          tolerations,
          containers: [
            {
              name: "bench",
              image: sdkImage(plan),
              command: ["/bin/sh", "-ec", SCRIPT, "genai-perf"],
              args: genaiPerfArguments(planned, load),
              env: Object.entries(ENVIRONMENT).map(([key, value]) => ({ name: key, value })),
              resources: { requests: REQUESTS },
              securityContext: {
                allowPrivilegeEscalation: false,
                capabilities: { drop: ["ALL"] },
                readOnlyRootFilesystem: true,
                runAsNonRoot: true,
              },
              terminationMessagePolicy: "FallbackToLogsOnError",
              volumeMounts: [
                { name: "tmp", mountPath: "/tmp" },
                { name: "store", mountPath: STORE, readOnly: true },
              ],
            },
          ],
          volumes: [
            { name: "tmp", emptyDir: { sizeLimit: "2Gi" } },
            { name: "store", persistentVolumeClaim: { claimName: plan.cluster.store.claim } },
          ],
        },
      },
    },
  };
}

/** The folder below the artifacts' differs from release to release; the end of the file's name does not. */
const SCRIPT = `genai-perf "$@"
printf '\\n%s\\n' '${FIGURES_MARK}'
find ${ARTIFACTS} -name '*_genai_perf.json' -exec cat {} +`;

/** It writes nothing outside of /tmp, and asks no hub: the tokenizer lies in the store. */
const ENVIRONMENT: Readonly<Record<string, string>> = {
  HF_HUB_OFFLINE: "1",
  HOME: "/tmp",
  MPLCONFIGDIR: "/tmp/matplotlib",
  TRANSFORMERS_OFFLINE: "1",
};

/** @throws UserError for a release that is older than the program. */
function sdkImage({ release }: ClusterGpuPlan): string {
  if (isOlder(release.tag, LEAST_RELEASE))
    throw new UserError(
      `GenAI-Perf measures models of release ${LEAST_RELEASE} and newer, and the stack has ${release.tag}; \`npx engine-room bench\` without --model measures it through the gateway.`,
    );
  return `nvcr.io/nvidia/tritonserver:${release.tag}-py3-sdk`;
}

/** @throws UserError for a stack without TensorRT-LLM, or without the model. */
function measured({ plan }: ClusterTarget, model: string): { plan: ClusterGpuPlan; planned: ModelPlan } {
  if (plan.tier !== "gpu")
    throw new UserError(
      "GenAI-Perf measures TensorRT-LLM's servers, and the stack has `tier: cpu`; `npx engine-room bench` without --model measures it.",
    );
  const planned = plan.models.find(({ name }) => name === model);
  if (planned !== undefined) return { plan, planned };
  throw new UserError(
    `The stack has no model ${model}; it has ${plan.models.map(({ name }) => name).join(", ")}.`,
  );
}

/** No `--service-kind`: Triton was its default, and is what `--backend` means since 25.04 took the option away. */
function genaiPerfArguments({ name, repository, engine, spec }: ModelPlan, load: Load): readonly string[] {
  if (engine === null)
    throw new UserError(
      `${name} runs without an engine, and GenAI-Perf's backend tensorrtllm measures engines.`,
    );
  return [
    ...["profile", "--model", repository.clientModel, "--backend", "tensorrtllm"],
    ...[
      "--url",
      `${name}:${TRITON_PORTS.grpc}`,
      "--tokenizer",
      tokenizerDirectory(spec.engine.row, engine.places.weights),
    ],
    ...(repository.decoupled ? ["--streaming"] : []),
    ...["--concurrency", String(load.concurrency), "--request-count", String(load.requests)],
    ...["--synthetic-input-tokens-mean", String(load.inputTokens), "--synthetic-input-tokens-stddev", "0"],
    ...["--output-tokens-mean", String(load.outputTokens), "--output-tokens-stddev", "0"],
    ...["--output-tokens-mean-deterministic", "--random-seed", "0"],
    ...["--artifact-dir", ARTIFACTS, "--profile-export-file", "profile_export.json"],
  ];
}

/** One statistic of GenAI-Perf's table. */
interface Statistic {
  readonly unit: string;
  readonly avg: number;
  readonly p50?: number;
  readonly p90?: number;
  readonly p99?: number;
}

/** By GenAI-Perf's own names, such as `time_to_first_token`. */
export type Figures = Readonly<Record<string, Statistic>>;

/** The figures of a Job's log. @throws UserError where there are none. */
export function figuresOf(log: string): Figures {
  const [, text] = log.split(`\n${FIGURES_MARK}\n`);
  try {
    const all = JSON.parse(text ?? "") as Readonly<Record<string, unknown>>;
    return Object.fromEntries(
      Object.entries(all).filter((entry): entry is [string, Statistic] => isStatistic(entry[1])),
    );
  } catch {
    const words = log.trim().split("\n").slice(-5).join("\n");
    throw new UserError(`GenAI-Perf has written no figures; its last lines:\n${words}`);
  }
}

function isStatistic(value: unknown): value is Statistic {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<Statistic>).unit === "string" &&
    typeof (value as Partial<Statistic>).avg === "number"
  );
}

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
    const { plan, planned } = measured(target, model);
    return {
      model,
      release: plan.release.tag,
      engineKey: planned.engine?.key ?? null,
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
