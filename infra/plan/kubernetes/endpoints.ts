/** Where a stack in a cluster answers, and what its users have to know. */
import { cpuWeightNotes } from "../cpu-stack.ts";
import { DATABASE_PORTS } from "../database-servers.ts";
import { type Endpoints, tritonEndpoints } from "../endpoints.ts";
import type { ClusterGpuPlan } from "../gpu-stack.ts";
import { TRITON_PORTS } from "../repository/launch.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { GATEWAY } from "./gateway.ts";
import { USER_ID } from "./pod.ts";
import { ENCODERS } from "./servers.ts";

/** Names of Services as every pod of the cluster resolves them, whatever the cluster's domain is. */
export function clusterEndpoints(plan: ClusterPlan): Endpoints {
  const { cluster, gateway, encoders } = plan;
  const host = (service: string) => `${service}.${cluster.namespace.name}.svc`;
  return {
    gateway: ingressUrl(plan) ?? `http://${host(GATEWAY)}:${gateway.port}`,
    gatewayReach: "cluster",
    gatewayDnsName: null,
    ...databaseEndpoints(plan, host),
    encoders: encoders === null ? null : tritonEndpoints(host(ENCODERS), TRITON_PORTS),
    models: Object.fromEntries(
      clientModels(plan).map(([name, tritonModel]) => {
        const endpoints = tritonEndpoints(host(name), TRITON_PORTS);
        return [name, { ...endpoints, generate: `${endpoints.http}/v2/models/${tritonModel}/generate` }];
      }),
    ),
    reach: "cluster",
  };
}

/** Each model's name, and the Triton model that clients ask for it. */
function clientModels(plan: ClusterPlan): readonly (readonly [name: string, tritonModel: string])[] {
  return plan.tier === "cpu"
    ? plan.models.map(({ name }) => [name, "ensemble"])
    : plan.models.map(({ name, repository }) => [name, repository.clientModel]);
}

function ingressUrl({ cluster: { ingress } }: ClusterPlan): string | null {
  if (ingress === null) return null;
  const isTls = ingress.route?.isTls ?? ingress.tlsSecret !== null;
  return `${isTls ? "https" : "http"}://${ingress.host}`;
}

function databaseEndpoints(
  { cluster: { databases } }: ClusterPlan,
  host: (service: string) => string,
): Pick<Endpoints, "mongo" | "vector"> {
  if (databases === null) return { mongo: null, vector: null };
  if (databases.kind === "external") return { mongo: null, vector: databases.vector.url };
  return {
    mongo: `mongodb://${host("mongo")}:${DATABASE_PORTS.mongo}`,
    vector: `http://${host("vector")}:${DATABASE_PORTS.vector}`,
  };
}

/** What users have to know of a stack. */
export function clusterNotes(plan: ClusterPlan): readonly string[] {
  return plan.tier === "cpu"
    ? [
        ...keyNote(plan),
        ...clientsNote(plan),
        ...cpuWeightNotes(plan),
        ...namespaceNote(plan),
        ...monitoringNote(plan),
      ]
    : [
        ...keyNote(plan),
        ...clientsNote(plan),
        ...rolloutNote(plan),
        ...storeNote(plan),
        ...monitoringNote(plan),
      ];
}

function keyNote({ gateway, cluster, platform }: ClusterPlan): readonly string[] {
  // On AWS a load balancer lets more in than pods, and `down` takes more than the namespace: notes of its own say so.
  if (platform === "aws" || gateway.apiKeys.length > 0) return [];
  const who =
    cluster.ingress === null ? "Every pod of the cluster" : `Everybody who reaches ${cluster.ingress.host}`;
  return [`${who} may use the models: gateway.apiKeys is empty; \`npm run key\` makes a key.`];
}

/** Their addresses are names that every pod resolves, which is not to say that it gets through. */
function clientsNote({ cluster: { tritonClients } }: ClusterPlan): readonly string[] {
  const others = tritonClients.length === 0 ? "" : ` and pods of ${tritonClients.join(", ")}`;
  return [
    `Triton takes requests of the gateway${others} alone, databases those of the gateway: \`npm run connect\` reaches them, \`tritonClients\` opens Triton to namespaces.`,
  ];
}

function rolloutNote({ spec }: ClusterGpuPlan): readonly string[] {
  if (spec.whenFull === "fail") return [];
  return [
    "While an engine is built, the scheduler may take the GPU of a server for it: the model is away until then.",
  ];
}

function storeNote({ cluster, platform }: ClusterGpuPlan): readonly string[] {
  if (platform === "aws") return [];
  const { namespace, store } = cluster;
  if (store.creation === null)
    return [
      `Builds write weights and engines into the claim ${store.claim} as user and group ${USER_ID}, who must be able to.`,
    ];
  return [
    namespace.isCreated
      ? `\`npm run down\` leaves what took long to make: \`kubectl delete namespace ${namespace.name}\` deletes it.`
      : `\`npm run down\` leaves what took long to make: \`kubectl delete pvc ${store.claim} --namespace ${namespace.name}\` deletes it.`,
  ];
}

function monitoringNote({ cluster }: ClusterPlan): readonly string[] {
  if (cluster.monitoring !== null) return [];
  const blind =
    Object.keys(cluster.minReplicas).length === 0 ? "" : ", and autoscalers have nothing to go by";
  return [
    `Nobody watches the stack${blind}: \`monitoring: prometheus-operator\` makes monitors, alerts and Grafana dashboards of it.`,
  ];
}

function namespaceNote({ cluster: { namespace } }: ClusterPlan): readonly string[] {
  if (!namespace.isCreated) return [];
  return [
    `\`npm run down\` leaves the namespace: \`kubectl delete namespace ${namespace.name}\` deletes it.`,
  ];
}
