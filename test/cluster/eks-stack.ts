/** A stack on EKS with the tests' own cluster: creates the objects of AWS and charts there, and removes the stack's. */
import { type AddressInfo, connect, createServer } from "node:net";
import { GPU_LABEL, gpuLabel, POOL_LABEL } from "../../infra/plan/aws/context.ts";
import { CHART_NAMES } from "../../infra/plan/catalogue/aws.ts";
import type { RenderedStack } from "../../scripts/render.ts";
import type { LiveResource, Properties } from "../harness/aws/provider/account.ts";
import { StandInStack } from "../harness/aws/provider/stack.ts";
import type { ApiServer } from "../harness/kubernetes/api-server.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { claimVolumes } from "../harness/kubernetes/bring-up.ts";
import type { Connection } from "../harness/kubernetes/cluster.ts";
import { removeNamespace } from "../harness/kubernetes/cluster-setup.ts";
import { addNodes, poolNodes, removeNodes } from "../harness/kubernetes/nodes.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { stackObjects } from "../harness/kubernetes/rendered.ts";

type Values = Readonly<Record<string, unknown>>;

const CLUSTER = "aws:eks/cluster:Cluster";
const NODE_GROUP = "aws:eks/nodeGroup:NodeGroup";

/** Kinds of the load balancer controller and the secrets driver, without their schemas. No other test uses them. */
const DEFINITIONS = [
  definition("elbv2.k8s.aws", "v1beta1", "TargetGroupBinding", "targetgroupbindings"),
  definition("secrets-store.csi.x-k8s.io", "v1", "SecretProviderClass", "secretproviderclasses"),
];

/** Kinds that a stack has outside of its namespace, and leaves to the end of its cluster. */
const OUTSIDE = [
  ["storage.k8s.io/v1", "StorageClass"],
  ["scheduling.k8s.io/v1", "PriorityClass"],
  ["v1", "PersistentVolume"],
] as const;

export class EksTestStack extends StandInStack {
  readonly #api: ApiServer;
  readonly #namespace: string;
  #nodes: readonly KubernetesObject[] = [];
  #volumes: readonly KubernetesObject[] = [];

  /** @param values - `namespace` is the stack's own. */
  constructor(
    { api, connection }: { readonly api: ApiServer; readonly connection: Connection },
    { namespace, ...values }: Values & { readonly namespace: string },
  ) {
    super("eks", withCharts({ ...values, namespace }), connection);
    this.#api = api;
    this.#namespace = namespace;
  }

  override configure(values: Values): void {
    super.configure(withCharts(values));
  }

  /** Machines, and volumes, which nothing makes for claims here. */
  async prepare(): Promise<void> {
    const { resources, outputs } = JSON.parse((await this.succeed("render")).stdout) as RenderedStack;
    const sets = resources.filter(({ type }) => type === "kubernetes:apps/v1:StatefulSet");
    this.#volumes = claimVolumes(stackObjects({ resources: sets, outputs }).objects);
    await applyAll(this.#api, [...DEFINITIONS, ...this.#volumes]);
    await this.addMachines();
  }

  /** Adds missing machines of the present stack file, as the autoscaler does for waiting pods. */
  async addMachines(): Promise<void> {
    const all = this.plan().spec.pools.flatMap((pool) =>
      poolNodes(pool, {
        labels: {
          [POOL_LABEL]: pool.name,
          ...(pool.gpu === null ? {} : { [GPU_LABEL]: gpuLabel(pool.gpu.name) }),
        },
      }),
    );
    const there = new Set(this.#nodes.map(({ metadata }) => metadata.name));
    const missing = all.filter(({ metadata }) => !there.has(metadata.name));
    await addNodes(this.#api, missing);
    this.#nodes = [...this.#nodes, ...missing];
  }

  /** The node group of a pool. @throws Error unless the account has exactly one. */
  group(pool: string): LiveResource {
    const [group, another] = this.account
      .live()
      .filter(({ type, inputs }) => type === NODE_GROUP && poolOf(inputs) === pool);
    if (group === undefined || another !== undefined)
      throw new Error(
        `The account has ${group === undefined ? "no node group" : "two node groups"} of ${pool}.`,
      );
    return group;
  }

  /** Changes a group's size as the autoscaler does. */
  scaleGroup(pool: string, machines: number): void {
    const group = this.group(pool);
    const scaled = (properties: Properties) => ({
      ...properties,
      scalingConfig: { ...(properties.scalingConfig as object), desiredSize: machines },
    });
    this.account.change({ ...group, inputs: scaled(group.inputs), outputs: scaled(group.outputs) });
  }

  /** Networks of the internet that may reach the cluster's API; empty without a cluster. */
  openNetworks(): readonly string[] {
    const cluster = this.account.live().find(({ type }) => type === CLUSTER);
    return (
      (cluster?.outputs.vpcConfig as { readonly publicAccessCidrs?: readonly string[] } | undefined)
        ?.publicAccessCidrs ?? []
    );
  }

  list(apiVersion: string, kind: string): Promise<KubernetesObject[]> {
    return this.#api.list(apiVersion, kind, { namespace: this.#namespace });
  }

  /** Names and UIDs of servers; a replaced server has a new UID. */
  async deploymentUids(): Promise<readonly string[]> {
    const deployments = await this.list("apps/v1", "Deployment");
    return deployments.map(({ metadata: { name, uid } }) => `${name} ${uid}`);
  }

  /** Also removes the objects that would end with a cluster on EKS. */
  override async dispose(): Promise<void> {
    try {
      await super.dispose();
    } finally {
      await removeNamespace(this.#api, this.#namespace);
      const labelSelector = `app.kubernetes.io/instance=${this.stack.name}`;
      for (const [apiVersion, kind] of OUTSIDE)
        for (const object of await this.#api.list(apiVersion, kind, { labelSelector }))
          await this.#api.remove(object);
      for (const object of [...this.#volumes, ...DEFINITIONS]) await this.#api.remove(object);
      await removeNodes(this.#api, this.#nodes);
    }
  }
}

/** A proxy of a cluster's API that cuts connections unless `isOpen`, as EKS does outside its networks. */
export async function apiGate(
  { server }: Connection,
  isOpen: () => boolean,
): Promise<{ readonly server: string; close(): void }> {
  const { hostname, port } = new URL(server);
  const gate = createServer((client) => {
    if (!isOpen()) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream])
      socket.on("error", () => {
        client.destroy();
        upstream.destroy();
      });
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => gate.listen(0, "127.0.0.1", resolve));
  return {
    server: `https://127.0.0.1:${(gate.address() as AddressInfo).port}`,
    close: () => gate.close(),
  };
}

function poolOf({ labels }: Properties): string | undefined {
  return (labels as Readonly<Record<string, string>>)[POOL_LABEL];
}

/** Charts can't be fetched here; the cluster has the definitions of their kinds. */
function withCharts(values: Values): Values {
  return {
    ...values,
    cluster: { charts: Object.fromEntries(CHART_NAMES.map((name) => [name, "existing"])) },
  };
}

function definition(group: string, version: string, kind: string, plural: string): KubernetesObject {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, singular: kind.toLowerCase() },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
        },
      ],
    },
  };
}
