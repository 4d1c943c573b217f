/** A container as the template of pods. Nothing in it runs as root. */
import { posix } from "node:path";
import type { types } from "@pulumi/kubernetes";
import type { Container, ContainerCheck, ContainerSettings } from "../containers/container.ts";
import { type ClusterImage, imageNamed } from "../images.ts";
import { type Plain, sortedByKey } from "../plain-data.ts";
import type { Room } from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { MIB_PER_GIB } from "../units.ts";
import { gpusOf, type PodResources, placementOf, priorityClass, type Urgency } from "./capacity.ts";
import { secretFile } from "./cluster.ts";
import {
  type ApiObject,
  hashedMetadata,
  type Labels,
  objectLabels,
  objectName,
  type PodRole,
  podSelector,
  unlessEmpty,
} from "./objects.ts";
import { API_KEYS_FILE, secretFilesOf, secretVolume, secretVolumeName } from "./secrets.ts";

type PodSpec = Plain<types.input.core.v1.PodSpec>;
type ApiContainer = Plain<types.input.core.v1.Container>;
type Probe = Plain<types.input.core.v1.Probe>;
type Volume = Plain<types.input.core.v1.Volume>;

export interface PodContext<Plan extends ClusterPlan = ClusterPlan> {
  /** Name of the stack. */
  readonly stack: string;
  readonly plan: Plan;
  readonly images: readonly ClusterImage[];
}

type StackRole = Exclude<PodRole, "bench" | "smoke">;

/** The image has the entry point of the container. */
type PodContainer = Omit<Container, "role" | "entrypoint"> & { readonly role: StackRole };

export interface PodOptions {
  readonly request: Room;
  /** null for nodes that accept any pod of the stack. */
  readonly pool: PoolSpec | null;
  /** Disk of the node in addition to `diskGiB`; absent with it: almost nothing. */
  readonly ephemeralGiB?: number;
  /** Size of the folder `scratch` of a build, or of a server's copy of its engine. */
  readonly diskGiB?: number;
  /** Claim of the folder `data` in the template of a StatefulSet. */
  readonly dataClaim?: string;
  /** Labels beside those of role and model, and part of the selector. */
  readonly ownLabels?: Labels;
  /** In place of the image's entry point. */
  readonly command?: string[];
  /** ServiceAccount that a cloud knows. @default none */
  readonly account?: string | null;
}

interface RoleTraits {
  /** Name by which `kubectl logs -c` knows the container. */
  readonly container: string;
  readonly urgency: Urgency | null;
  /** Whether clients come through a Service, so that pods prefer different nodes and end after their requests. */
  readonly serves?: true;
  /** Whether a pod ends that uses more memory than it requests: figures of the others are estimates. */
  readonly limitsMemory?: true;
}

const ROLES: Readonly<Record<StackRole, RoleTraits>> = {
  engineBuild: { container: "builder", urgency: "building" },
  encoderBuild: { container: "builder", urgency: "building" },
  triton: { container: "triton", urgency: "serving", serves: true },
  encoders: { container: "triton", urgency: "serving", serves: true },
  gateway: { container: "gateway", urgency: "front", serves: true, limitsMemory: true },
  mongo: { container: "mongo", urgency: "front" },
  vector: { container: "vector", urgency: "front" },
  prePull: { container: "sleep", urgency: null, limitsMemory: true },
};

/** A server still answers after it was removed from its Service, until all proxies have removed its address. */
const PRE_STOP_SECONDS = 10;

/** Folder of configuration files. */
const CONFIG_DIRECTORY = "/etc/engine-room";

/** The only folder that every container can write to. */
const TMP = "/tmp";

/** Models that the image of the CPU tier lacks, with their downloads. */
export const CACHE_GIB = 5;

export function containerSettings(plan: ClusterPlan): ContainerSettings {
  const isGpu = plan.tier === "gpu";
  return {
    hubTokenFile: isGpu && plan.cluster.hubToken !== null ? secretFile("hubToken") : null,
    apiKeysFile: API_KEYS_FILE,
    home: TMP,
    answersBeforeEnd: true,
    copiedEngines: isGpu ? plan.cluster.copiedEngines : [],
  };
}

/** Pods of one template. */
export type PodPlan = ReturnType<typeof pod>;

/** @throws Error if the image of the container was not given. */
export function pod(context: PodContext, container: PodContainer, options: PodOptions) {
  const { stack, plan, images } = context;
  const { role, model, key, userId } = container;
  const { request, pool, ephemeralGiB = 0, diskGiB = 0, ownLabels = {}, account = null } = options;
  const { container: name, urgency, serves = false, limitsMemory = false } = ROLES[role];
  const placement = placementOf(plan, pool);
  const resources: PodResources = {
    ...request,
    ephemeralGiB: ephemeralGiB + diskGiB || null,
    gpus: plan.tier === "cpu" || pool === null ? null : gpusOf(plan, pool, container.gpus),
  };
  const preStopSeconds = serves ? PRE_STOP_SECONDS : 0;
  const labels = { ...objectLabels(stack, { role, model, key }), ...ownLabels };
  const config = configMap(container, labels);
  /** By path. */
  const secretFiles = secretFilesOf(stack, plan, container);
  const secrets = Object.entries(sortedByKey(secretFiles));
  const mounted = mounts(plan, container, options);
  /** Labels by which Services, workloads and policies find the pods; they never change. */
  const selector = { ...podSelector(stack, { role, model }), ...ownLabels };
  const spec: PodSpec = {
    automountServiceAccountToken: false,
    // Providers of secrets authorise this account.
    serviceAccountName:
      secrets.find(([, { provider }]) => provider)?.[1].provider?.serviceAccount ?? account ?? undefined,
    // Else the environment has variables for each Service of the namespace.
    enableServiceLinks: false,
    restartPolicy: container.timeoutSeconds === null ? undefined : "Never",
    priorityClassName: urgency === null ? undefined : priorityClass(plan, urgency),
    terminationGracePeriodSeconds: preStopSeconds + container.stopSeconds,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: userId,
      runAsGroup: userId,
      fsGroup: userId,
      // Else each start changes the group of all files in the store.
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    nodeSelector: unlessEmpty(placement.nodeSelector),
    tolerations: unlessEmpty(placement.tolerations),
    affinity: affinity(context, role, options),
    // Pods of one template prefer different nodes; a stack on one node works as well.
    topologySpreadConstraints: serves
      ? [
          {
            maxSkew: 1,
            topologyKey: HOSTNAME,
            whenUnsatisfiable: "ScheduleAnyway",
            labelSelector: { matchLabels: selector },
          },
        ]
      : undefined,
    imagePullSecrets: unlessEmpty(plan.cluster.imagePullSecrets.map((secret) => ({ name: secret }))),
    containers: [
      {
        name,
        image: imageNamed(container.image, images).reference,
        command: options.command,
        args: unlessEmpty([...container.arguments]),
        env: unlessEmpty(Object.entries(container.environment).map(([name, value]) => ({ name, value }))),
        ports: unlessEmpty(
          Object.entries(container.ports).map(([name, containerPort]) => ({
            name,
            containerPort,
            protocol: "TCP",
          })),
        ),
        resources: requirements(resources, limitsMemory),
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"] },
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
        },
        ...probes(container),
        // The kubelet's own `sleep` is younger than many clusters, and every image has the program.
        lifecycle: serves
          ? { preStop: { exec: { command: ["sleep", String(PRE_STOP_SECONDS)] } } }
          : undefined,
        // The status of the pod shows the last lines of its log.
        terminationMessagePolicy: "FallbackToLogsOnError",
        volumeMounts: [
          ...(config === null ? [] : [{ name: "config", mountPath: CONFIG_DIRECTORY, readOnly: true }]),
          ...secrets.map(([path]) => ({
            name: secretVolumeName(path),
            mountPath: posix.dirname(path),
            readOnly: true,
          })),
          ...mounted.map(({ mount }) => mount),
        ],
      },
    ],
    volumes: [
      ...(config === null ? [] : [{ name: "config", configMap: { name: config.metadata.name } }]),
      ...secrets.map(([path, reference]) => secretVolume(path, reference)),
      ...mounted.flatMap(({ volume }) => (Object.keys(volume).length === 1 ? [] : [volume])),
    ],
  };
  return {
    role,
    /** Model of the stack; null for roles without one. */
    model,
    labels,
    selector,
    resources,
    secretFiles,
    /** Configuration files; other content has another name, so that pods are replaced. */
    config,
    /** Pool of the stack file; null: any node. */
    pool: placement.pool,
    template: { metadata: { labels }, spec },
  };
}

function configMap({ name, files }: PodContainer, labels: Labels): ApiObject<"ConfigMap"> | null {
  if (Object.keys(files).length === 0) return null;
  const data = Object.fromEntries(
    Object.entries(files).map(([path, text]) => [posix.relative(CONFIG_DIRECTORY, path), text]),
  );
  const metadata = hashedMetadata(objectName(name), labels, data);
  return { kind: "ConfigMap", metadata, immutable: true, data };
}

function requirements(
  { cpuMillis, memoryMiB, ephemeralGiB, gpus }: PodResources,
  limitsMemory: boolean,
): ApiContainer["resources"] {
  const memory = { memory: `${memoryMiB}Mi` };
  const extended = gpus === null ? {} : { [gpus.resource]: String(gpus.count) };
  return {
    requests: {
      cpu: `${cpuMillis}m`,
      ...memory,
      ...(ephemeralGiB === null ? {} : { "ephemeral-storage": `${ephemeralGiB}Gi` }),
      ...extended,
    },
    limits: unlessEmpty({ ...(limitsMemory ? memory : {}), ...extended }),
  };
}

const PERIOD_SECONDS = 10;
const TIMEOUT_SECONDS = 5;
const FAILURES = 3;
/** A busy server is restarted after a minute without answers. */
const LIVENESS_FAILURES = 6;

/** Neither of the other probes runs before the first success of the startup probe. */
function probes({ readiness, liveness, startSeconds }: PodContainer): Partial<ApiContainer> {
  if (readiness === null || startSeconds === null) return {};
  return {
    startupProbe: probe(readiness, Math.ceil(startSeconds / PERIOD_SECONDS)),
    readinessProbe: probe(readiness, FAILURES),
    livenessProbe: liveness === null ? undefined : probe(liveness, LIVENESS_FAILURES),
  };
}

function probe(check: ContainerCheck, failureThreshold: number): Probe {
  return {
    ...(check.kind === "http"
      ? { httpGet: { path: check.path, port: check.port } }
      : { exec: { command: [...check.command] } }),
    periodSeconds: PERIOD_SECONDS,
    timeoutSeconds: TIMEOUT_SECONDS,
    failureThreshold,
  };
}

/** Label of every node. */
const HOSTNAME = "kubernetes.io/hostname";

/**
 * Keeps a build on a time-sliced GPU on another node than servers and other builds: time slicing does not divide the memory of
 * a GPU, and TensorRT measures kernels on a GPU that it has to itself.
 */
function affinity({ stack, plan }: PodContext, role: PodRole, { pool }: PodOptions): PodSpec["affinity"] {
  if (plan.tier === "cpu" || pool?.sharing.mode !== "timeSlicing") return undefined;
  const isOnGpu = plan.spec.encoders?.device === "gpu";
  if (role !== "engineBuild" && (role !== "encoderBuild" || !isOnGpu)) return undefined;
  const values = ["triton", "engineBuild", ...(isOnGpu ? ["encoders", "encoderBuild"] : [])];
  return {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          labelSelector: {
            matchLabels: { "app.kubernetes.io/instance": stack },
            matchExpressions: [{ key: "app.kubernetes.io/component", operator: "In", values }],
          },
          topologyKey: HOSTNAME,
        },
      ],
    },
  };
}

/** Volumes in the order of the template: another order is another template, which replaces all pods. */
function mounts(
  plan: ClusterPlan,
  container: PodContainer,
  { pool, diskGiB = 0, dataClaim = "" }: PodOptions,
) {
  const disk = (name: string, sizeMiB: number, medium?: "Memory"): Volume => ({
    name,
    emptyDir: { medium, sizeLimit: `${sizeMiB}Mi` },
  });
  const sharedMiB = (container.sharedMemoryBytes ?? 0) / 2 ** 20;
  const volumes: Readonly<Record<string, Volume>> = {
    store: {
      name: "store",
      persistentVolumeClaim: { claimName: plan.tier === "cpu" ? "" : plan.cluster.store.claim },
    },
    scratch: disk("scratch", diskGiB * MIB_PER_GIB),
    repository: disk("model-repository", 512),
    cache: disk("cache", CACHE_GIB * MIB_PER_GIB),
    data: { name: dataClaim },
    tmp: disk("tmp", 1024),
    // It counts as the pod's memory.
    sharedMemory: disk("shared-memory", sharedMiB, "Memory"),
    engineCopy: disk("engine-copy", diskGiB * MIB_PER_GIB),
  };
  // NVIDIA's device plugin mounts the MPS daemon's own `/dev/shm`, which another one would hide
  // (https://github.com/NVIDIA/k8s-device-plugin, internal/plugin/mps.go).
  const sharesMemory = sharedMiB > 0 && container.role !== "encoderBuild" && pool?.sharing.mode !== "mps";
  const all = [
    ...container.mounts,
    ...(container.role === "prePull" ? [] : [{ purpose: "tmp", path: TMP, readOnly: false }]),
    ...(sharesMemory ? [{ purpose: "sharedMemory", path: "/dev/shm", readOnly: false }] : []),
  ];
  return Object.entries(volumes).flatMap(([purpose, volume]) =>
    all
      .filter((mount) => mount.purpose === purpose)
      .map(({ path, readOnly }) => ({
        volume,
        mount: { name: volume.name, mountPath: path, readOnly: readOnly || undefined },
      })),
  );
}
