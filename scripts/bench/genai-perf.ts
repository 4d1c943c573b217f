/**
 * A measurement by NVIDIA's own load generator, as a Job beside the stack: GenAI-Perf of the SDK image of the model's release,
 * straight at the model's Triton.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { lastLines } from "../../components/local/provider/commands.ts";
import { tokenizerDirectory } from "../../infra/plan/engine/weights.ts";
import type { ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { placementOf } from "../../infra/plan/kubernetes/capacity.ts";
import { objectLabels, objectName } from "../../infra/plan/kubernetes/objects.ts";
import { poolNamed } from "../../infra/plan/pool-space.ts";
import { TRITON_PORTS } from "../../infra/plan/repository/launch.ts";
import { type ClusterProbe, kubectlText } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { isOlder } from "../preflight/finding.ts";
import { lastLine } from "../preflight/host-probe.ts";
import type { ClusterTarget } from "../program/targets.ts";

/** Requests at a time and in all; tokens of each prompt and of each answer. */
const LOAD = { concurrency: 8, requests: 100, inputTokens: 200, outputTokens: 100 } as const;

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

/** @throws UserError for what GenAI-Perf can't measure. @param suffix - Of the Job's name. */
export function genaiPerfJob(target: ClusterTarget, model: string, suffix: string) {
  const { name: stack } = target;
  const { plan, planned, image, tokenizer } = measured(target, model);
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
              image,
              command: ["/bin/sh", "-ec", SCRIPT, "genai-perf"],
              args: genaiPerfArguments(planned, tokenizer),
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

/** The model in the plan, the release's image, and the tokenizer's folder. @throws UserError for what GenAI-Perf can't measure. */
function measured({ plan }: ClusterTarget, model: string) {
  const instead = "`npx engine-room bench` without --model measures the stack through the gateway.";
  if (plan.tier !== "gpu")
    throw new UserError(
      `GenAI-Perf measures TensorRT-LLM's servers, and the stack has \`tier: cpu\`; ${instead}`,
    );
  const { tag } = plan.release;
  if (isOlder(tag, LEAST_RELEASE))
    throw new UserError(
      `GenAI-Perf measures models of release ${LEAST_RELEASE} and newer, and the stack has ${tag}; ${instead}`,
    );
  const planned = plan.models.find(({ name }) => name === model);
  if (planned === undefined)
    throw new UserError(
      `The stack has no model ${model}; it has ${plan.models.map(({ name }) => name).join(", ")}.`,
    );
  const { engine, spec } = planned;
  if (engine === null)
    throw new UserError(`${model} runs without an engine, and GenAI-Perf measures engines; ${instead}`);
  const image = `nvcr.io/nvidia/tritonserver:${tag}-py3-sdk`;
  return {
    plan,
    planned,
    image,
    engine,
    tokenizer: tokenizerDirectory(spec.engine.row, engine.places.weights),
  };
}

/** No `--service-kind`: Triton was its default, and is what `--backend` means since 25.04 took the option away. */
function genaiPerfArguments({ name, repository }: ModelPlan, tokenizer: string): readonly string[] {
  return [
    ...["profile", "--model", repository.clientModel, "--backend", "tensorrtllm"],
    ...["--url", `${name}:${TRITON_PORTS.grpc}`, "--tokenizer", tokenizer],
    ...(repository.decoupled ? ["--streaming"] : []),
    ...["--concurrency", String(LOAD.concurrency), "--request-count", String(LOAD.requests)],
    ...["--synthetic-input-tokens-mean", String(LOAD.inputTokens), "--synthetic-input-tokens-stddev", "0"],
    ...["--output-tokens-mean", String(LOAD.outputTokens), "--output-tokens-stddev", "0"],
    ...["--output-tokens-mean-deterministic", "--random-seed", "0"],
    ...["--artifact-dir", ARTIFACTS, "--profile-export-file", "profile_export.json"],
  ];
}

/** One statistic of GenAI-Perf's table. */
const statisticSchema = z.object({
  unit: z.string(),
  avg: z.number(),
  p50: z.number().optional(),
  p90: z.number().optional(),
  p99: z.number().optional(),
});

/** By GenAI-Perf's own names, such as `time_to_first_token`. */
export type Figures = Readonly<Record<string, z.infer<typeof statisticSchema>>>;

/** The figures of a Job's log. @throws UserError where there are none. */
export function figuresOf(log: string): Figures {
  const [, text] = log.split(`\n${FIGURES_MARK}\n`);
  try {
    return Object.fromEntries(
      Object.entries(JSON.parse(text ?? "") as object).flatMap(([name, value]) => {
        const { data } = statisticSchema.safeParse(value);
        return data === undefined ? [] : [[name, data]];
      }),
    );
  } catch {
    throw new UserError(`GenAI-Perf has written no figures; its last lines:\n${lastLines(log, 5)}`);
  }
}

/** What `--out` keeps of one run. */
export interface GenaiPerfRecord {
  readonly model: string;
  readonly release: string;
  /** Key of the engine that was measured. */
  readonly engineKey: string;
  readonly image: string;
  readonly load: typeof LOAD;
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
  const { plan, image, engine } = measured(target, model);
  const job = genaiPerfJob(target, model, Date.now().toString(36));
  const { name, namespace } = job.metadata;
  const own = ["--namespace", namespace];
  await kubectlText(probe, ["create", ...own, "--filename", "-"], JSON.stringify(job));
  try {
    const failure = await jobEnd(probe, name, own);
    const log = await probe.kubectl(["logs", ...own, "--tail", "-1", `job/${name}`]);
    if (failure !== null)
      throw new UserError(`The Job ${name} failed: ${failure}\n${lastLines(log.stdout, 5)}`.trimEnd());
    if (log.exitCode !== 0)
      throw new UserError(`The log of the Job ${name} can't be read: ${lastLine(log.stderr)}`);
    const { key: engineKey } = engine;
    return { model, release: plan.release.tag, engineKey, image, load: LOAD, figures: figuresOf(log.stdout) };
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
    const end = conditions.find(
      ({ type, status }) => status === "True" && (type === "Complete" || type === "Failed"),
    );
    if (end !== undefined) return end.type === "Complete" ? null : (end.message ?? "no reason was given");
    await sleep(POLL_SECONDS * 1000);
  }
}

/** A row for each statistic. */
export function genaiPerfTable(figures: Figures): readonly string[] {
  const columns = ["avg", "p50", "p90", "p99"] as const;
  const rows = Object.entries(figures).map(([name, statistic]) => [
    `${name} (${statistic.unit})`,
    ...columns.map((key) => statistic[key]?.toFixed(2) ?? ""),
  ]);
  const width = Math.max(0, ...rows.map(([name = ""]) => name.length));
  return [["", ...columns], ...rows].map(([name = "", ...cells]) =>
    [name.padEnd(width), ...cells.map((cell) => cell.padStart(10))].join(" ").trimEnd(),
  );
}
