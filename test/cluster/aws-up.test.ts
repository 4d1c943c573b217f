/**
 * A stack on EKS by the Pulumi CLI: AWS's provider is a stand-in that refuses what comes in the wrong order, and the cluster
 * that it answers with is a real API server, which the stack reaches as it would reach EKS. Charts are there already.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { POOL_LABEL } from "../../infra/plan/aws/names.ts";
import { type Call, changesOf, deletionsOf, refusedOf } from "../harness/aws/provider/account.ts";
import { StandInStack } from "../harness/aws/provider/stack.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { removeNamespace, volumeFor } from "../harness/kubernetes/scenes.ts";
import { missingPulumiPrograms } from "../harness/pulumi-programs.ts";
import { projectStackValues } from "../harness/stack-files.ts";

const NAMESPACE = "pulumi-eks";
const TOKEN = "hub-token-of-the-eks-test";
const NODE_GROUP = "aws:eks/nodeGroup:NodeGroup";

const values = {
  ...projectStackValues("Pulumi.dev.yaml"),
  namespace: NAMESPACE,
  hub: { token: TOKEN },
  cluster: {
    charts: {
      "device-plugin": "existing",
      "dcgm-exporter": "existing",
      "cluster-autoscaler": "existing",
      "load-balancer-controller": "existing",
      keda: "existing",
      "kube-prometheus-stack": "existing",
    },
  },
};
const model = { name: "gpt2-medium", model: "gpt2-medium" };
const pools = (gpuType: string) => [
  { name: "gpu", instanceType: gpuType, nodes: { min: 0, max: 1 } },
  { name: "cpu", instanceType: "m7i.xlarge" },
];

/** As the load balancer controller's chart brings it, but for its schema. */
const bindings: KubernetesObject = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "targetgroupbindings.elbv2.k8s.aws" },
  spec: {
    group: "elbv2.k8s.aws",
    scope: "Namespaced",
    names: { kind: "TargetGroupBinding", plural: "targetgroupbindings", singular: "targetgroupbinding" },
    versions: [
      {
        name: "v1beta1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        },
      },
    ],
  },
};
/** What a stack has outside of its namespace, and leaves to the end of its cluster. */
const OUTSIDE = [
  ["storage.k8s.io/v1", "StorageClass"],
  ["scheduling.k8s.io/v1", "PriorityClass"],
  ["v1", "PersistentVolume"],
] as const;

describeWithCluster(
  "a stack on EKS, by the Pulumi CLI",
  ({ api, connection }) => {
    let stack: StandInStack;
    let nodes: readonly KubernetesObject[] = [];
    let volumes: readonly KubernetesObject[] = [];

    const inNamespace = (apiVersion: string, kind: string) =>
      api.list(apiVersion, kind, { namespace: NAMESPACE });
    const uids = async () =>
      (await inNamespace("apps/v1", "Deployment")).map(({ metadata: { name, uid } }) => `${name} ${uid}`);

    beforeAll(async () => {
      stack = new StandInStack("eks", values, connection);
      const { spec } = stack.plan();
      nodes = spec.pools.flatMap((pool) => poolNodes(pool, { labels: { [POOL_LABEL]: pool.name } }));
      volumes = ["mock-data-mongo-0", "mock-data-vector-0"].map((name) =>
        volumeFor({
          apiVersion: "v1",
          kind: "PersistentVolumeClaim",
          metadata: { name, namespace: NAMESPACE },
          spec: {
            accessModes: ["ReadWriteOnce"],
            storageClassName: "engine-room-gp3",
            resources: { requests: { storage: "20Gi" } },
          },
        }),
      );
      await applyAll(api, [bindings, ...volumes]);
      await addNodes(api, nodes);
    });

    afterAll(async () => {
      try {
        await stack?.dispose();
      } finally {
        await removeNamespace(api, NAMESPACE);
        const labelSelector = `app.kubernetes.io/instance=${stack.stack.name}`;
        for (const [apiVersion, kind] of OUTSIDE)
          for (const object of await api.list(apiVersion, kind, { labelSelector })) await api.remove(object);
        for (const object of [bindings, ...volumes]) await api.remove(object);
        await removeNodes(api, nodes);
      }
    });

    test("up makes account and cluster as the preview says, and a second up changes nothing", async () => {
      const { create } = await stack.previewed();
      expect(create).toBeGreaterThan(150);
      expect(stack.account.calls()).toEqual([]);
      expect(await stack.brought()).toEqual({ create });
      expect(refusedOf(stack.account.calls())).toEqual([]);
      expect(await uids()).toHaveLength(3);
      const calls = await stack.callsOf(async () => {
        expect(await stack.brought()).toEqual({ unchanged: create });
      });
      expect(calls).toEqual([]);
    });

    test("has neither the token of the hub nor that of the cluster in its state", () => {
      const state = stack.stateFile();
      for (const secret of [TOKEN, connection.token])
        for (const form of [secret, Buffer.from(secret).toString("base64")])
          expect(state).not.toContain(form);
    });

    test("a changed model touches nothing in the account", async () => {
      const before = await uids();
      stack.configure({ ...values, models: [{ ...model, limits: { maxOutputTokens: 128 } }] });
      expect(await stack.callsOf(() => stack.brought())).toEqual([]);
      expect(await uids()).toEqual(before);
    });

    test("another instance type gives its pool a new node group before the old one goes", async () => {
      stack.configure({ ...values, pools: pools("g5.2xlarge") });
      const planned = await stack.previewed();
      const calls = await stack.callsOf(async () => {
        expect(await stack.brought()).toEqual(planned);
      });
      expect(refusedOf(calls)).toEqual([]);
      expect(new Set(calls.map(({ name }) => /^[a-z]+-machines/.exec(name)?.[0]))).toEqual(
        new Set(["gpu-machines"]),
      );
      const ofGroup = calls.filter(({ type }) => type === NODE_GROUP).map(({ operation }) => operation);
      expect(ofGroup).toEqual(["create", "delete"]);
    });

    test("down asks the cluster for what holds disks, and leaves the rest to its end", async () => {
      const calls: readonly Call[] = await stack.callsOf(() => stack.succeed("down"));
      expect(refusedOf(calls)).toEqual([]);
      expect(stack.account.live()).toEqual([]);
      expect(changesOf(calls).filter((one) => !one.startsWith("delete "))).toEqual([]);
      expect(await inNamespace("apps/v1", "StatefulSet")).toEqual([]);
      // Nobody asked the cluster for them: on EKS they go with it.
      expect(await uids()).toHaveLength(3);
      // Machines leave before their way to the internet, and the cluster after them.
      const last = Math.max(...deletionsOf(calls, NODE_GROUP));
      expect(last).toBeLessThan(Math.min(...deletionsOf(calls, "aws:eks/cluster:Cluster")));
      expect(last).toBeLessThan(Math.min(...deletionsOf(calls, "aws:ec2/natGateway:NatGateway")));
      expect(last).toBeLessThan(Math.min(...deletionsOf(calls, "aws:ec2/route:Route")));
    });
  },
  missingPulumiPrograms("kubernetes"),
);
