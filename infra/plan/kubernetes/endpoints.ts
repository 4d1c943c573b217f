/** Addresses of a stack in a cluster, and notes for its users. */
import { IMAGE_USER_ID } from "../containers/container.ts";
import { DATABASE_PORTS } from "../containers/databases.ts";
import { ENCODERS } from "../containers/servers.ts";
import { type CpuModelPlan, cpuWeightNotes } from "../cpu-stack.ts";
import { type Endpoints, type ModelEndpoints, tritonEndpoints } from "../endpoints.ts";
import type { ModelPlan } from "../gpu-stack.ts";
import { TRITON_PORTS } from "../repository/launch.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { GATEWAY } from "./network.ts";

/** Names of Services as every pod of the cluster resolves them, whatever the cluster's domain is. */
export function clusterEndpoints(plan: ClusterPlan): Endpoints {
  const { cluster, gateway, encoders } = plan;
  const host = (service: string) => `${service}.${cluster.namespace.name}.svc`;
  const models = plan.models.map((model: CpuModelPlan | ModelPlan): [string, ModelEndpoints] => {
    const tritonModel = "repository" in model ? model.repository.clientModel : "ensemble";
    const endpoints = tritonEndpoints(host(model.name), TRITON_PORTS);
    return [model.name, { ...endpoints, generate: `${endpoints.http}/v2/models/${tritonModel}/generate` }];
  });
  return {
    gateway: ingressUrl(plan) ?? `http://${host(GATEWAY)}:${gateway.port}`,
    gatewayReach: "cluster",
    gatewayDnsName: null,
    ...databaseEndpoints(plan, host),
    encoders: encoders === null ? null : tritonEndpoints(host(ENCODERS), TRITON_PORTS),
    models: Object.fromEntries(models),
    reach: "cluster",
  };
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

/** Notes for users of a cluster that others made: who reaches the gateway, and what `down` leaves in it. */
export function ownerNotes(plan: ClusterPlan): readonly string[] {
  const { ingress } = plan.cluster;
  const who = ingress === null ? "Every pod of the cluster" : `Everyone who reaches ${ingress.host}`;
  const keyNote =
    plan.gateway.apiKeys.length === 0 &&
    `${who} may use the models: gateway.apiKeys is empty; \`npx engine-room key\` makes a key.`;
  return [keyNote, keptNote(plan)].filter((note) => note !== false);
}

/** Notes for users of any cluster. */
export function clusterNotes(plan: ClusterPlan): readonly string[] {
  const { tritonClients, monitoring, minReplicas } = plan.cluster;
  const others = tritonClients.length === 0 ? "" : ` and pods of ${tritonClients.join(", ")}`;
  const blind = Object.keys(minReplicas).length === 0 ? "" : ", and autoscalers have nothing to go by";
  return [
    `Triton accepts only requests of the gateway${others}, databases only those of the gateway: \`npx engine-room connect\` reaches them, \`tritonClients\` opens Triton to namespaces.`,
    ...(plan.tier === "cpu" ? cpuWeightNotes(plan) : []),
    plan.tier === "gpu" &&
      plan.spec.whenFull === "stopServer" &&
      "While an engine is built, the scheduler may take the GPU of a server for it: the model is unavailable until then.",
    monitoring === null &&
      `The stack is not monitored${blind}: \`monitoring: prometheus-operator\` makes monitors, alerts and Grafana dashboards of it.`,
  ].filter((note) => note !== false);
}

/** Note on the objects that `down` leaves. */
function keptNote(plan: ClusterPlan): string | false {
  const { name, isCreated } = plan.cluster.namespace;
  if (plan.tier === "cpu")
    return (
      isCreated &&
      `\`npx engine-room down\` leaves the namespace: \`kubectl delete namespace ${name}\` deletes it.`
    );
  const { claim, creation } = plan.cluster.store;
  if (creation === null)
    return `Builds write weights and engines into the claim ${claim} as user and group ${IMAGE_USER_ID}, who must be able to.`;
  const deletion = isCreated ? `namespace ${name}` : `pvc ${claim} --namespace ${name}`;
  return `\`npx engine-room down\` leaves what took long to make: \`kubectl delete ${deletion}\` deletes it.`;
}
