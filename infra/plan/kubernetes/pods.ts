/** A container as the template of pods. Nothing in it runs as root. */
import { posix } from "node:path";
import type { types } from "@pulumi/kubernetes";
import {
  type Container,
  type ContainerCheck,
  type ContainerSettings,
  sortedByKey,
} from "../containers/container.ts";
import { imageNamed } from "../image-named.ts";
import type { Plain } from "../plain.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { MIB_PER_GIB } from "../units.ts";
import { priorityClass, type Urgency } from "./capacity.ts";
import { secretFile } from "./cluster.ts";
import {
  hashedMetadata,
  type Labels,
  objectLabels,
  objectName,
  type PodRole,
  podSelector,
  unlessEmpty,
} from "./labels.ts";
import { API_KEYS_FILE, secretFilesOf } from "./secrets.ts";
import type {
  ClusterImage,
  ConfigMap,
  Placement,
  PodPlan,
  PodResources,
  PodSpec,
  SecretReference,
} from "./types.ts";

type ApiContainer = Plain<types.input.core.v1.Container>;
type Probe = Plain<types.input.core.v1.Probe>;
type Volume = Plain<types.input.core.v1.Volume>;
type VolumeMount = Plain<types.input.core.v1.VolumeMount>;

/** What all pods of a stack need to know. */
export interface PodContext<Plan extends ClusterPlan = ClusterPlan> {
  /** Name of the stack. */
  readonly stack: string;
  readonly plan: Plan;
  readonly images: readonly ClusterImage[];
}

type StackRole = Exclude<PodRole, "bench" | "smoke">;

/** The image has the entry point of the container. */
type PodContainer = Omit<Container, "role" | "entrypoint"> & { readonly role: StackRole };

interface PodOptions {
  readonly resources: PodResources;
  readonly placement: Placement;
  /** Roles whose pods must not be on the same node. */
  readonly apartFrom?: readonly PodRole[];
  /** Size of the folder `scratch` of a build, or of a server's copy of its engine. */
  readonly diskGiB?: number;
  /** false: `/dev/shm` is the runtime's. */
  readonly sharesMemory?: boolean;
  /** Claim of the folder `data` in the template of a StatefulSet. */
  readonly dataClaim?: string;
  /** Labels beside those of role and model, and part of the selector. */
  readonly ownLabels?: Labels;
  /** In place of the image's entry point. */
  readonly command?: string[];
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

/** How long a server still answers after it was taken out of its Service: until the last proxy has forgotten its address. */
const PRE_STOP_SECONDS = 10;

/** Folder of a container's configuration files. */
const CONFIG_DIRECTORY = "/etc/engine-room";

/** The one folder that every container can write: sockets and the like. */
const TMP = "/tmp";

/** Models that the image of the CPU tier lacks, with their downloads. */
export const CACHE_GIB = 5;

/** Settings of containers in a cluster. */
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

/** @throws Error where the image of the container was not given. */
export function pod(context: PodContext, container: PodContainer, options: PodOptions): PodPlan {
  const { stack, plan, images } = context;
  const { role, model, key, userId } = container;
  const { placement, resources, ownLabels = {} } = options;
  const { container: name, urgency, serves = false, limitsMemory = false } = ROLES[role];
  const preStopSeconds = serves ? PRE_STOP_SECONDS : 0;
  const labels = { ...objectLabels(stack, { role, model, key }), ...ownLabels };
  const selector = { ...podSelector(stack, { role, model }), ...ownLabels };
  const config = configMap(container, labels);
  const secretFiles = secretFilesOf(context, container);
  const secrets = Object.entries(sortedByKey(secretFiles));
  const mounted = mounts(context, container, options);
  return {
    ...{ role, model, labels, selector, resources, secretFiles, config },
    pool: placement.pool,
    template: {
      metadata: { labels },
      spec: {
        automountServiceAccountToken: false,
        // A provider of secrets asks which account a pod has.
        serviceAccountName: secrets.find(([, { provider }]) => provider)?.[1].provider?.serviceAccount,
        // Else each Service of the namespace is in the environment, under names that no program asked for.
        enableServiceLinks: false,
        restartPolicy: container.timeoutSeconds === null ? undefined : "Never",
        priorityClassName: urgency === null ? undefined : priorityClass(plan, urgency),
        terminationGracePeriodSeconds: preStopSeconds + container.stopSeconds,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: userId,
          runAsGroup: userId,
          fsGroup: userId,
          // A store of many engines is walked through once, not at each start.
          fsGroupChangePolicy: "OnRootMismatch",
          seccompProfile: { type: "RuntimeDefault" },
        },
        nodeSelector: unlessEmpty(placement.nodeSelector),
        tolerations: unlessEmpty(placement.tolerations),
        affinity: options.apartFrom?.length ? apartFrom(stack, options.apartFrom) : undefined,
        topologySpreadConstraints: serves ? [spread(selector)] : undefined,
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
            lifecycle:
              preStopSeconds === 0
                ? undefined
                : { preStop: { exec: { command: ["sleep", String(preStopSeconds)] } } },
            // The last lines of a program are shown with the pod.
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
      },
    },
  };
}

function configMap({ name, files }: PodContainer, labels: Labels): ConfigMap | null {
  if (Object.keys(files).length === 0) return null;
  const data = Object.fromEntries(
    Object.entries(files).map(([path, text]) => [posix.relative(CONFIG_DIRECTORY, path), text]),
  );
  return { metadata: hashedMetadata(objectName(name), labels, data), immutable: true, data };
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

/** A check that takes longer is a server that hangs; three in a row are no accident. */
const PERIOD_SECONDS = 10;
const TIMEOUT_SECONDS = 5;
const FAILURES = 3;
/** A busy server may be late for a minute before it is restarted. */
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

function apartFrom(stack: string, roles: readonly PodRole[]): PodSpec["affinity"] {
  return {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          labelSelector: {
            matchLabels: { "app.kubernetes.io/instance": stack },
            matchExpressions: [{ key: "app.kubernetes.io/component", operator: "In", values: [...roles] }],
          },
          topologyKey: HOSTNAME,
        },
      ],
    },
  };
}

/** Pods of one template prefer different nodes; a stack on one node works as well. */
function spread(selector: Labels) {
  return {
    maxSkew: 1,
    topologyKey: HOSTNAME,
    whenUnsatisfiable: "ScheduleAnyway",
    labelSelector: { matchLabels: selector },
  };
}

/** Secrets are files, since a variable of the environment would be in every crash report. */
function secretVolume(path: string, { name, key, provider }: SecretReference): Volume {
  if (provider !== undefined) {
    return {
      name: secretVolumeName(path),
      csi: {
        driver: "secrets-store.csi.k8s.io",
        readOnly: true,
        volumeAttributes: { secretProviderClass: provider.className },
      },
    };
  }
  return {
    name: secretVolumeName(path),
    // Readable by owner and group; the group is the pod's.
    secret: { secretName: name, defaultMode: 0o440, items: [{ key, path: posix.basename(path) }] },
  };
}

function secretVolumeName(path: string): string {
  return `secret-${posix.basename(posix.dirname(path))}`;
}

type Purpose = Container["mounts"][number]["purpose"] | "tmp" | "sharedMemory";

/** Volumes in the order of the template: another order is another template, which replaces all pods. */
function mounts(
  { plan }: PodContext,
  { role, mounts: own, sharedMemoryBytes }: PodContainer,
  { diskGiB = 0, sharesMemory = true, dataClaim = "" }: PodOptions,
): readonly { readonly mount: VolumeMount; readonly volume: Volume }[] {
  const disk = (name: string, sizeMiB: number) => ({ name, emptyDir: { sizeLimit: `${sizeMiB}Mi` } });
  const volumes: readonly (readonly [Purpose, Volume])[] = [
    ...(plan.tier === "cpu"
      ? []
      : [
          [
            "store",
            { name: "store", persistentVolumeClaim: { claimName: plan.cluster.store.claim } },
          ] as const,
        ]),
    ["scratch", disk("scratch", diskGiB * MIB_PER_GIB)],
    ["repository", disk("model-repository", 512)],
    ["cache", disk("cache", CACHE_GIB * MIB_PER_GIB)],
    ["data", { name: dataClaim }],
    ["tmp", disk("tmp", 1024)],
    [
      "sharedMemory",
      // It counts as the pod's memory.
      {
        name: "shared-memory",
        emptyDir: { medium: "Memory", sizeLimit: `${(sharedMemoryBytes ?? 0) / 2 ** 20}Mi` },
      },
    ],
    ["engineCopy", disk("engine-copy", diskGiB * MIB_PER_GIB)],
  ];
  const all = [
    ...own,
    ...(role === "prePull" ? [] : [{ purpose: "tmp", path: TMP, readOnly: false } as const]),
    ...(sharedMemoryBytes === null || !sharesMemory
      ? []
      : [{ purpose: "sharedMemory", path: "/dev/shm", readOnly: false } as const]),
  ];
  return volumes.flatMap(([purpose, volume]) =>
    all
      .filter((mount) => mount.purpose === purpose)
      .map(({ path, readOnly }) => ({
        volume,
        mount: { name: volume.name, mountPath: path, readOnly: readOnly || undefined },
      })),
  );
}
