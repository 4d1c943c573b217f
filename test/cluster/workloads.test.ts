/**
 * The behaviour of Kubernetes' own controllers and scheduler that a stack depends on, on nodes like those of an
 * example.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiError } from "../harness/kubernetes/api-server.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { failingJob } from "../harness/kubernetes/builds.ts";
import {
  addNamespace,
  removeNamespace,
  restrictedNamespace,
  volumeFor,
} from "../harness/kubernetes/cluster-setup.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import { conditionOf, type KubernetesObject } from "../harness/kubernetes/objects.ts";
import {
  claimBound,
  deploymentAvailable,
  eventsOf,
  jobComplete,
  removeAndWait,
  statefulSetReady,
  unschedulable,
  waitFor,
} from "../harness/kubernetes/waiting.ts";
import { eventually } from "../harness/stack.ts";
import {
  changed,
  claim,
  database,
  defaultDeny,
  disruptionBudget,
  engineBuild,
  examplePools,
  server,
  service,
} from "./sample-objects.ts";

const NAMESPACE = "workloads";

describeWithCluster("workloads of a stack", ({ api }) => {
  const nodes = examplePools.flatMap((pool) => poolNodes(pool));
  const store = claim(NAMESPACE);
  const volume = volumeFor(store);

  beforeAll(async () => {
    await addNodes(api, nodes);
    await addNamespace(api, restrictedNamespace(NAMESPACE));
    await applyAll(api, [volume, store, defaultDeny(NAMESPACE)]);
  });

  afterAll(async () => {
    await removeNamespace(api, NAMESPACE);
    await api.remove(volume);
    await removeNodes(api, nodes);
  });

  const podsOf = (app: string) =>
    api.list("v1", "Pod", { namespace: NAMESPACE, labelSelector: `app=${app}` });
  const engineOf = ({ metadata }: KubernetesObject) => metadata.annotations?.engine;

  /** Returns when all pods of the server are gone, and their GPUs free. */
  async function removeServer(owner: KubernetesObject): Promise<void> {
    await api.remove(owner);
    await eventually(async () => {
      const left = await podsOf(owner.metadata.name);
      return left.length === 0 ? true : undefined;
    });
  }

  // Tests that use no GPU, or only for a moment, run together: a failed pod is retried after 10 s.
  test.concurrent("a claim binds to the volume that refers to it", async () => {
    const { spec } = await claimBound(api, store);
    expect((spec as { volumeName: string }).volumeName).toBe(volume.metadata.name);
  });

  test.concurrent("a build completes on a node of its pool", async () => {
    const build = engineBuild(NAMESPACE, "llama-aaaaaaaaaaaa", 1);
    await applyAll(api, [build]);
    await jobComplete(api, build);
    const [pod] = await podsOf("llama-aaaaaaaaaaaa");
    expect((pod?.spec as { nodeName?: string } | undefined)?.nodeName).toBe("gpu-0");
  });

  test.concurrent("a failed build is retried, except with an exit code that rules a retry out", async () => {
    const hopeless = failingJob(engineBuild(NAMESPACE, "hopeless", 1), 3);
    const unlucky = failingJob(engineBuild(NAMESPACE, "unlucky", 1), 1);
    await applyAll(api, [hopeless, unlucky]);
    const failed = async (job: KubernetesObject) => {
      const now = await waitFor(
        api,
        job,
        (one) => conditionOf(one, "Failed")?.status === "True" || "not failed",
      );
      const { failed: tries } = now.status as { readonly failed: number };
      return [conditionOf(now, "Failed")?.reason, tries];
    };
    expect(await failed(hopeless)).toEqual(["PodFailurePolicy", 1]);
    expect(await failed(unlucky)).toEqual(["BackoffLimitExceeded", 2]);
  });

  test.concurrent("a failed Job can be created again under its name once it is removed", async () => {
    const build = engineBuild(NAMESPACE, "retried", 1);
    const failing = failingJob(build, 3);
    await applyAll(api, [failing]);
    await expect(jobComplete(api, failing)).rejects.toThrow(/failed: PodFailurePolicy/);
    // Its template can't change.
    await expect(applyAll(api, [build])).rejects.toThrow(/field is immutable/);
    await removeAndWait(api, build);
    await applyAll(api, [build]);
    await jobComplete(api, build);
  });

  test.concurrent("the claim of a removed database stays, and the next database of its name binds it again", async () => {
    const set = database(NAMESPACE, "mongo");
    const own: KubernetesObject = {
      ...claim(NAMESPACE),
      metadata: { name: "data-mongo-0", namespace: NAMESPACE },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Gi" } } },
    };
    const disk = volumeFor(own);
    try {
      await applyAll(api, [disk, set]);
      await statefulSetReady(api, set);
      const { metadata } = await claimBound(api, own);
      await removeServer(set);
      await applyAll(api, [set]);
      await statefulSetReady(api, set);
      expect((await claimBound(api, own)).metadata.uid).toBe(metadata.uid);
      await removeServer(set);
    } finally {
      await api.remove(disk);
    }
  });

  test.concurrent("a build with too many GPUs or no toleration waits, and the scheduler gives the reason", async () => {
    const large = engineBuild(NAMESPACE, "large", 4);
    const intolerant = changed(engineBuild(NAMESPACE, "intolerant", 1), "spec.template.spec.tolerations", []);
    await applyAll(api, [large, intolerant]);
    expect(await unschedulable(api, NAMESPACE, "app=large")).toMatch(
      /^0\/1 nodes are available: 1 Insufficient nvidia\.com\/gpu\./,
    );
    expect(await unschedulable(api, NAMESPACE, "app=intolerant")).toMatch(
      /^0\/1 nodes are available: 1 node\(s\) had untolerated taint/,
    );
    await Promise.all([large, intolerant].map((job) => api.remove(job)));
  });

  test.concurrent("a server whose pods could become root is accepted with a warning and gets no pods", async () => {
    const rootful = changed(server(NAMESPACE, "rootful"), "spec.template.spec.securityContext", undefined);
    const warnings = await applyAll(api, [rootful]);
    expect(Object.values(warnings).flat()).toEqual([
      expect.stringMatching(
        /^would violate PodSecurity "restricted:latest": runAsNonRoot != true .*seccompProfile/,
      ),
    ]);
    await expect(deploymentAvailable(api, rootful)).rejects.toThrow(
      /has no pods: pods "rootful-.*" is forbidden: violates PodSecurity "restricted:latest"/,
    );
    expect(
      (await eventsOf(api, NAMESPACE)).some((line) =>
        line.startsWith("Warning FailedCreate ReplicaSet/rootful"),
      ),
    ).toBe(true);
    await api.remove(rootful);
  });

  test.concurrent("a pod that could become root is refused", async () => {
    const { template } = server(NAMESPACE, "pod").spec as { readonly template: { readonly spec: object } };
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "pod", namespace: NAMESPACE },
      spec: template.spec,
    };
    const refused = api.apply(changed(pod, "spec.securityContext", undefined));
    await expect(refused).rejects.toThrow(ApiError);
    await expect(refused).rejects.toMatchObject({ status: 403, reason: "Forbidden" });
  });

  test.concurrent("a server above the quota of its namespace gets no pods", async () => {
    // A separate namespace: a quota is for all of a namespace.
    const namespace = `${NAMESPACE}-quota`;
    await addNamespace(api, restrictedNamespace(namespace));
    const quota: KubernetesObject = {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name: "stack", namespace },
      spec: { hard: { "requests.nvidia.com/gpu": "1" } },
    };
    await applyAll(api, [quota]);
    await waitFor(
      api,
      quota,
      ({ status }) => (status as { hard?: object }).hard !== undefined || "no status",
    );
    const deployment = server(namespace, "over", { gpus: 2 });
    await applyAll(api, [deployment]);
    await expect(deploymentAvailable(api, deployment)).rejects.toThrow(/exceeded quota: stack/);
    await removeNamespace(api, namespace);
  });

  test("a server becomes available behind its Service, and its disruption budget allows one eviction at a time", async () => {
    const deployment = server(NAMESPACE, "llama", { replicas: 2 });
    const objects = [deployment, service(NAMESPACE, "llama"), disruptionBudget(NAMESPACE, "llama")];
    expect(await applyAll(api, objects)).toEqual({});
    await deploymentAvailable(api, deployment);

    const addresses = await eventually(async () => {
      const selection = { namespace: NAMESPACE, labelSelector: "kubernetes.io/service-name=llama" };
      const [slice] = await api.list("discovery.k8s.io/v1", "EndpointSlice", selection);
      const { endpoints } = slice as unknown as {
        readonly endpoints: readonly { addresses: string[] }[] | null;
      };
      return endpoints?.length === 2 ? endpoints.flatMap((endpoint) => endpoint.addresses) : undefined;
    });
    const pods = await podsOf("llama");
    expect(addresses.toSorted()).toEqual(
      pods.map(({ status }) => (status as { podIP: string }).podIP).toSorted(),
    );

    await waitFor(api, disruptionBudget(NAMESPACE, "llama"), ({ status }) => {
      const { disruptionsAllowed } = status as { readonly disruptionsAllowed?: number };
      return disruptionsAllowed === 1 || `it allows ${disruptionsAllowed}`;
    });
    const [node] = nodes as [KubernetesObject];
    await api.patch(node, { spec: { unschedulable: true } });
    const [first, second] = pods as [KubernetesObject, KubernetesObject];
    await api.evict(first);
    await expect(api.evict(second)).rejects.toMatchObject({
      status: 429,
      message: expect.stringContaining("would violate the pod's disruption budget"),
    });
    await api.patch(node, { spec: { unschedulable: null } });
    await deploymentAvailable(api, deployment);
    await removeServer(deployment);
  });

  test("without a free GPU a surging roll-out waits, and a roll-out in place does not", async () => {
    const surging = server(NAMESPACE, "surging", { gpus: 2 });
    await applyAll(api, [surging]);
    await deploymentAvailable(api, surging);
    await applyAll(api, [server(NAMESPACE, "surging", { gpus: 2, engine: "second" })]);
    expect(await unschedulable(api, NAMESPACE, "app=surging")).toContain("1 Insufficient nvidia.com/gpu");
    const [serving] = (await podsOf("surging")).filter((pod) => conditionOf(pod, "Ready")?.status === "True");
    expect(serving && engineOf(serving)).toBe("first");
    await removeServer(surging);

    const inPlace = server(NAMESPACE, "in-place", { gpus: 2, rollout: "inPlace" });
    await applyAll(api, [inPlace]);
    await deploymentAvailable(api, inPlace);
    await applyAll(api, [server(NAMESPACE, "in-place", { gpus: 2, rollout: "inPlace", engine: "second" })]);
    await deploymentAvailable(api, inPlace);
    expect((await podsOf("in-place")).map(engineOf)).toEqual(["second"]);
    await removeServer(inPlace);
  });
});
