/** A planned container as inputs of @pulumi/docker's Container. Pure: the same container gives the same inputs. */
import type * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import { readySeconds } from "../../infra/plan/docker/ready-seconds.ts";
import {
  type DockerContainer,
  type DockerMount,
  LOG_LIMITS,
  type SecretName,
} from "../../infra/plan/docker/types.ts";

/** What the plan knows by name only, made or given elsewhere. */
export interface ContainerPlacement {
  /** Id of the image, as the host's engine has it. */
  readonly image: pulumi.Input<string>;
  /** Name of the stack's network. */
  readonly network: pulumi.Input<string>;
  /** Names of the stack's volumes, by themselves: whoever mounts one waits for it. */
  readonly volumes: Readonly<Record<string, pulumi.Input<string>>>;
  readonly secrets: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
}

type LifecycleArgs = Pick<
  docker.ContainerArgs,
  "mustRun" | "attach" | "logs" | "restart" | "wait" | "waitTimeout"
>;

const MIB = 1024 ** 2;

/**
 * Readable by all users of the container: the provider copies files as root's, and most images run as another user.
 * Outside of the container they lie where only root of the host can look.
 */
const FILE_PERMISSIONS = "0444";

/**
 * Maps every option that is planned; what differs between tasks and services is decided here too.
 *
 * @throws Error where the container has files and a read-only root: Docker copies nothing into such a container.
 */
export function containerArgs(
  container: DockerContainer,
  placement: ContainerPlacement,
): docker.ContainerArgs {
  const { entrypoint, health, memoryMiB, shmBytes, stopTimeoutSeconds, user } = container;
  const uploads = uploadedFiles(container, placement);
  return {
    name: container.name,
    image: placement.image,
    ...(entrypoint === null ? {} : { entrypoints: [...entrypoint] }),
    ...(container.command.length === 0 ? {} : { command: [...container.command] }),
    envs: entriesByKey(container.environment).map(([key, value]) => `${key}=${value}`),
    ...(uploads === undefined ? {} : { uploads }),
    mounts: container.mounts.map((mount) => mountArgs(mount, placement)),
    tmpfs: Object.fromEntries(
      entriesByKey(container.tmpfsBytes).map(([path, bytes]) => [path, `size=${bytes},mode=1777`]),
    ),
    ...gpuArgs(container.gpus),
    ipcMode: container.ipc,
    ...(shmBytes === null ? {} : { shmSize: Math.ceil(shmBytes / MIB) }),
    // Without the second one Docker allows as much swap again, and a swapped model serves nobody.
    ...(memoryMiB === null ? {} : { memory: memoryMiB, memorySwap: memoryMiB }),
    ulimits: entriesByKey(container.ulimits).map(([name, limit]) => ({ name, soft: limit, hard: limit })),
    ...(user === null ? {} : { user }),
    readOnly: container.readOnlyRoot,
    networksAdvanced: [{ name: placement.network, aliases: [container.networkAlias] }],
    // In the order in which the provider reads them back.
    ports: container.ports
      .toSorted((a, b) => a.containerPort - b.containerPort)
      .map(({ containerPort, hostPort, hostAddress }) => ({
        internal: containerPort,
        external: hostPort,
        ip: hostAddress,
      })),
    ...(health === null
      ? {}
      : {
          healthcheck: {
            tests: ["CMD", ...health.test],
            interval: duration(health.intervalSeconds),
            timeout: duration(health.timeoutSeconds),
            startPeriod: duration(health.startPeriodSeconds),
            retries: health.retries,
          },
        }),
    ...lifecycleArgs(container),
    stopTimeout: stopTimeoutSeconds,
    // The provider stops a container with this one, and kills it at once without.
    destroyGraceSeconds: stopTimeoutSeconds,
    logDriver: LOG_LIMITS.driver,
    logOpts: { "max-file": `${LOG_LIMITS.files}`, "max-size": `${LOG_LIMITS.fileMiB}m` },
    labels: labelArgs(container.labels),
  };
}

/** Labels as the provider takes them, sorted. */
export function labelArgs(labels: Readonly<Record<string, string>>): { label: string; value: string }[] {
  return entriesByKey(labels).map(([label, value]) => ({ label, value }));
}

/** As the provider reads it back: `5s`, `2m0s`, `1h0m30s`. Any other text of the same length would be a change at each `up`. */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  if (hours > 0) return `${hours}h${minutes}m${whole % 60}s`;
  return minutes > 0 ? `${minutes}m${whole % 60}s` : `${whole}s`;
}

function lifecycleArgs(container: DockerContainer): LifecycleArgs {
  if (container.lifecycle === "task") {
    // Its logs come back with its exit code, for the error that quotes them.
    return { mustRun: false, attach: true, logs: true, restart: "no" };
  }
  const waitTimeout = readySeconds(container);
  return {
    mustRun: true,
    restart: "unless-stopped",
    ...(waitTimeout === null ? {} : { wait: true, waitTimeout }),
  };
}

/** The container's files, sorted by path. With a secret among them the whole list is one: state and diffs show none of it. */
function uploadedFiles(
  { name, files, secretFiles, readOnlyRoot }: DockerContainer,
  { secrets }: ContainerPlacement,
): pulumi.Input<docker.types.input.ContainerUpload[]> | undefined {
  const contents: Record<string, pulumi.Input<string>> = { ...files };
  for (const [path, secret] of Object.entries(secretFiles)) {
    const value = secrets[secret];
    if (value === undefined) throw new Error(`No value for the secret ${secret} of the container ${name}`);
    contents[path] = value;
  }
  const uploads = entriesByKey(contents).map(([file, content]) => ({
    file,
    content,
    permissions: FILE_PERMISSIONS,
  }));
  if (uploads.length === 0) return undefined;
  if (readOnlyRoot) {
    throw new Error(
      `The container ${name} has ${uploads.length} files and a read-only root, into which Docker copies none.`,
    );
  }
  // The provider keeps them as a set, so a mark on one of them could end up on another.
  return Object.keys(secretFiles).length === 0 ? uploads : pulumi.secret(uploads);
}

function mountArgs(
  { source, path, readOnly }: DockerMount,
  { volumes }: ContainerPlacement,
): docker.types.input.ContainerMount {
  if ("hostPath" in source) return { type: "bind", source: source.hostPath, target: path, readOnly };
  return { type: "volume", source: volumes[source.volume] ?? source.volume, target: path, readOnly };
}

/**
 * `gpus` takes no list: the provider strips the quotes that keep `device=0,1` together (terraform-provider-docker 4.5,
 * `normalizeGPUOptionString`).
 */
function gpuArgs(
  gpus: DockerContainer["gpus"],
): Pick<docker.ContainerArgs, "gpus"> | Pick<docker.ContainerArgs, "deviceRequests"> {
  if (gpus === null) return {};
  if (gpus === "all") return { gpus };
  return { deviceRequests: [{ driver: "nvidia", deviceIds: gpus.map(String), capabilities: ["gpu"] }] };
}

function entriesByKey<T>(record: Readonly<Record<string, T>>): [string, T][] {
  return Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
}
