/** The project's commands that use kubectl, with a real kubectl and a real API server with its own controllers. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { type ClusterProbe, clusterProbe } from "../../scripts/cluster/kubectl.ts";
import { changeServers } from "../../scripts/cluster/sleep.ts";
import { PAUSED_REPLICAS, workloadStatuses } from "../../scripts/cluster/workloads.ts";
import { startPortForwards } from "../../scripts/connect/connected-stack.ts";
import { type Forward, kubectlForwards } from "../../scripts/connect/forwards.ts";
import { clusterPreflight } from "../../scripts/preflight/cluster.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { type ClusterTarget, clusterTarget, readClusterTarget } from "../../scripts/program/targets.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { bringUp, claimVolumes } from "../harness/kubernetes/bring-up.ts";
import { POD_PORT } from "../harness/kubernetes/cluster.ts";
import { addNamespace, removeNamespace, restrictedNamespace } from "../harness/kubernetes/cluster-setup.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { hasKubectl } from "../harness/kubernetes/kubectl.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import { conditionOf, type KubernetesObject } from "../harness/kubernetes/objects.ts";
import { renderedObjects } from "../harness/kubernetes/rendered.ts";
import { poolsOf } from "../harness/kubernetes/stack-files.ts";
import {
  deploymentAvailable,
  namespaceReady,
  removeAndWait,
  waitFor,
} from "../harness/kubernetes/waiting.ts";
import { freePorts } from "../harness/ports.ts";
import { eventually } from "../harness/stack.ts";
import { stackFileText } from "../harness/stack-files.ts";

const NO_KUBECTL = hasKubectl() ? undefined : "kubectl is not on the PATH";

const FILE = join(projectRoot, "Pulumi.onprem.yaml");

/** The server reads its registrations every few seconds. */
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
    beforeAll(async () => {
      vi.stubEnv("KUBECONFIG", connection.kubeconfig);
      await addNodes(api, nodes);
    });
    afterAll(async () => {
      await removeNodes(api, nodes);
      vi.unstubAllEnvs();
    });
    // Other tests check registries.
    const preflight = async (of: ClusterTarget, probe: ClusterProbe) => {
      const checks = await clusterPreflight({ ...of, imageProblems: [] }, probe, async () => ({
        kind: "present",
      }));
      return checks.flatMap(({ findings }) => findings);
    };
    const whats = async (context: string | null, of: ClusterTarget = target) =>
      (await preflight(of, clusterProbe(context))).map(({ check, what }) => `${check}: ${what}`);
    /** A stack without a file, checked like a stack file. */
    const stackOf = (values: object) => {
      const { plan: planned } = checkedPlan({ platform: "kubernetes", ...values });
      if (planned.platform !== "kubernetes") throw new Error("no stack in a cluster");
      return clusterTarget(planned, "tests");
    };
    const kinds = async (values: object) =>
      (await whats("tests", stackOf(values))).filter((words) => words.startsWith("kinds"));

    test("preflight finds machines, rights and kinds, and reports missing storage classes and registries", async () => {
      expect(await whats("tests")).toEqual([
        "storageClass: There is no class nfs-client.",
        "storageClass: The cluster has no default class for databaseStorage.storageClass.",
        "images: No registry answers at registry.example.org.",
      ]);
    });

    test("preflight looks for kinds of operators only if the stack needs them", async () => {
      const { models, pools, engineStore } = GPU_STACK;
      expect(await kinds(GPU_STACK)).toEqual([]);
      // The definitions of KEDA, the operator and the Gateway API are installed; a metrics server and cert-manager are
      // missing.
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
      ).toEqual(["kinds: The cluster does not know cert-manager.io/v1."]);
    });

    test("preflight reports a metrics server that is missing or does not answer", async () => {
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

    test("preflight counts the room that other pods leave to a stack without GPUs", async () => {
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
          expect.stringMatching(
            /^room: Pods of the stack that need no GPU find no machine now: .* it keeps 5\)/,
          ),
        ]);
      } finally {
        await removeAndWait(api, others);
        await removeNodes(api, own);
      }
    });

    test("preflight reports the quota of a namespace that refuses the stack's pods, and the namespace that is missing", async () => {
      const namespace = "preflight-quota";
      const values = {
        ...{ tier: "cpu", namespace, createNamespace: false },
        models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
      };
      const judged = async () =>
        (await whats("tests", stackOf(values))).filter((words) =>
          /^(quota|namespace|objects|admission)/.test(words),
        );
      expect(await judged()).toEqual([`namespace: There is no namespace ${namespace}.`]);
      const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
      const quota = {
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { name: "team", namespace },
        spec: { hard: { pods: "0" } },
      };
      await api.create(object);
      try {
        await namespaceReady(api, object);
        expect(await judged()).toEqual([]);
        await api.create(quota);
        await eventually(
          async () =>
            isDeepStrictEqual(await judged(), ["quota: The quota team refuses pods of the stack."]) ||
            undefined,
          ANSWER_TIMEOUT_SECONDS,
        );
      } finally {
        await removeNamespace(api, namespace);
      }
    });

    test("preflight reports a context that the kubeconfig lacks", async () => {
      expect(await whats("elsewhere")).toEqual([
        "server: kubectl has no access to the cluster of the context elsewhere.",
      ]);
    });

    test("a kubeconfig that selects no context is reported, and localhost gets no request", async () => {
      const kubeconfig = process.env.KUBECONFIG;
      process.env.KUBECONFIG = join(tmpdir(), "engine-room-no-such-kubeconfig");
      try {
        const { exitCode, stderr } = await clusterProbe(null).kubectl(["get", "nodes"]);
        expect({ exitCode, stderr }).toEqual({
          exitCode: 1,
          stderr: "no configuration has been provided: the kubeconfig selects no context",
        });
      } finally {
        process.env.KUBECONFIG = kubeconfig;
      }
    });

    test("status reports every workload of an absent stack as missing", async () => {
      const statuses = await workloadStatuses(target.stack, clusterProbe("tests"));
      expect(statuses.length).toBeGreaterThan(0);
      expect(new Set(statuses.map(({ state }) => state))).toEqual(new Set(["MISSING"]));
    });

    test("preflight lists the missing rights of a user without any", async () => {
      const probe = clusterProbe("tests");
      const asNobody = {
        ...probe,
        kubectl: (args: readonly string[], input?: string) =>
          probe.kubectl([...args, "--as", "nobody", "--as-group", "system:authenticated"], input),
      };
      const found = await preflight(target, asNobody);
      expect(found.map(({ what }) => what)).toContain("You may not patch deployments.apps.");
      expect(found.map(({ what }) => what)).toContain("You may not list nodes.");
    });
  },
  NO_KUBECTL,
);

const smollm2 = (name: string, rest: object = {}) => ({ name, model: "smollm2-135m-instruct", ...rest });

const SLEEPING_STACK = {
  platform: "kubernetes",
  tier: "cpu",
  context: "tests",
  databaseStorage: { sizeGiB: 1 },
};

describeWithCluster(
  "sleep and wake",
  ({ api, connection }) => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-sleep-"));
    const file = join(folder, "stack.yaml");
    const nodes = poolsOf(join(projectRoot, "Pulumi.onprem.yaml"))
      .filter(({ gpu }) => gpu === null)
      .flatMap((pool) => poolNodes(pool));
    let objects: readonly KubernetesObject[] = [];
    let namespace = "";

    beforeAll(async () => {
      vi.stubEnv("KUBECONFIG", connection.kubeconfig);
      await addNodes(api, nodes);
    });
    afterAll(async () => {
      vi.unstubAllEnvs();
      await removeNodes(api, nodes);
      rmSync(folder, { recursive: true });
    });
    afterEach(async () => {
      for (const volume of claimVolumes(objects)) await api.remove(volume);
      for (const object of objects)
        if (object.metadata.namespace === undefined && object.kind !== "Namespace") await api.remove(object);
      await removeNamespace(api, namespace);
    });

    const deployment = (name: string) => ({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name, namespace },
    });
    const scaledObject = (name: string) => ({
      ...deployment(name),
      apiVersion: "keda.sh/v1alpha1",
      kind: "ScaledObject",
    });
    const podsOf = async (name: string) => {
      const labelSelector = `engine-room/model=${name}`;
      return (await api.list("v1", "Pod", { namespace, labelSelector })).length;
    };
    const annotation = async (name: string) =>
      (await api.get(scaledObject(name)))?.metadata.annotations?.[PAUSED_REPLICAS];
    const target = () => readClusterTarget(stackReference("tests", file));
    /** Calls the function behind the command. @returns The table's rows. */
    async function change(direction: "sleep" | "wake") {
      const cluster = target();
      const changes = await changeServers(cluster, clusterProbe(cluster.stack.context), direction);
      return changes.map(({ server, from, to }) => [server, from, to]);
    }
    const sleep = () => change("sleep");
    const wake = () => change("wake");
    const states = async () => {
      const { stack } = target();
      const all = await workloadStatuses(stack, clusterProbe(stack.context));
      return all
        .filter(({ name }) => stack.models.some((one) => one.name === name))
        .map(({ state }) => state);
    };

    /** Returns when all pods are ready. @param own - A namespace that no other test uses: its end takes seconds. */
    async function up(own: string, models: readonly object[], rest: object = {}): Promise<void> {
      namespace = own;
      writeFileSync(file, stackFileText({ ...SLEEPING_STACK, ...rest, namespace, models }));
      // Only servers, to be quick.
      objects = (await renderedObjects(file)).objects.filter(
        ({ kind, metadata }) => kind !== "StatefulSet" && metadata.name !== "encoders",
      );
      await bringUp(api, objects);
    }

    test("servers with a fixed number of replicas and servers that KEDA scales go to zero and wake again", async () => {
      await up("sleeping", [
        smollm2("plain", { replicas: 2 }),
        smollm2("kept", { replicas: 2, minReplicas: 1 }),
        smollm2("lazy", { replicas: 2, minReplicas: 0 }),
      ]);
      expect(await sleep()).toEqual([
        ["plain", 2, 0],
        ["kept", 1, 0],
        ["lazy", 1, 0],
      ]);
      for (const name of ["plain", "kept", "lazy"]) await deploymentAvailable(api, deployment(name));
      expect(await Promise.all(["plain", "kept", "lazy"].map(podsOf))).toEqual([0, 0, 0]);
      await deploymentAvailable(api, deployment("gateway"));
      expect(await Promise.all(["kept", "lazy"].map(annotation))).toEqual(["0", "0"]);
      expect(await states()).toEqual(["SLEEPING", "SLEEPING", "SLEEPING"]);

      expect(await sleep()).toEqual([
        ["plain", 0, 0],
        ["kept", 0, 0],
        ["lazy", 0, 0],
      ]);

      expect(await wake()).toEqual([
        ["plain", 0, 2],
        ["kept", 0, 1],
        ["lazy", 0, 0],
      ]);
      for (const name of ["plain", "kept"]) await deploymentAvailable(api, deployment(name));
      expect(await Promise.all(["plain", "kept", "lazy"].map(podsOf))).toEqual([2, 1, 0]);
      expect(await Promise.all(["kept", "lazy"].map(annotation))).toEqual([undefined, undefined]);
      expect(await states()).toEqual(["RUNNING", "RUNNING", "IDLE"]);
    });

    test("a HorizontalPodAutoscaler does not change a server at zero until it wakes", async () => {
      await up("sleeping-hpa", [smollm2("served", { replicas: 3, minReplicas: 2 })], {
        autoscaling: { mechanism: "hpa" },
      });
      const autoscaler = {
        apiVersion: "autoscaling/v2",
        kind: "HorizontalPodAutoscaler",
        metadata: { name: "served", namespace },
      };
      const active = (isActive: boolean) =>
        waitFor(api, autoscaler, (found) => {
          const condition = conditionOf(found, "ScalingActive");
          const isDisabled = condition?.status === "False" && condition.reason === "ScalingDisabled";
          return (condition !== undefined && isDisabled !== isActive) || JSON.stringify(condition);
        });
      await active(true);

      expect(await sleep()).toEqual([["served", 2, 0]]);
      await active(false);
      await deploymentAvailable(api, deployment("served"));
      expect(await podsOf("served")).toBe(0);

      expect(await wake()).toEqual([["served", 0, 2]]);
      await deploymentAvailable(api, deployment("served"));
      expect(await podsOf("served")).toBe(2);
      await active(true);
    });
  },
  NO_KUBECTL,
);

const FORWARDED = "port-forward";
const FORWARD_TIMEOUT_SECONDS = 60;

describeWithCluster(
  "kubectl port-forward",
  ({ api, connection }) => {
    let server: Server;
    let localPort: number;
    let forwards: readonly Forward[];
    const lines: string[] = [];
    const labels = { app: "gateway" };
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "gateway", namespace: FORWARDED, labels },
      spec: {
        nodeName: "forwarding",
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "main",
            image: "registry.example.org/gateway:1",
            ports: [{ name: "http", containerPort: POD_PORT }],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
          },
        ],
      },
    };
    const node = {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "forwarding" },
      status: { allocatable: { cpu: "4", memory: "8Gi", pods: "10" } },
    };

    beforeAll(async () => {
      server = createServer((request, response) => response.end(`answer of ${request.url}`));
      await listen();
      await addNamespace(api, restrictedNamespace(FORWARDED));
      await api.create(node);
      await api.create({
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "gateway", namespace: FORWARDED },
        spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: "http" }] },
      });
      await api.create(pod);
      await eventually(async () => {
        const { status } = ((await api.get(pod)) ?? {}) as { readonly status?: { readonly phase?: string } };
        return status?.phase === "Running" ? true : undefined;
      }, FORWARD_TIMEOUT_SECONDS);
    });
    afterAll(async () => {
      await removeNamespace(api, FORWARDED);
      await api.remove(node);
      server.closeAllConnections();
      server.close();
    });

    beforeEach(async () => {
      vi.stubEnv("KUBECONFIG", connection.kubeconfig);
      [localPort = 0] = await freePorts(1);
      forwards = [forward("gateway")];
      lines.length = 0;
    });
    afterEach(() => vi.unstubAllEnvs());

    const forward = (service: string): Forward => ({
      name: "gateway",
      address: `http://${service}.${FORWARDED}.svc:80`,
      host: `${service}.${FORWARDED}.svc`,
      port: 80,
      localPort,
      localAddress: `http://127.0.0.1:${localPort}`,
    });
    const start = (context: string | null = null, all = forwards) =>
      startPortForwards(kubectlForwards(context, all), (line) => lines.push(line));
    const ask = () =>
      fetch(`http://127.0.0.1:${localPort}/ready`, { headers: { connection: "close" } }).then(
        (response) => response.text(),
        () => undefined,
      );
    const listen = () =>
      new Promise<void>((resolve) => server.listen(connection.podPort, "127.0.0.1", resolve));

    test("forwarding a missing Service fails with the message of kubectl", async () => {
      await expect(start(null, [forward("elsewhere")])).rejects.toThrow(
        /^The Service elsewhere can't be forwarded: .*services "elsewhere" not found\n/,
      );
    });

    test("forwarding by a context that the kubeconfig lacks fails with a message about the context", async () => {
      await expect(start("elsewhere")).rejects.toThrow(/context/);
    });

    test("forwarding without an API server fails with the message that no server answers", async () => {
      vi.stubEnv("KUBECONFIG", "/dev/null");
      await expect(start()).rejects.toThrow(
        /^kubectl has no access to the cluster of the current context\. .*refused/,
      );
    });

    test("a forwarded Service leads to the port of its pod, and is forwarded again after a refused connection", async () => {
      const forwarder = await start();
      try {
        expect(await ask()).toBe("answer of /ready");
        await new Promise((resolve) => server.close(resolve));
        expect(await ask()).toBeUndefined();
        await listen();
        await eventually(async () => (await ask()) ?? undefined, FORWARD_TIMEOUT_SECONDS);
        expect(lines).toEqual([
          expect.stringMatching(
            /^gateway: .*(lost connection to pod|error forwarding port|connection refused).*; again in 1 s\.$/,
          ),
          "gateway: forwarded again.",
        ]);
      } finally {
        await forwarder.stop();
      }
      expect(await ask()).toBeUndefined();
    });
  },
  NO_KUBECTL,
);
