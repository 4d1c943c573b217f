/** What preflight and status ask, asked of a real API server by a real kubectl. */
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { type ClusterProbe, clusterProbe } from "../../scripts/cluster/kubectl.ts";
import { workloadStatuses } from "../../scripts/cluster/workload-states.ts";
import { clusterPreflight } from "../../scripts/preflight/preflight.ts";
import {
  type ClusterTarget,
  clusterTarget,
  readClusterTarget,
} from "../../scripts/program/cluster-target.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { hasKubectl } from "../harness/kubernetes/kubectl.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import { poolsOf } from "../harness/kubernetes/stack-files.ts";
import { namespaceReady, removeAndWait, waitFor } from "../harness/kubernetes/waits.ts";
import { eventually } from "../harness/stack.ts";

const FILE = join(projectRoot, "Pulumi.onprem.yaml");

/** The server looks at what is registered every few seconds. */
const ANSWER_TIMEOUT_SECONDS = 60;

const GPU_STACK = {
  engineStore: { storageClass: "nfs-client", sizeGiB: 200 },
  pools: [{ name: "gpu", machine: { gpu: "L40S", gpus: 2, vcpus: 32, memoryGiB: 128, networkMbps: 10_000 } }],
  models: [{ name: "llava", model: "llava-1.5-7b", flavour: "llava" }],
};

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
    // Of registries other tests say what is found.
    const preflight = async (of: ClusterTarget, probe: ClusterProbe) => {
      const checks = await clusterPreflight({ ...of, imageProblems: [] }, probe, async () => ({
        kind: "there",
      }));
      return checks.flatMap(({ findings }) => findings);
    };
    const whats = async (context: string | null, of: ClusterTarget = target) =>
      (await preflight(of, clusterProbe(context))).map(({ check, what }) => `${check}: ${what}`);
    /** A stack without a file, which is refused like one. */
    const stackOf = (values: object) => {
      const { plan: planned } = checkedPlan({ platform: "kubernetes", ...values });
      if (planned.platform !== "kubernetes") throw new Error("no stack in a cluster");
      return clusterTarget(planned, "tests");
    };
    const kinds = async (values: object) =>
      (await whats("tests", stackOf(values))).filter((words) => words.startsWith("kinds"));

    test("machines, rights and kinds are as the stack needs them; the classes are not there", async () => {
      expect(await whats("tests")).toEqual([
        "storageClass: There is no class nfs-client.",
        "storageClass: The cluster has no default class for it.",
        "images: No registry answers at registry.example.org.",
      ]);
    });

    test("kinds that others install are looked for only where the stack needs them", async () => {
      const { models, pools, engineStore } = GPU_STACK;
      expect(await kinds(GPU_STACK)).toEqual([]);
      // The definitions of KEDA, the operator and the Gateway API are there; no server of metrics and no cert-manager is.
      expect(
        await kinds({
          ...{ pools, engineStore },
          engines: { whenFull: "stopServer" },
          models: models.map((model) => ({ ...model, replicas: 2, minReplicas: 1 })),
          monitoring: "prometheus-operator",
          gateway: { hostname: "models.example.net", route: { gateway: "shared" } },
        }),
      ).toEqual(["kinds: The cluster does not know external.metrics.k8s.io/v1beta1."]);
      expect(
        await kinds({
          ...GPU_STACK,
          gateway: { hostname: "models.example.net", ingressClass: "nginx", tls: { issuer: "ours" } },
        }),
      ).toEqual(["kinds: The cluster does not know Certificate of cert-manager.io/v1."]);
    });

    test("a metrics server that is registered, and away", async () => {
      const registration = {
        apiVersion: "apiregistration.k8s.io/v1",
        kind: "APIService",
        metadata: { name: "v1beta1.external.metrics.k8s.io" },
        spec: {
          group: "external.metrics.k8s.io",
          version: "v1beta1",
          groupPriorityMinimum: 100,
          versionPriority: 100,
          insecureSkipTLSVerify: true,
          service: { name: "gone", namespace: "default" },
        },
      };
      const values = {
        tier: "cpu",
        models: [{ name: "smollm2", model: "smollm2-135m-instruct", replicas: 2, minReplicas: 1 }],
        autoscaling: { mechanism: "hpa" },
      };
      expect(await kinds(values)).toEqual([
        "kinds: The cluster does not know external.metrics.k8s.io/v1beta1.",
      ]);
      await applyAll(api, [registration]);
      try {
        const away = ["kinds: Nothing answers for external.metrics.k8s.io/v1beta1."];
        await eventually(
          async () => (isDeepStrictEqual(await kinds(values), away) ? true : undefined),
          ANSWER_TIMEOUT_SECONDS,
        );
      } finally {
        await removeAndWait(api, registration);
      }
    });

    test("room for a stack without GPUs is what the machines' own pods leave", async () => {
      const labels = { "test.example.org/for": "preflight" };
      const values = {
        tier: "cpu",
        models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
        machines: { nodeSelector: labels },
      };
      const room = async () =>
        (await whats("tests", stackOf(values))).filter((words) => /^(room|machines)/.test(words));
      expect(await room()).toEqual([
        "machines: No machine of the cluster takes pods of the stack that need no GPU.",
      ]);
      const cpus = poolsOf(FILE).filter(({ gpu }) => gpu === null);
      const own = cpus.flatMap((pool) => poolNodes({ ...pool, name: "small" }, { labels, count: 1 }));
      const others = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "others", namespace: "default" },
        spec: {
          nodeSelector: labels,
          containers: [{ name: "work", image: "work", resources: { requests: { cpu: "15" } } }],
        },
      };
      await addNodes(api, own);
      try {
        expect(await room()).toEqual([]);
        await namespaceReady(api, { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } });
        await api.create(others);
        await waitFor(
          api,
          others,
          ({ spec }) => (spec as { nodeName?: string }).nodeName === "small-0" || "no node",
        );
        expect(await room()).toEqual([
          expect.stringMatching(/^room: \d of 5 pods that need no GPU find no machine now: /),
        ]);
      } finally {
        await removeAndWait(api, others);
        await removeNodes(api, own);
      }
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
      const found = await preflight(target, asNobody);
      expect(found.map(({ what }) => what)).toContain(
        "You may not get, list, watch, create, patch, delete deployments.apps in the namespace engine-room.",
      );
      expect(found.map(({ what }) => what)).toContain("You may not list nodes.");
    });
  },
  hasKubectl() ? undefined : "kubectl is not on the PATH",
);
