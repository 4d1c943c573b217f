/** Everything that one Docker host runs of a plan, of either tier. */
import { ConfigError } from "../../problems.ts";
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { buildContainers } from "../containers/builds.ts";
import {
  type BuildContainer,
  type Container,
  type ContainerSettings,
  isTask,
} from "../containers/container.ts";
import { databaseContainers } from "../containers/databases.ts";
import { gatewayContainer } from "../containers/gateway.ts";
import { cpuServerContainer, encodersContainer, modelContainer } from "../containers/servers.ts";
import type { Endpoints } from "../endpoints.ts";
import { hostGpuIndices } from "../fit/placement.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import { imageNamed } from "../images.ts";
import type { PoolSpec } from "../spec.ts";
import { type DockerContainer, dockerContainer, type HostPlacement } from "./container-args.ts";
import { dockerEndpoints, dockerNotes } from "./endpoints.ts";
import { SECRET_FILES } from "./host.ts";
import {
  type DockerLabel,
  type DockerPlan,
  type DockerVolume,
  databasesOf,
  labels,
  objectName,
  tritonPorts,
  volumes,
} from "./host-objects.ts";
import type { DockerImage } from "./images.ts";

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
  /** Notes for the owner of the host. */
  readonly notes: readonly string[];
}

interface DockerStackOptions {
  /** Name of the stack: the host may have several. */
  readonly stack: string;
  /** Those of `neededImages`. */
  readonly images: readonly DockerImage[];
}

/**
 * Containers, volumes and network of a stack, as data. Pure: same plan and images, same bytes.
 *
 * @throws ConfigError if Docker has no objects of the stack's name.
 * @throws Error if an image that a container needs was not given.
 */
export function dockerStack(plan: DockerPlan, { stack, images }: DockerStackOptions): DockerStack {
  refuseName(stack);
  const kept = volumes(stack, plan);
  const all = containers(plan);
  return {
    network: objectName(stack, "network"),
    labels: labels(stack),
    volumes: kept,
    images,
    containers: all.map((container) =>
      dockerContainer(container, {
        stack,
        image: imageNamed(container.image, images),
        gpus: gpuOption(plan, gpuIndices(plan, container)),
        publishedPorts: publishedPorts(plan, container),
        publishedAddress: container.role === "gateway" ? plan.host.gatewayAddress : LOOPBACK,
        sources: {
          ...Object.fromEntries(kept.map(({ purpose, name }) => [purpose, name])),
          ...(plan.tier === "gpu" && plan.host.storePath !== null ? { store: plan.host.storePath } : {}),
        },
        hubTokenPath:
          plan.tier === "gpu" && plan.host.hubToken?.kind === "file" ? plan.host.hubToken.path : null,
        after: predecessors(plan, container, all).map(({ name }) => objectName(stack, name)),
      }),
    ),
    endpoints: dockerEndpoints(plan),
    notes: dockerNotes(plan, kept),
  };
}

/** Each behind all that it comes after. */
function containers(plan: DockerPlan): readonly Container[] {
  const hasToken = plan.tier === "gpu" && plan.host.hubToken !== null;
  const settings: ContainerSettings = {
    hubTokenFile: hasToken ? SECRET_FILES.hubToken : null,
    apiKeysFile: null,
    home: null,
    answersBeforeEnd: false,
    copiedEngines: [],
  };
  const databases = databasesOf(plan);
  return [
    ...(plan.tier === "cpu"
      ? [null, ...plan.models].map((model) => cpuServerContainer(plan, model, settings))
      : [
          ...buildContainers(plan, settings),
          ...plan.models.map((model) => modelContainer(plan, model, settings)),
          ...[encodersContainer(plan, settings)].filter((container) => container !== null),
        ]),
    ...(databases === null || databases.kind === "external" ? [] : databaseContainers(databases.kind)),
    gatewayContainer(plan, settings),
  ];
}

/**
 * Builds run one after the other: memory and disk of the machine are planned for one conversion at a time, and TensorRT
 * measures kernels on a GPU that nothing else uses. A server waits for builds of the files that it loads, and for all builds on
 * its GPUs, whose memory it would take. The gateway waits for its databases.
 */
function predecessors(
  plan: DockerPlan,
  container: Container,
  all: readonly Container[],
): readonly Container[] {
  const builds = all.filter(isTask);
  const { role, model } = container;
  if (isTask(container)) return builds.slice(0, builds.indexOf(container)).slice(-1);
  if (role === "gateway") return all.filter((other) => other.role === "mongo" || other.role === "vector");
  const own = gpuIndices(plan, container);
  return builds.filter(
    (build) =>
      (model !== null && (build as BuildContainer).models.includes(model)) ||
      (role === "encoders" && build.role === "encoderBuild") ||
      gpuIndices(plan, build).some((index) => own.includes(index)),
  );
}

/** By the name of the container's port. */
function publishedPorts(plan: DockerPlan, { role, model: name }: Container): HostPlacement["publishedPorts"] {
  const databases = databasesOf(plan);
  const own = databases === null || databases.kind === "external" ? null : databases.ports;
  const tritons = tritonPorts(plan);
  switch (role) {
    case "gateway":
      return { http: plan.gateway.port };
    case "mongo":
      return own === null ? {} : { mongo: own.mongo };
    case "vector":
      return own === null ? {} : { http: own.vector };
    case "encoders":
      return { ...tritons.encoders };
    case "triton":
      return { ...tritons.models[plan.models.findIndex((model) => model.name === name)] };
    default:
      return {};
  }
}

/** The only pool of the plan. */
export function hostPool({ spec }: DockerGpuPlan): PoolSpec {
  const [pool] = spec.pools;
  if (pool === undefined) throw new Error("A planned stack on a Docker host has a host.");
  return pool;
}

/** Numbers of the GPUs that each server takes, as the plan of their memory has them; `model` is null for the encoders. */
export function serverGpus(plan: DockerGpuPlan): ReturnType<typeof hostGpuIndices> {
  return hostGpuIndices(plan.spec, hostPool(plan));
}

/**
 * Numbers of the GPUs that a container uses. An engine is built on GPUs without a server, or else on those of its own
 * server, which stops meanwhile.
 */
function gpuIndices(plan: DockerPlan, { role, model: name, gpus }: Container): readonly number[] {
  if (plan.tier === "cpu" || gpus === 0) return [];
  const servers = serverGpus(plan);
  if (role === "engineBuild") {
    const serving = servers.flatMap(({ indices }) => indices);
    const all = Array.from({ length: hostPool(plan).machine.gpus }, (_, index) => index);
    const free = all.filter((index) => !serving.includes(index));
    if (gpus <= free.length) return free.slice(0, gpus);
  }
  return servers.find(({ model }) => (model?.serving.name ?? null) === name)?.indices ?? [];
}

/** On a machine with one GPU it needs no number, as in the documents. */
function gpuOption(plan: DockerPlan, indices: readonly number[]): DockerContainer["gpus"] {
  if (plan.tier === "cpu" || indices.length === 0) return null;
  return hostPool(plan).machine.gpus === 1 ? "all" : indices;
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
        "The names of containers and volumes begin with it, and Docker requires a letter or digit first, then letters, digits, `_`, `.` and `-`.",
      fix: "Give the stack another name with `--stack`.",
    },
  ]);
}
