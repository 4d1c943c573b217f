/** The one door for clients. */
import { canonicalJson } from "../canonical-json.ts";
import { SPEC_FILES } from "../container-specs.ts";
import { DATABASE_PORTS } from "../database-servers.ts";
import { gatewayConfig } from "../gateway-config.ts";
import { GATEWAY_REQUEST } from "../pod-requests.ts";
import { canSurge, frontPool } from "../pool-space.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { hashedFiles, objectLabels } from "./labels.ts";
import { frontPlacement } from "./placement.ts";
import { PRE_STOP_SECONDS, pod, probes, SCRATCH_TMP, tritonAddress } from "./pod.ts";
import type { PodPlan, SecretReference } from "./pod-types.ts";
import { priorityClass } from "./priorities.ts";
import { ENCODERS, server } from "./servers.ts";
import type { IngressPlan, PlannedSecret, RoutePlan, ServerPlan } from "./types.ts";

/** Name of the gateway's Deployment and Service. */
export const GATEWAY = "gateway";

/** Listened on in the pod, whatever the Service says. */
export const GATEWAY_PORT = 8080;

/** Hashes of the keys, as a list. */
const API_KEYS_FILE = "/run/secrets/api-keys/value";

const API_KEYS_KEY = "api-keys.json";

/** A small image and a fast program. */
const START_SECONDS = 30;
const READY_SECONDS = 120;

/** After the last answer. */
const END_SECONDS = 10;

/** The gateway, with its configuration in a ConfigMap and the hashes of its keys in a Secret. */
export function gateway(stack: string, plan: ClusterPlan): ServerPlan {
  const { limits, replicas, port } = plan.gateway;
  const made = pod(stack, GATEWAY, {
    role: "gateway",
    image: "services",
    args: ["gateway", "--config", SPEC_FILES.gateway],
    files: { [SPEC_FILES.gateway]: canonicalJson(configuration(plan)) },
    secretFiles: gatewaySecrets(stack, plan),
    volumes: [SCRATCH_TMP],
    ports: { http: GATEWAY_PORT },
    resources: { ...GATEWAY_REQUEST, limitsMemory: true, ephemeralGiB: null, gpus: null },
    placement: frontPlacement(plan),
    priorityClass: priorityClass(plan, "front"),
    probes: gatewayProbes(),
    preStopSeconds: PRE_STOP_SECONDS,
    graceSeconds: PRE_STOP_SECONDS + limits.requestSeconds + END_SECONDS,
  });
  const planned = server(GATEWAY, made, {
    replicas,
    rollout: hasRoomForOneMore(plan) ? "surge" : "inPlace",
    readySeconds: READY_SECONDS,
    after: [],
  });
  return { ...planned, service: { ...planned.service, ports: { http: port } } };
}

/** Where it takes whatever machine there is, somebody has room for so little. */
function hasRoomForOneMore(plan: ClusterPlan): boolean {
  if (plan.tier === "cpu") return true;
  const pool = frontPool(plan.spec.pools);
  return pool === undefined || canSurge(plan.spec, pool, { ...GATEWAY_REQUEST, slots: 0 });
}

/** Not /readyz, which looks at what stands behind it: a gateway that answers for one model is of use while another loads. */
function gatewayProbes(): PodPlan["probes"] {
  const check = { kind: "http", path: "/healthz", port: GATEWAY_PORT } as const;
  return probes(START_SECONDS, check, check);
}

function configuration(plan: ClusterPlan): Record<string, unknown> {
  const { apiKeys, ...rest } = gatewayConfig(plan, {
    ...(plan.encoders === null ? {} : { encoders: tritonAddress(ENCODERS) }),
    models: plan.models.map(({ name }) => tritonAddress(name)),
    mongo: `mongodb://mongo:${DATABASE_PORTS.mongo}`,
    vector: `http://vector:${DATABASE_PORTS.vector}`,
  });
  return {
    host: "0.0.0.0",
    port: GATEWAY_PORT,
    ...rest,
    ...(hasKeys(plan) ? { apiKeysFile: API_KEYS_FILE } : { apiKeys }),
  };
}

function hasKeys({ gateway: { apiKeys } }: ClusterPlan): boolean {
  return apiKeys.length > 0;
}

/** Hashes of API keys; null where the stack has no keys. */
export function apiKeysSecret(stack: string, plan: ClusterPlan): PlannedSecret | null {
  if (!hasKeys(plan)) return null;
  const subject = "api-keys";
  const labels = objectLabels(stack, { role: "gateway" });
  const data = { [API_KEYS_KEY]: canonicalJson(plan.gateway.apiKeys) };
  return { subject, ...hashedFiles(subject, labels, data) };
}

function gatewaySecrets(stack: string, plan: ClusterPlan): Readonly<Record<string, SecretReference>> {
  const { databases } = plan.cluster;
  const keys = apiKeysSecret(stack, plan);
  return {
    ...(keys === null ? {} : { [API_KEYS_FILE]: { name: keys.name, key: API_KEYS_KEY, from: null } }),
    ...(databases?.kind === "external" ? databases.secrets : {}),
  };
}

/** How clients outside of the cluster reach it; null: they do not. */
export function gatewayIngress(stack: string, { cluster, gateway: config }: ClusterPlan): IngressPlan | null {
  const { ingress } = cluster;
  if (ingress === null || ingress.route !== null) return null;
  const { requestSeconds, bodyMiB } = config.limits;
  return {
    name: GATEWAY,
    labels: objectLabels(stack, { role: "gateway" }),
    host: ingress.host,
    className: ingress.className,
    annotations: {
      ...issuerAnnotation(ingress.issuer),
      // Of ingress-nginx, which else holds answers back, and ends them after a minute; other controllers pass them over.
      "nginx.ingress.kubernetes.io/proxy-body-size": `${bodyMiB}m`,
      "nginx.ingress.kubernetes.io/proxy-buffering": "off",
      "nginx.ingress.kubernetes.io/proxy-read-timeout": String(requestSeconds),
    },
    tlsSecret: ingress.tlsSecret,
    service: GATEWAY,
    port: config.port,
  };
}

/** https://cert-manager.io/docs/usage/ingress/#supported-annotations */
function issuerAnnotation(
  issuer: NonNullable<Cluster["ingress"]>["issuer"],
): Readonly<Record<string, string>> {
  if (issuer === null) return {};
  return { [issuer.isClusters ? "cert-manager.io/cluster-issuer" : "cert-manager.io/issuer"]: issuer.name };
}

/** The same through a Gateway; null: there is an Ingress, or nothing. */
export function gatewayRoute(stack: string, { cluster, gateway: config }: ClusterPlan): RoutePlan | null {
  const { ingress } = cluster;
  if (ingress === null || ingress.route === null) return null;
  const { gateway: name, namespace, listener } = ingress.route;
  return {
    name: GATEWAY,
    labels: objectLabels(stack, { role: "gateway" }),
    host: ingress.host,
    gateway: name,
    gatewayNamespace: namespace,
    listener,
    requestSeconds: config.limits.requestSeconds,
    service: GATEWAY,
    port: config.port,
  };
}
