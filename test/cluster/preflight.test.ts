/** What preflight and status ask, asked of a real API server by a real kubectl. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { clusterProbe } from "../../scripts/cluster/kubectl.ts";
import { workloadStatuses } from "../../scripts/cluster/workload-states.ts";
import { clusterPreflight } from "../../scripts/preflight/preflight.ts";
import { readClusterTarget } from "../../scripts/program/cluster-target.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import { poolsOf } from "../harness/kubernetes/stack-files.ts";

const FILE = join(projectRoot, "Pulumi.onprem.yaml");

describeWithCluster(
  "preflight",
  ({ api, connection }) => {
    const target = readClusterTarget(stackReference("tests", FILE));
    const { plan } = target;
    if (plan.tier !== "gpu") throw new Error("no stack on GPUs");
    const nodes = poolsOf(FILE).flatMap((pool) =>
      poolNodes(pool, { labels: plan.cluster.pools[pool.name]?.nodeSelector ?? {} }),
    );
    const before = process.env.KUBECONFIG;
    beforeAll(async () => {
      process.env.KUBECONFIG = connection.kubeconfig;
      await addNodes(api, nodes);
    });
    afterAll(async () => {
      await removeNodes(api, nodes);
      if (before === undefined) delete process.env.KUBECONFIG;
      else process.env.KUBECONFIG = before;
    });
    const whats = async (context: string | null) =>
      (await clusterPreflight({ ...target, imageProblems: [] }, clusterProbe(context))).map(
        ({ check, what }) => `${check}: ${what}`,
      );

    test("machines, rights and kinds are as the stack needs them; the classes are not there", async () => {
      expect(await whats("tests")).toEqual([
        "storageClass: There is no class nfs-client.",
        "storageClass: The cluster has no default class for it.",
        "images: No registry answers at registry.example.org.",
      ]);
    });

    test("a context that the kubeconfig lacks", async () => {
      expect(await whats("elsewhere")).toEqual(["server: The kubeconfig has no such context."]);
    });

    test("status of a stack that is not there", async () => {
      const statuses = await workloadStatuses(target.stack, clusterProbe("tests"));
      expect(statuses.length).toBeGreaterThan(0);
      expect(new Set(statuses.map(({ state }) => state))).toEqual(new Set(["MISSING"]));
    });

    test("a user who may do nothing but ask", async () => {
      const probe = clusterProbe("tests");
      const asNobody = {
        ...probe,
        kubectl: (args: readonly string[], input?: string) =>
          probe.kubectl([...args, "--as", "nobody", "--as-group", "system:authenticated"], input),
      };
      const found = await clusterPreflight({ ...target, imageProblems: [] }, asNobody);
      expect(found.map(({ what }) => what)).toContain(
        "You may not get, list, watch, create, patch, delete deployments.apps in the namespace engine-room.",
      );
      expect(found.map(({ what }) => what)).toContain("You may not list nodes.");
    });
  },
  hasKubectl() ? undefined : "kubectl is not on the PATH",
);

function hasKubectl(): boolean {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
