/** Everything that one Docker host runs of a plan, of either tier. */
import { ConfigError } from "../../problems.ts";
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { buildContainers } from "../containers/builds.ts";
import type { BuildContainer, Container, ContainerSettings } from "../containers/container.ts";
import { databaseContainers } from "../containers/databases.ts";
import { gatewayContainer } from "../containers/gateway.ts";
import { cpuServerContainer, encodersContainer, modelContainer } from "../containers/servers.ts";
import type { DockerCpuPlan } from "../cpu-stack.ts";
import type { Endpoints } from "../endpoints.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import { imageNamed } from "../image-named.ts";
import type { TritonPorts } from "../repository/launch.ts";
import { type DockerContainer, dockerContainer, type HostPlacement } from "./container-args.ts";
import { SECRET_FILES } from "./databases.ts";
import { databasesOf, dockerEndpoints, dockerNotes } from "./endpoints.ts";
import { buildGpus, encoderGpus, gpuOption, modelGpus } from "./gpus.ts";
import { type DockerLabel, labels, objectName } from "./labels.ts";
import { type DockerImage, IMAGE_NAMES, type ImageName } from "./types.ts";
import { type DockerVolume, databaseVolumeName, volumeName, volumes } from "./volumes.ts";

type DockerPlan = DockerCpuPlan | DockerGpuPlan;

export interface DockerStack {
  /** Network of the stack's containers. */
  readonly network: string;
  /** Labels of the network. */
  readonly labels: DockerLabel[];
  readonly volumes: readonly DockerVolume[];
  readonly images: readonly DockerImage[];
  /** Builds first; each container comes after all that its `after` names. */
  readonly containers: readonly DockerContainer[];
  readonly endpoints: Endpoints;
  /** Notes for users, as in the outputs. */
  readonly notes: readonly string[];
}

interface DockerStackOptions {
  /** Name of the stack: the host may have several. */
  readonly stack: string;
  /** At least {@link neededImages}; others are left out. */
  readonly images: readonly DockerImage[];
}

/**
 * Containers, volumes and network of a stack, as data. Pure: same plan and images, same bytes.
 *
 * @throws ConfigError where Docker has no objects of the stack's name.
 * @throws Error where an image that a container needs was not given.
 */
export function dockerStack(plan: DockerPlan, { stack, images }: DockerStackOptions): DockerStack {
  refuseName(stack);
  const kept = volumes(stack, plan);
  const needed = neededImages(plan).map((name) => imageNamed(name, images));
  return {
    network: objectName(stack, "network"),
    labels: labels(stack),
    volumes: kept,
    images: needed,
    containers: hostContainers(plan, stack).map(({ container, ...placement }) =>
      dockerContainer(container, {
        ...placement,
        stack,
        image: imageNamed(container.image, needed),
        sources: sources(plan, stack, container),
        hubTokenPath: hubTokenPath(plan),
      }),
    ),
    endpoints: dockerEndpoints(plan),
    notes: dockerNotes(plan, kept),
  };
}

/** Images that a plan's containers run, in the order of the table of images. */
export function neededImages(plan: DockerPlan): readonly ImageName[] {
  const needed = new Set<ImageName>([
    "services",
    ...(plan.tier === "cpu"
      ? (["cpu-models"] as const)
      : (["trtllm", ...(plan.encoders === null ? [] : (["encoders"] as const))] as const)),
    ...(databasesOf(plan)?.kind === "container" ? (["mongo", "qdrant"] as const) : []),
  ]);
  return IMAGE_NAMES.filter((name) => needed.has(name));
}

/** A container, and what the host has for it. */
interface HostContainer extends Pick<HostPlacement, "gpus" | "publishedPorts" | "after"> {
  readonly container: Container;
}

/** Each behind all that it comes after. */
function hostContainers(plan: DockerPlan, stack: string): readonly HostContainer[] {
  const servers = plan.tier === "cpu" ? cpuServers(plan) : gpuContainers(plan, stack);
  const own = ownDatabases(plan);
  const databases = own === null ? [] : databaseContainers(own.kind);
  return [
    ...servers,
    ...databases.map((container): HostContainer => {
      const { mongo = 0, vector = 0 } = own?.ports ?? {};
      const publishedPorts =
        container.name === "mongo" ? onLoopback({ mongo }) : onLoopback({ http: vector });
      return { container, gpus: null, publishedPorts, after: [] };
    }),
    {
      container: gatewayContainer(plan, settings(plan)),
      gpus: null,
      publishedPorts: { http: { hostPort: plan.gateway.port, hostAddress: plan.host.gatewayAddress } },
      after: databases.map(({ name }) => objectName(stack, name)),
    },
  ];
}

function ownDatabases(plan: DockerPlan) {
  const databases = databasesOf(plan);
  return databases === null || databases.kind === "external" ? null : databases;
}

/** The encoders first, then a Triton for each model. */
function cpuServers(plan: DockerCpuPlan): readonly HostContainer[] {
  return [null, ...plan.models].map((model) => ({
    container: cpuServerContainer(plan, model, settings(plan)),
    gpus: null,
    publishedPorts: onLoopback((model ?? plan.encoders).ports),
    after: [],
  }));
}

/**
 * Builds run one after the other: memory and disk of the machine are planned for one conversion at a time, and TensorRT
 * measures kernels on a GPU that it has to itself. A server waits for builds of what it loads, and for all that use its GPUs,
 * whose memory it would take.
 */
function gpuContainers(plan: DockerGpuPlan, stack: string): readonly HostContainer[] {
  const builds = buildContainers(plan, settings(plan)).map((container) => ({
    container,
    indices: container.gpus === 0 ? [] : gpusOfBuild(plan, container),
    name: objectName(stack, container.name),
  }));
  const server = (
    container: Container,
    indices: readonly number[],
    ports: TritonPorts,
    needs: (build: BuildContainer) => boolean,
  ): HostContainer => ({
    container,
    gpus: gpuOption(plan, indices),
    publishedPorts: onLoopback(ports),
    after: builds
      .filter((build) => needs(build.container) || build.indices.some((index) => indices.includes(index)))
      .map(({ name }) => name),
  });
  const encoders = encodersContainer(plan, settings(plan));
  const { modelPorts, encoderPorts } = plan.host;
  return [
    ...builds.map(({ container, indices }, index) => ({
      container,
      gpus: gpuOption(plan, indices),
      publishedPorts: {},
      after: builds.slice(Math.max(0, index - 1), index).map(({ name }) => name),
    })),
    ...plan.models.map((model, index) =>
      server(
        modelContainer(plan, model, settings(plan)),
        modelGpus(plan, model.spec),
        modelPorts[index] as TritonPorts,
        ({ models }) => models.includes(model.name),
      ),
    ),
    ...(encoders === null || encoderPorts === null
      ? []
      : [server(encoders, encoderGpus(plan), encoderPorts, ({ role }) => role === "encoderBuild")]),
  ];
}

function gpusOfBuild(plan: DockerGpuPlan, { role, model: name }: BuildContainer): readonly number[] {
  const model = plan.models.find((candidate) => candidate.name === name);
  return role === "encoderBuild" || model === undefined ? encoderGpus(plan) : buildGpus(plan, model.spec);
}

function settings(plan: DockerPlan): ContainerSettings {
  const hasToken = plan.tier === "gpu" && plan.host.hubToken !== null;
  return {
    hubTokenFile: hasToken ? SECRET_FILES.hubToken : null,
    apiKeysFile: null,
    home: null,
    answersBeforeEnd: false,
    copiedEngines: [],
  };
}

function hubTokenPath(plan: DockerPlan): string | null {
  if (plan.tier === "cpu" || plan.host.hubToken?.kind !== "file") return null;
  return plan.host.hubToken.path;
}

function sources(plan: DockerPlan, stack: string, { role }: Container): HostPlacement["sources"] {
  const own = ownDatabases(plan);
  return {
    ...(plan.tier === "cpu" ? {} : { store: plan.host.storePath ?? volumeName(stack, "store") }),
    scratch: volumeName(stack, "scratch"),
    ...(own !== null && (role === "mongo" || role === "vector")
      ? { data: databaseVolumeName(stack, own.kind, role) }
      : {}),
  };
}

function onLoopback<Name extends string>(
  ports: Readonly<Record<Name, number>>,
): HostPlacement["publishedPorts"] {
  return Object.fromEntries(
    Object.entries<number>(ports).map(([name, hostPort]) => [name, { hostPort, hostAddress: LOOPBACK }]),
  );
}

/** First characters of containers' and volumes' names that Docker accepts (`daemon/names` of moby/moby). */
const STACK_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

function refuseName(stack: string): void {
  if (STACK_NAME.test(stack)) return;
  throw new ConfigError([
    {
      path: "(name of the stack)",
      value: JSON.stringify(stack),
      reason:
        "The names of containers and volumes begin with it, and Docker wants a letter or digit first, then letters, digits, `_`, `.` and `-`.",
      fix: "Give the stack another name with `--stack`.",
    },
  ]);
}
