import { expect, test } from "vitest";
import type { ChartPlan } from "../../../infra/plan/aws/cluster-software.ts";
import { hasReleases, removePendingReleases } from "../../../scripts/aws/releases.ts";

const chart = (name: string, namespace: string) => ({ args: { name, namespace } }) as ChartPlan;
const charts = [chart("keda", "keda"), chart("cluster-autoscaler", "kube-system")];

const BEGUN = "2026-11-28T09:00:00Z";
const minutesLater = (minutes: number) => Date.parse(BEGUN) + minutes * 60_000;

/** A kubectl that lists these records, and records deletions. */
function cluster(...records: readonly string[]) {
  const deleted: string[] = [];
  const kubectl = async (args: readonly string[]) => {
    if (args[0] === "delete") deleted.push(args.slice(1).join(" "));
    const stdout = args[0] === "get" ? records.map((record) => `${record}\n`).join("") : "";
    return { exitCode: 0, stdout, stderr: "" };
  };
  return { kubectl, deleted };
}

const KEDA = `keda   sh.helm.release.v1.keda.v1   keda   pending-install   ${BEGUN}`;

test("an operation counts as killed after the maximum time of operations", async () => {
  const young = cluster(KEDA);
  const { removed, running } = await removePendingReleases(young, charts, minutesLater(20));
  expect([removed, young.deleted]).toEqual([[], []]);
  expect(running).toEqual([
    expect.stringMatching(
      /^Helm has keda as pending-install since .* `kubectl delete secret sh\.helm\.release\.v1\.keda\.v1 --namespace keda` .* in 10 min /,
    ),
  ]);

  const old = cluster(KEDA);
  expect(await removePendingReleases(old, charts, minutesLater(30))).toEqual({
    removed: ["pending-install of keda (sh.helm.release.v1.keda.v1)"],
    running: [],
  });
  expect(old.deleted).toEqual(["secret sh.helm.release.v1.keda.v1 --namespace keda"]);
});

test("releases of other programs stay, also under the same name in another namespace", async () => {
  const others = cluster(
    KEDA.replace("keda ", "other "),
    `kube-system  sh.helm.release.v1.coredns.v3  coredns  pending-upgrade  ${BEGUN}`,
  );
  const now = minutesLater(600);
  expect(await removePendingReleases(others, charts, now)).toEqual({ removed: [], running: [] });
  expect(others.deleted).toEqual([]);
});

test("nothing is deleted, and nothing fails, if the cluster does not respond", async () => {
  const kubectl = async () => ({ exitCode: 1, stdout: "", stderr: "Unable to connect to the server" });
  expect(await removePendingReleases({ kubectl }, charts, minutesLater(600))).toEqual({
    removed: [],
    running: [],
  });
});

test("a cluster is read only if the state has a chart, created or pending", () => {
  const release = { urn: "urn:keda", type: "kubernetes:helm.sh/v3:Release" };
  const other = { urn: "urn:role", type: "aws:iam/role:Role" };
  expect(hasReleases({ resources: [other], pending_operations: [] })).toBe(false);
  expect(hasReleases({ resources: [release], pending_operations: [] })).toBe(true);
  const begun = [{ resource: release, type: "creating" }];
  expect(hasReleases({ resources: [other], pending_operations: begun })).toBe(true);
});
