/** Servers that go to zero and come back, on a real API server with its own controllers; there is no KEDA beside them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { PAUSED_REPLICAS } from "../../scripts/cluster/scaled-objects.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { run } from "../harness/docker/run.ts";
import { bringUp, claimVolumes } from "../harness/kubernetes/bring-up.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { hasKubectl } from "../harness/kubernetes/kubectl.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import { conditionOf, type KubernetesObject } from "../harness/kubernetes/objects.ts";
import { renderedObjects } from "../harness/kubernetes/rendered.ts";
import { removeNamespace } from "../harness/kubernetes/scenes.ts";
import { poolsOf } from "../harness/kubernetes/stack-pools.ts";
import { deploymentAvailable, waitFor } from "../harness/kubernetes/waits.ts";

const NAMESPACE = "sleeping";
/** Seconds on a machine with nothing else to do. */
const TIMEOUT_SECONDS = 240;

const model = (name: string, rest: object = {}) => ({ name, model: "smollm2-135m-instruct", ...rest });

const STACK = {
  platform: "kubernetes",
  tier: "cpu",
  context: "tests",
  namespace: NAMESPACE,
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

    beforeAll(() => addNodes(api, nodes));
    afterAll(async () => {
      await removeNodes(api, nodes);
      rmSync(folder, { recursive: true });
    });
    afterEach(async () => {
      for (const volume of claimVolumes(objects)) await api.remove(volume);
      for (const object of objects)
        if (object.metadata.namespace === undefined && object.kind !== "Namespace") await api.remove(object);
      await removeNamespace(api, NAMESPACE);
    });

    const deployment = (name: string) => ({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name, namespace: NAMESPACE },
    });
    const scaledObject = (name: string) => ({
      ...deployment(name),
      apiVersion: "keda.sh/v1alpha1",
      kind: "ScaledObject",
    });
    const podsOf = async (name: string) => {
      const labelSelector = `engine-room/model=${name}`;
      return (await api.list("v1", "Pod", { namespace: NAMESPACE, labelSelector })).length;
    };
    const annotation = async (name: string) =>
      (await api.get(scaledObject(name)))?.metadata.annotations?.[PAUSED_REPLICAS];
    const engineRoom = (command: string) =>
      run(
        [process.execPath, "scripts/cli.mjs", command, "--stack", "tests", "--config-file", file],
        TIMEOUT_SECONDS,
        { cwd: projectRoot, environment: { ...process.env, KUBECONFIG: connection.kubeconfig } },
      );

    /** Returns when all pods are ready. */
    async function up(models: readonly object[], rest: object = {}): Promise<void> {
      const values = Object.entries({ ...STACK, ...rest, models });
      writeFileSync(
        file,
        stringify({
          config: Object.fromEntries(values.map(([key, value]) => [`engine-room:${key}`, value])),
        }),
      );
      ({ objects } = await renderedObjects(file));
      await bringUp(api, objects);
    }

    test("a server that nobody owns, and servers that KEDA owns", async () => {
      await up([
        model("plain", { replicas: 2 }),
        model("kept", { replicas: 2, minReplicas: 1 }),
        model("lazy", { replicas: 2, minReplicas: 0 }),
      ]);
      expect(await engineRoom("sleep")).toMatch(/plain +2 +0\nkept +1 +0\nlazy +1 +0\n/);
      for (const name of ["plain", "kept", "lazy"]) await deploymentAvailable(api, deployment(name));
      expect(await Promise.all(["plain", "kept", "lazy"].map(podsOf))).toEqual([0, 0, 0]);
      await deploymentAvailable(api, deployment("gateway"));
      expect(await annotation("kept")).toBe("0");
      expect(await annotation("lazy")).toBe("0");

      expect(await engineRoom("status")).toMatch(/plain +SLEEPING(.|\n)*kept +SLEEPING(.|\n)*lazy +SLEEPING/);
      expect(await engineRoom("sleep")).toMatch(/plain +0 +0 +sleeps already/);

      expect(await engineRoom("wake")).toMatch(
        /plain +0 +2 +starts\nkept +0 +1 +starts\nlazy +0 +0 +starts when/,
      );
      for (const name of ["plain", "kept"]) await deploymentAvailable(api, deployment(name));
      expect(await Promise.all(["plain", "kept", "lazy"].map(podsOf))).toEqual([2, 1, 0]);
      expect(await annotation("kept")).toBeUndefined();
      expect(await annotation("lazy")).toBeUndefined();
      expect(await engineRoom("status")).toMatch(/plain +RUNNING(.|\n)*kept +RUNNING(.|\n)*lazy +IDLE/);
    });

    test("a server that a HorizontalPodAutoscaler owns, which leaves it alone meanwhile", async () => {
      await up([model("served", { replicas: 3, minReplicas: 2 })], { autoscaling: { mechanism: "hpa" } });
      const autoscaler = {
        apiVersion: "autoscaling/v2",
        kind: "HorizontalPodAutoscaler",
        metadata: { name: "served", namespace: NAMESPACE },
      };
      const active = (isActive: boolean) =>
        waitFor(api, autoscaler, (found) => {
          const condition = conditionOf(found, "ScalingActive");
          const isDisabled = condition?.status === "False" && condition.reason === "ScalingDisabled";
          return (condition !== undefined && isDisabled !== isActive) || JSON.stringify(condition);
        });
      await active(true);

      await engineRoom("sleep");
      await active(false);
      await deploymentAvailable(api, deployment("served"));
      expect(await podsOf("served")).toBe(0);

      expect(await engineRoom("wake")).toMatch(/served +0 +2 +starts/);
      await deploymentAvailable(api, deployment("served"));
      expect(await podsOf("served")).toBe(2);
      await active(true);
    });
  },
  hasKubectl() ? undefined : "kubectl is not on the PATH",
);
