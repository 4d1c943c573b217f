/** A planned pod as inputs of @pulumi/kubernetes. Pure: the same pod gives the same inputs. */
import { posix } from "node:path";
import type { types } from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import {
  CONFIG_DIRECTORY,
  type Labels,
  type PodPlacement,
  type PodPlan,
  type PodResources,
  type Probe,
  type SecretName,
  type SecretReference,
  type VolumeSource,
} from "../../infra/plan/kubernetes/pod-types.ts";
import type { ClusterImage } from "../../infra/plan/kubernetes/types.ts";

type Container = types.input.core.v1.Container;
type Volume = types.input.core.v1.Volume;
type VolumeMount = types.input.core.v1.VolumeMount;

/** What the plan knows by name only, made elsewhere. */
interface PodPlacementArgs {
  readonly images: readonly ClusterImage[];
  /** Secrets of the namespace with credentials of the registry. */
  readonly imagePullSecrets: readonly string[];
  /** Uids of the Secrets that the stack file's values were put into: a pod that reads one is made anew with it. */
  readonly secretUids: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
}

/** Of whatever runs planned pods. */
export interface WorkloadArgs extends PodPlacementArgs {
  readonly namespace: pulumi.Input<string>;
  /** What must be there before its pods start: claims, builds that have ended, Secrets, classes, policies. */
  readonly after: readonly pulumi.Resource[];
}

/** Template of the pods of a Deployment, a StatefulSet or a Job. */
export function podTemplate(
  pod: PodPlan,
  placed: PodPlacementArgs,
  { isTask = false }: { readonly isTask?: boolean } = {},
): types.input.core.v1.PodTemplateSpec {
  const uids = isTask ? [] : secretUids(pod, placed);
  return {
    metadata: {
      labels: { ...pod.labels },
      ...(uids.length === 0
        ? {}
        : { annotations: { "engine-room/secrets": pulumi.all(uids).apply((all) => all.join(" ")) } }),
    },
    spec: {
      automountServiceAccountToken: false,
      ...serviceAccount(pod),
      // Else each Service of the namespace is in the environment, by names that nobody asked for.
      enableServiceLinks: false,
      ...(isTask ? { restartPolicy: "Never" } : {}),
      ...(pod.priorityClass === null ? {} : { priorityClassName: pod.priorityClass }),
      terminationGracePeriodSeconds: pod.graceSeconds,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: pod.userId,
        runAsGroup: pod.userId,
        fsGroup: pod.userId,
        // A store of many engines is walked through once, not at each start.
        fsGroupChangePolicy: "OnRootMismatch",
        seccompProfile: { type: "RuntimeDefault" },
      },
      ...placementArgs(pod.placement, pod.selector),
      ...(placed.imagePullSecrets.length === 0
        ? {}
        : { imagePullSecrets: placed.imagePullSecrets.map((name) => ({ name })) }),
      containers: [containerArgs(pod, placed)],
      volumes: volumeArgs(pod),
    },
  };
}

/** Its own only where a provider of secrets asks who the pod is. */
function serviceAccount({ secretFiles }: PodPlan): { readonly serviceAccountName?: string } {
  const names = Object.values(secretFiles).flatMap(({ provider }) => provider?.serviceAccount ?? []);
  return names[0] === undefined ? {} : { serviceAccountName: names[0] };
}

function secretUids(
  { secretFiles }: PodPlan,
  { secretUids: known }: PodPlacementArgs,
): pulumi.Input<string>[] {
  return Object.values(secretFiles).flatMap(({ from }) => {
    const uid = from === null ? undefined : known[from];
    return uid === undefined ? [] : [uid];
  });
}

function containerArgs(pod: PodPlan, { images }: PodPlacementArgs): Container {
  const { command, args, environment, ports, probes, preStopSeconds, role } = pod;
  return {
    name: CONTAINER_NAMES[role],
    image: imageReference(pod, images),
    ...(command === null ? {} : { command: [...command] }),
    ...(args.length === 0 ? {} : { args: [...args] }),
    ...(Object.keys(environment).length === 0
      ? {}
      : { env: entriesByKey(environment).map(([name, value]) => ({ name, value })) }),
    ...(Object.keys(ports).length === 0
      ? {}
      : {
          ports: Object.entries(ports).map(([name, containerPort]) => ({
            name,
            containerPort,
            protocol: "TCP",
          })),
        }),
    resources: resourceArgs(pod.resources),
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
    },
    ...(probes === null
      ? {}
      : {
          startupProbe: probeArgs(probes.startup),
          readinessProbe: probeArgs(probes.readiness),
          ...(probes.liveness === null ? {} : { livenessProbe: probeArgs(probes.liveness) }),
        }),
    // The kubelet's own `sleep` is younger than many clusters, and every image has the program.
    ...(preStopSeconds === 0
      ? {}
      : { lifecycle: { preStop: { exec: { command: ["sleep", String(preStopSeconds)] } } } }),
    // What a program says of its end is shown with the pod.
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: mountArgs(pod),
  };
}

/** Names by which `kubectl logs -c` knows a container. */
const CONTAINER_NAMES: Readonly<Record<PodPlan["role"], string>> = {
  engineBuild: "builder",
  encoderBuild: "builder",
  triton: "triton",
  encoders: "triton",
  gateway: "gateway",
  mongo: "mongo",
  vector: "vector",
  prePull: "sleep",
  bench: "bench",
  smoke: "smoke",
};

/** @throws Error where the image was not given. */
function imageReference({ image, role }: PodPlan, images: readonly ClusterImage[]): string {
  const found = images.find(({ name }) => name === image);
  if (found === undefined)
    throw new Error(`The ${role} of the plan runs the image ${image}, which was not given`);
  return found.reference;
}

function resourceArgs({
  cpuMillis,
  memoryMiB,
  limitsMemory,
  ephemeralGiB,
  gpus,
}: PodResources): types.input.core.v1.ResourceRequirements {
  const memory = `${memoryMiB}Mi`;
  const extended = gpus === null ? {} : { [gpus.resource]: String(gpus.count) };
  const limits = { ...(limitsMemory ? { memory } : {}), ...extended };
  return {
    requests: {
      cpu: `${cpuMillis}m`,
      memory,
      ...(ephemeralGiB === null ? {} : { "ephemeral-storage": `${ephemeralGiB}Gi` }),
      ...extended,
    },
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
}

function probeArgs({
  check,
  periodSeconds,
  timeoutSeconds,
  failureThreshold,
}: Probe): types.input.core.v1.Probe {
  return {
    ...(check.kind === "http"
      ? { httpGet: { path: check.path, port: check.port } }
      : { exec: { command: [...check.command] } }),
    periodSeconds,
    timeoutSeconds,
    failureThreshold,
  };
}

type PlacementArgs = Pick<
  types.input.core.v1.PodSpec,
  "nodeSelector" | "tolerations" | "affinity" | "topologySpreadConstraints"
>;

/** Label of the machine itself. */
const HOSTNAME = "kubernetes.io/hostname";

function placementArgs(
  { nodeSelector, tolerations, apartFrom, spreads }: PodPlacement,
  selector: Labels,
): PlacementArgs {
  const { "app.kubernetes.io/instance": instance = "" } = selector;
  return {
    ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector: { ...nodeSelector } }),
    ...(tolerations.length === 0 ? {} : { tolerations: tolerations.map((one) => ({ ...one })) }),
    ...(apartFrom.length === 0
      ? {}
      : {
          affinity: {
            podAntiAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: [
                {
                  labelSelector: {
                    matchLabels: { "app.kubernetes.io/instance": instance },
                    matchExpressions: [
                      { key: "app.kubernetes.io/component", operator: "In", values: [...apartFrom] },
                    ],
                  },
                  topologyKey: HOSTNAME,
                },
              ],
            },
          },
        }),
    ...(spreads
      ? {
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: HOSTNAME,
              // A stack on one machine is none the worse for it.
              whenUnsatisfiable: "ScheduleAnyway",
              labelSelector: { matchLabels: { ...selector } },
            },
          ],
        }
      : {}),
  };
}

function volumeArgs({ config, secretFiles, volumes }: PodPlan): Volume[] {
  return [
    ...(config === null ? [] : [{ name: "config", configMap: { name: config.name } }]),
    ...entriesByKey(secretFiles).map(secretVolume),
    ...volumes.flatMap(({ name, source }) => {
      const args = sourceArgs(source);
      return args === null ? [] : [{ name, ...args }];
    }),
  ];
}

/** null: the template of a StatefulSet is the volume. */
function sourceArgs(source: VolumeSource): Omit<Volume, "name"> | null {
  switch (source.kind) {
    case "claim":
      return { persistentVolumeClaim: { claimName: source.claim } };
    case "ownClaim":
      return null;
    case "disk":
      return { emptyDir: { sizeLimit: `${source.sizeMiB}Mi` } };
    case "memory":
      return { emptyDir: { medium: "Memory", sizeLimit: `${source.sizeMiB}Mi` } };
  }
}

/** Mounted as a volume, for a variable of the environment would be in every crash report. */
function secretVolume([path, { name, key, provider }]: [string, SecretReference]): Volume {
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
    secret: {
      secretName: name,
      // Owner and group; the group is the pod's.
      defaultMode: 0o440,
      items: [{ key, path: posix.basename(path) }],
    },
  };
}

/** After the folder of the file, in which there is no other. */
function secretVolumeName(path: string): string {
  return `secret-${posix.basename(posix.dirname(path))}`;
}

function mountArgs({ config, secretFiles, volumes }: PodPlan): VolumeMount[] {
  return [
    ...(config === null ? [] : [{ name: "config", mountPath: CONFIG_DIRECTORY, readOnly: true }]),
    ...entriesByKey(secretFiles).map(([path]) => ({
      name: secretVolumeName(path),
      mountPath: posix.dirname(path),
      readOnly: true,
    })),
    ...volumes.map(({ name, path, readOnly }) => ({
      name,
      mountPath: path,
      ...(readOnly ? { readOnly } : {}),
    })),
  ];
}

function entriesByKey<T>(record: Readonly<Record<string, T>>): [string, T][] {
  return Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
}
