/** A container as inputs of @pulumi/docker's Container. */
import type * as docker from "@pulumi/docker";
import { type Container, type ContainerCheck, isTask } from "../containers/container.ts";
import { nodeCheck } from "../containers/databases.ts";
import { type Plain, sortedByKey } from "../plain-data.ts";
import type { SecretName } from "./host.ts";
import { type DockerVolume, labels, objectName } from "./host-objects.ts";
import type { DockerImage } from "./images.ts";

/** One container on a Docker host. */
export interface DockerContainer {
  readonly container: Container;
  readonly args: ContainerArgs;
  /** Numbers as `nvidia-smi` has them; null: none. */
  readonly gpus: "all" | readonly number[] | null;
  /** Files by absolute path that hold one secret and nothing else; the component adds them to `uploads`. */
  readonly secretFiles: Readonly<Record<string, SecretName>>;
  /** Names of tasks that must have ended, or services that must have been started, before. */
  readonly after: readonly string[];
}

/** Without the id of the image; names of network and volumes are those of the host. */
export type ContainerArgs = Omit<PlannedArgs, GivenArg> & {
  readonly [Arg in GivenArg]: NonNullable<PlannedArgs[Arg]>;
};
type GivenArg = "name" | "envs" | "mounts" | "ports" | "networksAdvanced" | "labels";
type PlannedArgs = Omit<Plain<docker.ContainerArgs>, "image">;

/** Facts of the host that a container needs. */
export interface HostPlacement {
  /** Name of the stack. */
  readonly stack: string;
  readonly image: DockerImage;
  readonly gpus: DockerContainer["gpus"];
  /** Ports of the host, by the name of the container's port; ports without one are not published. */
  readonly publishedPorts: Readonly<Record<string, number>>;
  /** Address of the host for them: `127.0.0.1` unless the stack says otherwise. */
  readonly publishedAddress: string;
  /** Names of volumes or absolute paths of folders of the host, by their purpose; databases have their role's. */
  readonly sources: Readonly<Partial<Record<DockerVolume["purpose"], string>>>;
  /** File of the host with the model hub's token; null: the stack file has the token, or no model needs one. */
  readonly hubTokenPath: string | null;
  readonly after: readonly string[];
}

const MIB = 1024 ** 2;

/**
 * Readable by all users of the container: the provider copies files as root's, and most images run as another user.
 * Outside of the container they lie where only root of the host can look.
 */
export const FILE_PERMISSIONS = "0444";

/**
 * As NVIDIA's documents start their containers: memory that the GPU reads is locked without limit, and threads have
 * stacks of 64 MiB (https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/README.md).
 */
const GPU_IMAGE_LIMITS = [
  { name: "memlock", soft: -1, hard: -1 },
  { name: "stack", soft: 67_108_864, hard: 67_108_864 },
];

/** `/tmp` of a container that can write nowhere else: sockets and the like. */
const SCRATCH_TMPFS = { "/tmp": `size=${64 * MIB},mode=1777` };

/** Variable by which builders know the reference of their image, which the manifests of their results state. */
const IMAGE_VARIABLE = "ENGINE_ROOM_IMAGE";

/** A check that takes longer means that the server hangs; three failures in a row are not an accident. */
const HEALTH = { intervalSeconds: 10, timeoutSeconds: 5, retries: 3 } as const;

/** Further failures before `up` gives a service up, for a host that is slow to run the check itself. */
const SPARE_HEALTH_CHECKS = 2;

/** @throws Error if a container has files and a read-only root, into which Docker copies none. */
export function dockerContainer(container: Container, placement: HostPlacement): DockerContainer {
  const { role, model, stopSeconds, entrypoint, user, sharedMemoryBytes } = container;
  const { stack, image, gpus, hubTokenPath, after } = placement;
  const secretFiles = Object.entries(container.secretFiles).filter(
    ([, secret]) => secret !== "hubToken" || hubTokenPath === null,
  );
  const name = objectName(stack, container.name);
  const uploads = Object.entries(sortedByKey(container.files)).map(([file, content]) => ({
    file,
    content,
    permissions: FILE_PERMISSIONS,
  }));
  if (container.readOnlyRoot && uploads.length + secretFiles.length > 0)
    throw new Error(`The container ${name} has files and a read-only root, into which Docker copies none.`);
  const environment = isTask(container)
    ? { ...container.environment, [IMAGE_VARIABLE]: image.reference }
    : container.environment;
  return {
    ...{ container, gpus, after },
    secretFiles: Object.fromEntries(secretFiles),
    args: {
      name,
      ...(entrypoint === null ? {} : { entrypoints: [...entrypoint] }),
      ...(container.arguments.length === 0 ? {} : { command: [...container.arguments] }),
      envs: Object.entries(sortedByKey(environment)).map(([key, value]) => `${key}=${value}`),
      ...(uploads.length === 0 ? {} : { uploads }),
      mounts: mounts(container, placement),
      tmpfs: container.readOnlyRoot ? SCRATCH_TMPFS : {},
      ...gpuArgs(gpus),
      // Not `host`: with it `shmSize` has no effect, and every process of the host can read along.
      ipcMode: "private",
      ...(sharedMemoryBytes === null ? {} : { shmSize: Math.ceil(sharedMemoryBytes / MIB) }),
      ulimits: ["trtllm", "encoders"].includes(container.image) ? GPU_IMAGE_LIMITS : [],
      ...(user === null ? {} : { user }),
      readOnly: container.readOnlyRoot,
      networksAdvanced: [{ name: objectName(stack, "network"), aliases: [container.name] }],
      ports: publishedPorts(container, placement),
      ...healthArgs(container),
      ...(isTask(container)
        ? // Its logs come back with its exit code, for the error that quotes them.
          { mustRun: false, attach: true, logs: true, restart: "no" }
        : { mustRun: true, restart: "unless-stopped" }),
      stopTimeout: stopSeconds,
      // The provider stops a container with this one, and kills it at once without.
      destroyGraceSeconds: stopSeconds,
      logDriver: "json-file",
      logOpts: { "max-file": "3", "max-size": "10m" },
      labels: labels(stack, { role, model, key: container.key }),
    },
  };
}

/** In the order in which the provider reads them back. */
function publishedPorts(
  { ports }: Container,
  { publishedPorts, publishedAddress: ip }: HostPlacement,
): ContainerArgs["ports"] {
  return Object.entries(ports)
    .flatMap(([name, internal]) => {
      const external = publishedPorts[name];
      return external === undefined ? [] : [{ internal, external, ip }];
    })
    .sort((a, b) => a.internal - b.internal);
}

/** Folders that need no volume are in the container's own layer. */
function mounts(container: Container, { sources, hubTokenPath }: HostPlacement): ContainerArgs["mounts"] {
  const mount = (source: string, target: string, readOnly: boolean) => ({
    type: source.startsWith("/") ? "bind" : "volume",
    source,
    target,
    readOnly,
  });
  const folders = container.mounts.flatMap(({ purpose, path, readOnly }) => {
    if (purpose === "weights") return [mount(path, path, readOnly)];
    if (purpose !== "store" && purpose !== "scratch" && purpose !== "data") return [];
    const source = sources[purpose === "data" ? (container.role as "mongo" | "vector") : purpose];
    if (source === undefined) throw new Error(`The container ${container.name} has no ${purpose}.`);
    return [mount(source, path, readOnly)];
  });
  const tokens = Object.entries(container.secretFiles).filter(([, secret]) => secret === "hubToken");
  return [
    ...folders,
    ...(hubTokenPath === null ? [] : tokens.map(([path]) => mount(hubTokenPath, path, true))),
  ];
}

/**
 * `gpus` does not accept a list: the provider strips the quotes that keep `device=0,1` together (terraform-provider-docker 4.5,
 * `normalizeGPUOptionString`).
 */
function gpuArgs(gpus: DockerContainer["gpus"]): Pick<PlannedArgs, "gpus" | "deviceRequests"> {
  if (gpus === null) return {};
  if (gpus === "all") return { gpus };
  return { deviceRequests: [{ driver: "nvidia", deviceIds: gpus.map(String), capabilities: ["gpu"] }] };
}

/** The check, and how long the provider waits for its success. */
function healthArgs({ readiness, startSeconds, image }: Container) {
  if (readiness === null || startSeconds === null) return {};
  const { intervalSeconds, timeoutSeconds, retries } = HEALTH;
  const checksSeconds = (retries + SPARE_HEALTH_CHECKS) * (intervalSeconds + timeoutSeconds);
  return {
    healthcheck: {
      tests: ["CMD", ...checkCommand(readiness, image)],
      interval: duration(intervalSeconds),
      timeout: duration(timeoutSeconds),
      startPeriod: duration(startSeconds),
      retries,
    },
    wait: true,
    waitTimeout: Math.ceil(startSeconds + checksSeconds),
  };
}

/** Images of services have Node.js, all others Python. */
function checkCommand(check: ContainerCheck, image: DockerImage["name"]): readonly string[] {
  if (check.kind === "exec") return check.command;
  const url = `http://127.0.0.1:${check.port}${check.path}`;
  if (image === "services") return nodeCheck(url);
  const program = `import urllib.request; urllib.request.urlopen("${url}", timeout=${HEALTH.timeoutSeconds - 1})`;
  return ["python3", "-c", program];
}

/** As the provider reads it back: `5s`, `2m0s`, `1h0m30s`. Another text of the same length would be a change at each `up`. */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  if (hours > 0) return `${hours}h${minutes}m${whole % 60}s`;
  return minutes > 0 ? `${minutes}m${whole % 60}s` : `${whole}s`;
}

/** Whether a service has a GPU that a task needs: the service goes before the task runs, and comes back after it. */
export function stopsFor(service: DockerContainer, task: DockerContainer): boolean {
  if (isTask(service.container) || !isTask(task.container)) return false;
  const [a, b] = [service.gpus, task.gpus];
  if (a === null || b === null) return false;
  return a === "all" || b === "all" || a.some((index) => b.includes(index));
}
