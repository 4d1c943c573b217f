/** GenAI-Perf as a Job beside a stack in a cluster. */
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { lastLines } from "../../components/local/provider/commands.ts";
import type { ClusterGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { placementOf } from "../../infra/plan/kubernetes/capacity.ts";
import { GATEWAY } from "../../infra/plan/kubernetes/network.ts";
import { objectLabels, objectName } from "../../infra/plan/kubernetes/objects.ts";
import { poolNamed } from "../../infra/plan/pool-space.ts";
import { type ClusterProbe, kubectlText } from "../cluster/kubectl.ts";
import { UserError } from "../errors.ts";
import { lastLine } from "../preflight/host-probe.ts";
import type { ClusterTarget } from "../program/targets.ts";
import {
  ARTIFACTS,
  DEADLINE_SECONDS,
  ENVIRONMENT,
  type GenaiPerfLoad,
  type GenaiPerfRun,
  genaiPerfArguments,
  genaiPerfScript,
  measured,
  recordOf,
} from "./genai-perf.ts";

const STORE = "/store";

/** The caller deletes the job; this is for a caller that was killed. */
const KEPT_SECONDS = 3600;

/** Fits the stack's quota for tools. */
const REQUESTS = { cpu: "1", memory: "4Gi", "ephemeral-storage": "2Gi" } as const;

interface Target extends ClusterTarget {
  readonly plan: ClusterGpuPlan;
}

/** @throws UserError when GenAI-Perf can't measure the model. @param suffix - End of the Job's name. */
export function genaiPerfJob(target: Target, model: string, load: GenaiPerfLoad, suffix: string) {
  const { name: stack, plan } = target;
  const measuredModel = measured(plan, model);
  const { planned, image } = measuredModel;
  const hosts = { triton: model, gateway: `${GATEWAY}:${plan.gateway.port}` };
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
      // A second try would measure a warm server.
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
          // On the server's machine: a store that one machine mounts is mounted there.
          nodeSelector,
          tolerations,
          containers: [
            {
              name: "bench",
              image,
              command: ["/bin/sh", "-ec", genaiPerfScript(ARTIFACTS), "genai-perf"],
              args: genaiPerfArguments(measuredModel, load, hosts),
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

const POLL_SECONDS = 5;

/** Creates the Job, waits for its end, reads its log, and deletes it, whatever the result. */
export function jobRun(
  target: Target,
  model: string,
  load: GenaiPerfLoad,
  probe: ClusterProbe,
): GenaiPerfRun {
  const job = (suffix: string) => genaiPerfJob(target, model, load, suffix);
  return {
    record: recordOf(measured(target.plan, model), load),
    explained: stringify(job("1"), { aliasDuplicateObjects: false }),
    async run() {
      const object = job(Date.now().toString(36));
      const { name, namespace } = object.metadata;
      const own = ["--namespace", namespace];
      await kubectlText(probe, ["create", ...own, "--filename", "-"], JSON.stringify(object));
      try {
        const failure = await jobEnd(probe, name, own);
        const log = await probe.kubectl(["logs", ...own, "--tail", "-1", `job/${name}`]);
        if (failure !== null)
          throw new UserError(`The Job ${name} failed: ${failure}\n${lastLines(log.stdout, 5)}`.trimEnd());
        if (log.exitCode !== 0)
          throw new UserError(`The log of the Job ${name} can't be read: ${lastLine(log.stderr)}`);
        return log.stdout;
      } finally {
        await probe.kubectl(["delete", ...own, "--wait=false", "--ignore-not-found", `job/${name}`]);
      }
    },
  };
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
