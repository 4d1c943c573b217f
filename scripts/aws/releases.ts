/** Releases of Helm whose operation was killed with an `up`: Helm refuses another operation on them, and the next `up` would fail. */
import { CHART_SECONDS, type ChartPlan } from "../../infra/plan/aws/cluster-software.ts";
import type { ClusterProbe } from "../cluster/kubectl.ts";
import type { Deployment } from "../stack/state.ts";

/** An atomic operation that fails is rolled back, which may take the same time again. */
const LONGEST_SECONDS = 2 * CHART_SECONDS;

const RELEASE = "kubernetes:helm.sh/v3:Release";

/** https://github.com/helm/helm/blob/v3.20.2/pkg/storage/driver/secrets.go */
const PENDING = "owner=helm,status in (pending-install,pending-upgrade,pending-rollback)";
const COLUMNS = [
  ".metadata.namespace",
  ".metadata.name",
  ".metadata.labels.name",
  ".metadata.labels.status",
  ".metadata.creationTimestamp",
];

/** Whether a state knows of a chart, made or begun. */
export function hasReleases({ resources, pending_operations: pending }: Deployment): boolean {
  return [...resources, ...pending.map(({ resource }) => resource)].some(({ type }) => type === RELEASE);
}

/**
 * Deletes Helm's records of operations that are older than the longest possible operation, and so no longer run. The newest record is then
 * that of the previous release, which the next operation replaces; objects of a killed installation have Helm's marks of its release, and
 * the next installation takes them over. If kubectl gets no answer, nothing is deleted: Pulumi reports the reason.
 *
 * @param now - Milliseconds since 1970.
 * @returns Names of deleted records, and a sentence for each operation that may still run.
 */
export async function removePendingReleases(
  { kubectl }: Pick<ClusterProbe, "kubectl">,
  charts: readonly ChartPlan[],
  now: number,
): Promise<{ readonly removed: readonly string[]; readonly running: readonly string[] }> {
  // Reads no data of the Secrets, which have values of charts.
  const columns = COLUMNS.map((path, index) => `C${index}:${path}`).join(",");
  const answer = await kubectl([
    ...["get", "secrets", "--all-namespaces", "--selector", PENDING],
    ...["--no-headers", "--output", `custom-columns=${columns}`],
  ]);
  const rows = answer.exitCode === 0 ? answer.stdout.split("\n").map((line) => line.trim().split(/\s+/)) : [];
  const removed: string[] = [];
  const running: string[] = [];
  for (const [namespace = "", name = "", release = "", status = "", created = ""] of rows) {
    if (!charts.some(({ args }) => args.name === release && args.namespace === namespace)) continue;
    const minutes = Math.ceil((Date.parse(created) + LONGEST_SECONDS * 1000 - now) / 60_000);
    const deletion = ["delete", "secret", name, "--namespace", namespace];
    if (minutes > 0)
      running.push(
        `Helm has ${release} as ${status} since ${created}: another \`up\` is running, or an \`up\` was killed. In the second case \`kubectl ${deletion.join(" ")}\` lets the next one begin; in ${minutes} min \`npx engine-room up\` does it by itself.`,
      );
    else if ((await kubectl(deletion)).exitCode === 0) removed.push(`${status} of ${release} (${name})`);
  }
  return { removed, running };
}
