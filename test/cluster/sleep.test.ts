/** Servers that go to zero and come back, on a real API server with its own controllers; there is no KEDA beside them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubernetesStack } from "../../infra/plan/kubernetes/types.ts";
import { clusterProbe } from "../../scripts/cluster/kubectl.ts";
import { PAUSED_REPLICAS } from "../../scripts/cluster/scaled-objects.ts";
import {
  applyChanges,
  readServers,
  type ServerChange,
  type ServerReading,
  sleepChanges,
  wakeChanges,
} from "../../scripts/cluster/sleep.ts";
import { workloadStatuses } from "../../scripts/cluster/workload-states.ts";
import { readClusterTarget } from "../../scripts/program/cluster-target.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { bringUp, claimVolumes } from "../harness/kubernetes/bring-up.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { hasKubectl } from "../harness/kubernetes/kubectl.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import { conditionOf, type KubernetesObject } from "../harness/kubernetes/objects.ts";
import { renderedObjects } from "../harness/kubernetes/rendered.ts";
import { removeNamespace } from "../harness/kubernetes/scenes.ts";
import { poolsOf } from "../harness/kubernetes/stack-files.ts";
import { deploymentAvailable, waitFor } from "../harness/kubernetes/waits.ts";
import { stackFileText } from "../harness/stack-files.ts";

const NAMESPACE = "sleeping";

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

    const before = process.env.KUBECONFIG;
    beforeAll(async () => {
      process.env.KUBECONFIG = connection.kubeconfig;
      await addNodes(api, nodes);
    });
    afterAll(async () => {
      if (before === undefined) delete process.env.KUBECONFIG;
      else process.env.KUBECONFIG = before;
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
    const target = () => readClusterTarget(stackReference("tests", file));
    /** As the commands do it. @returns The table's rows. */
    async function change(of: (stack: KubernetesStack, reading: ServerReading) => readonly ServerChange[]) {
      const { stack } = target();
      const probe = clusterProbe(stack.context);
      const changes = of(stack, await readServers(stack, probe));
      await applyChanges(probe, changes);
      return changes.map(({ server, from, to }) => [server, from, to]);
    }
    const sleep = () => change(sleepChanges);
    const wake = () => change((stack, reading) => wakeChanges(stack, reading, () => null));
    const states = async () => {
      const { stack } = target();
      const all = await workloadStatuses(stack, clusterProbe(stack.context));
      return all
        .filter(({ name }) => stack.models.some((one) => one.name === name))
        .map(({ state }) => state);
    };

    /** Returns when all pods are ready. */
    async function up(models: readonly object[], rest: object = {}): Promise<void> {
      writeFileSync(file, stackFileText({ ...STACK, ...rest, models }));
      // What neither sleeps nor is a server's stays away, to be quick.
      objects = (await renderedObjects(file)).objects.filter(
        ({ kind, metadata }) => kind !== "StatefulSet" && metadata.name !== "encoders",
      );
      await bringUp(api, objects);
    }

    test("a server that nobody owns, and servers that KEDA owns", async () => {
      await up([
        model("plain", { replicas: 2 }),
        model("kept", { replicas: 2, minReplicas: 1 }),
        model("lazy", { replicas: 2, minReplicas: 0 }),
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
  hasKubectl() ? undefined : "kubectl is not on the PATH",
);
