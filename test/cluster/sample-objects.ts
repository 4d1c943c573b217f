/** Objects of the shapes that a stack in a cluster is made of, small enough to be read at once. */
import { join } from "node:path";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { poolsOf } from "../harness/kubernetes/stack-files.ts";

/** One machine, whose one GPU is two by time slicing. */
export const examplePools = poolsOf(join(projectRoot, "examples/llama-2-7b-chat-kubernetes.yaml"));

type Spec = Readonly<Record<string, unknown>>;

/** Requirements of the level `restricted`, and a read-only root file system. */
const POD_SECURITY = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } };
const CONTAINER_SECURITY = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};
const TOLERATIONS = [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }];
const IMAGE = "registry.example.org/engine-room/trtllm:25.07";

const labels = (app: string) => ({ app });

export function claim(namespace: string): KubernetesObject {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "engine-store", namespace },
    spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "100Gi" } } },
  };
}

/** Builds an engine. Exit codes 2 and 3 would be the same at another try. */
export function engineBuild(namespace: string, name: string, gpus: number): KubernetesObject {
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace, annotations: { "pulumi.com/replaceUnready": "true" } },
    spec: {
      backoffLimit: 1,
      activeDeadlineSeconds: 7200,
      podFailurePolicy: {
        rules: [
          { action: "FailJob", onExitCodes: { containerName: "main", operator: "In", values: [2, 3] } },
        ],
      },
      template: {
        metadata: { labels: labels(name) },
        spec: podSpec({
          gpus,
          restartPolicy: "Never",
          volumes: [{ name: "store", persistentVolumeClaim: { claimName: "engine-store" } }],
          mounts: [{ name: "store", mountPath: "/store" }],
        }),
      },
    },
  };
}

interface ServerOptions {
  readonly gpus?: number;
  readonly replicas?: number;
  /** `inPlace`: the old pod goes first, for it has the GPU. */
  readonly rollout?: "surge" | "inPlace";
  readonly engine?: string;
}

/** Serves a model from an engine. */
export function server(namespace: string, name: string, options: ServerOptions = {}): KubernetesObject {
  const { gpus = 1, replicas = 1, rollout = "surge", engine = "first" } = options;
  const probe = { httpGet: { path: "/v2/health/ready", port: "http" }, periodSeconds: 5 };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace },
    spec: {
      replicas,
      selector: { matchLabels: labels(name) },
      strategy: {
        type: "RollingUpdate",
        rollingUpdate:
          rollout === "surge" ? { maxSurge: 1, maxUnavailable: 0 } : { maxSurge: 0, maxUnavailable: 1 },
      },
      template: {
        metadata: { labels: labels(name), annotations: { engine } },
        spec: podSpec({
          gpus,
          restartPolicy: "Always",
          volumes: [
            { name: "store", persistentVolumeClaim: { claimName: "engine-store", readOnly: true } },
            { name: "shared-memory", emptyDir: { medium: "Memory", sizeLimit: "1Gi" } },
          ],
          mounts: [
            { name: "store", mountPath: "/store", readOnly: true },
            { name: "shared-memory", mountPath: "/dev/shm" },
          ],
          container: {
            ports: [
              { name: "http", containerPort: 8000 },
              { name: "grpc", containerPort: 8001 },
              { name: "metrics", containerPort: 8002 },
            ],
            startupProbe: { ...probe, failureThreshold: 60 },
            readinessProbe: probe,
            lifecycle: { preStop: { sleep: { seconds: 5 } } },
          },
        }),
      },
    },
  };
}

interface PodOptions {
  readonly gpus: number;
  readonly restartPolicy: "Always" | "Never";
  readonly volumes: readonly object[];
  readonly mounts: readonly object[];
  readonly container?: Spec;
}

function podSpec({ gpus, restartPolicy, volumes, mounts, container = {} }: PodOptions): Spec {
  return {
    restartPolicy,
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 30,
    securityContext: POD_SECURITY,
    tolerations: TOLERATIONS,
    containers: [
      {
        name: "main",
        image: IMAGE,
        securityContext: CONTAINER_SECURITY,
        resources: {
          requests: { cpu: "1", memory: "4Gi" },
          limits: { memory: "4Gi", "nvidia.com/gpu": `${gpus}` },
        },
        volumeMounts: mounts,
        ...container,
      },
    ],
    volumes,
  };
}

export function service(namespace: string, name: string): KubernetesObject {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace },
    spec: { selector: labels(name), ports: [{ name: "http", port: 8000, targetPort: "http" }] },
  };
}

/** One pod with a claim of its own. */
export function database(namespace: string, name: string): KubernetesObject {
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name, namespace },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: labels(name) },
      // A documents' store must outlive a scale to zero, and `down`.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
      template: {
        metadata: { labels: labels(name) },
        spec: podSpec({
          gpus: 0,
          restartPolicy: "Always",
          volumes: [],
          mounts: [{ name: "data", mountPath: "/data" }],
        }),
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "data" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Gi" } } },
        },
      ],
    },
  };
}

export function disruptionBudget(namespace: string, name: string): KubernetesObject {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name, namespace },
    spec: { maxUnavailable: 1, selector: { matchLabels: labels(name) } },
  };
}

/** Denies all connections except to the cluster's resolver. */
export function defaultDeny(namespace: string): KubernetesObject {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "default-deny", namespace },
    spec: {
      podSelector: {},
      policyTypes: ["Ingress", "Egress"],
      egress: [
        {
          to: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } } }],
          ports: [{ port: 53, protocol: "UDP" }],
        },
      ],
    },
  };
}

/** Scales from zero by a metric of Prometheus. */
export function scaledObject(namespace: string, name: string): KubernetesObject {
  return {
    apiVersion: "keda.sh/v1alpha1",
    kind: "ScaledObject",
    metadata: { name, namespace },
    spec: {
      scaleTargetRef: { name },
      minReplicaCount: 0,
      maxReplicaCount: 2,
      triggers: [
        {
          type: "prometheus",
          metadata: {
            serverAddress: "http://prometheus.monitoring:9090",
            query: `gateway_pending_requests{model="${name}"}`,
            threshold: "4",
            activationThreshold: "0",
            ignoreNullValues: "false",
          },
        },
      ],
    },
  };
}

export function serviceMonitor(namespace: string, name: string): KubernetesObject {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "ServiceMonitor",
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: labels(name) },
      endpoints: [{ port: "metrics", path: "/metrics", interval: "15s" }],
    },
  };
}

export function httpRoute(namespace: string, name: string): KubernetesObject {
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata: { name, namespace },
    spec: {
      parentRefs: [{ name: "public", namespace: "gateways" }],
      hostnames: ["models.example.org"],
      rules: [{ backendRefs: [{ name, port: 8080 }] }],
    },
  };
}

/** The same object with one field changed; `undefined` removes it. @param path - `spec.template.spec.tolerations`. */
export function changed(object: KubernetesObject, path: string, value: unknown): KubernetesObject {
  const copy = structuredClone(object) as unknown as Record<string, unknown>;
  const keys = path.split(".");
  const last = keys.pop() ?? "";
  const holder = keys.reduce((level, key) => level[key] as Record<string, unknown>, copy);
  if (value === undefined) delete holder[last];
  else holder[last] = value;
  return copy as unknown as KubernetesObject;
}
