/** The containers of a stack as a Compose file: https://github.com/compose-spec/compose-spec/blob/main/spec.md */
import { stringify } from "yaml";
import { isTask } from "../../containers/container.ts";
import type { DockerContainer } from "../../docker/container-args.ts";
import type { DockerStack } from "../../docker/docker-stack.ts";
import { SECRET_NAMES } from "../../docker/host.ts";
import { imageNamed } from "../../images.ts";
import { jsonDigest } from "../../plain-data.ts";
import { SECRET_FOLDER } from "../context.ts";

/** Name of the Compose project: `docker compose -p engine-room ps`. */
const PROJECT = "engine-room";

/** Files of containers on the machine, each in a folder that is named by its container and its content. */
const FILES_FOLDER = "/etc/engine-room/files";

const HASH_DIGITS = 12;

/** A Compose file with the files of its containers. */
export type ComposeProject = ReturnType<typeof composeProject>;

interface Logging {
  readonly driver: string;
  readonly options: Readonly<Record<string, string>>;
}

/** Same stack, same bytes: keys are sorted. Networks and volumes exist before Compose starts: their data outlive a project. */
export function composeProject(stack: DockerStack, logging: Logging | null) {
  const services = Object.fromEntries(
    stack.containers.map((planned) => [planned.container.name, service(planned, stack, logging)]),
  );
  const files = stack.containers.flatMap(containerFiles);
  const secrets = new Set(stack.containers.flatMap(({ container }) => Object.values(container.secretFiles)));
  const external = { external: true };
  const document = {
    name: PROJECT,
    services,
    configs: Object.fromEntries(files.map(({ config, hostPath }) => [config, { file: hostPath }])),
    networks: { [stack.network]: external },
    volumes: Object.fromEntries(stack.volumes.map(({ name }) => [name, external])),
    secrets: Object.fromEntries(
      [...secrets].map((name) => [SECRET_NAMES[name], { file: `${SECRET_FOLDER}/${SECRET_NAMES[name]}` }]),
    ),
  };
  return {
    text: stringify(document, escaped, {
      aliasDuplicateObjects: false,
      lineWidth: 0,
      sortMapEntries: true,
      // Quotes texts that a parser of YAML 1.1 reads as another type, such as `no`.
      version: "1.1",
    }),
    /** Texts by absolute path on the machine. */
    files: Object.fromEntries(files.map(({ hostPath, text }) => [hostPath, text])),
    /** Content address of each service by name, with its files, without dependencies: 64 hexadecimal digits. */
    digests: Object.fromEntries(
      Object.entries(services).map(([name, { depends_on: _, ...value }]) => [name, jsonDigest(value)]),
    ),
  };
}

/** The machine sets it to another text if a secret has another value. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Compose.
const SECRET_DIGEST = "${SECRET_DIGEST-}";

/** Compose replaces `$NAME` and `${NAME}`, and `$$` by `$`. */
function escaped(_key: unknown, value: unknown): unknown {
  return typeof value === "string" && value !== SECRET_DIGEST ? value.replaceAll("$", "$$$$") : value;
}

/** Another content has another path: the stack that runs keeps its files until it is replaced. */
function containerFiles({ container: { name, files } }: DockerContainer) {
  const folder = `${FILES_FOLDER}/${name}-${filesDigest(files)}`;
  return Object.entries(files).map(([containerPath, text]) => {
    const fileName = containerPath.slice(containerPath.lastIndexOf("/") + 1);
    return { config: `${name}-${fileName}`, containerPath, hostPath: `${folder}/${fileName}`, text };
  });
}

function filesDigest(files: Readonly<Record<string, string>>): string {
  return jsonDigest(files).slice(0, HASH_DIGITS);
}

function service(planned: DockerContainer, stack: DockerStack, logging: Logging | null) {
  const { args, container } = planned;
  const image = imageNamed(container.image, stack.images);
  const secrets = Object.entries(container.secretFiles);
  return {
    container_name: args.name,
    image: image.reference,
    // The machine logs in to registries and pulls before: a start without them needs no registry.
    pull_policy: "never",
    entrypoint: args.entrypoints,
    command: args.command,
    environment: nonEmpty(args.envs),
    user: args.user,
    read_only: args.readOnly === true ? true : undefined,
    ipc: args.ipcMode,
    shm_size: args.shmSize === undefined ? undefined : `${args.shmSize}m`,
    ulimits: nonEmpty(
      Object.fromEntries((args.ulimits ?? []).map(({ name, soft, hard }) => [name, { soft, hard }])),
    ),
    tmpfs: nonEmpty(Object.entries(args.tmpfs ?? {}).map(([path, options]) => `${path}:${options}`)),
    volumes: nonEmpty(
      args.mounts
        // The secret below.
        .filter(({ target }) => container.secretFiles[target] === undefined)
        .map(({ type, source, target, readOnly }) => ({
          ...{ type, source, target, read_only: readOnly },
          // Docker would make an empty folder of a file system that is not mounted.
          ...(type === "bind" ? { bind: { create_host_path: false } } : {}),
        })),
    ),
    configs: nonEmpty(
      containerFiles(planned).map(({ config, containerPath }) => ({ source: config, target: containerPath })),
    ),
    secrets: nonEmpty(secrets.map(([target, name]) => ({ source: SECRET_NAMES[name], target }))),
    networks: [stack.network],
    ports: nonEmpty(args.ports.map(({ ip, external, internal }) => `${ip}:${external}:${internal}`)),
    deploy: gpus(planned),
    healthcheck: healthcheck(planned),
    depends_on: dependencies(planned, stack),
    // Docker restarts a service that fails, but starts none when the machine starts: engine-room.service does, once secrets
    // and disks are ready.
    restart: isTask(container) ? "no" : "on-failure",
    stop_grace_period: `${args.stopTimeout}s`,
    labels: {
      ...Object.fromEntries(args.labels.map(({ label, value }) => [label, value])),
      // Compose replaces a container for another label, but not for another file. A build that has ended needs no secret.
      ...(Object.keys(container.files).length === 0
        ? {}
        : { "engine-room.files": filesDigest(container.files) }),
      ...(secrets.length === 0 || isTask(container) ? {} : { "engine-room.secrets": SECRET_DIGEST }),
    },
    logging: logging ?? { driver: args.logDriver, options: args.logOpts },
  };
}

function nonEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

function gpus({ gpus }: DockerContainer): object | undefined {
  if (gpus === null) return undefined;
  const chosen = gpus === "all" ? { count: "all" } : { device_ids: gpus.map(String) };
  return {
    resources: { reservations: { devices: [{ driver: "nvidia", ...chosen, capabilities: ["gpu"] }] } },
  };
}

function healthcheck({ args }: DockerContainer): object | undefined {
  if (args.healthcheck === undefined) return undefined;
  const { tests, interval, timeout, startPeriod, retries } = args.healthcheck;
  return { test: tests, interval, timeout, start_period: startPeriod, retries };
}

/**
 * A server without its engine has nothing to load, so it requires its build. A gateway answers without its databases, and
 * reports missing databases. Builds run one after the other because memory and disk are planned for one at a time.
 */
function dependencies(
  { after, container }: DockerContainer,
  { containers }: DockerStack,
): object | undefined {
  return nonEmpty(
    Object.fromEntries(
      after.map((name) => {
        const predecessor = containers.find(({ args }) => args.name === name);
        if (predecessor === undefined) throw new Error(`The stack has no container ${name}`);
        const isBuild = isTask(predecessor.container);
        const condition = isBuild ? "service_completed_successfully" : "service_healthy";
        return [predecessor.container.name, { condition, required: isBuild && !isTask(container) }];
      }),
    ),
  );
}
