/** What one Docker host runs of a plan, of either tier. */
import { ConfigError } from "../../problems.ts";
import type { DockerCpuPlan } from "../cpu-stack.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import { imageNamed } from "../image-named.ts";
import { plannedBuilds } from "./builds.ts";
import { labels, objectName } from "./container.ts";
import { cpuTritons } from "./cpu-tritons.ts";
import { dockerEndpoints, dockerNotes } from "./endpoints.ts";
import { databaseContainers, databasesOf, gateway } from "./services.ts";
import { encodersTriton, modelTriton } from "./tritons.ts";
import {
  type DockerContainer,
  type DockerImage,
  type DockerStack,
  IMAGE_NAMES,
  type ImageName,
} from "./types.ts";
import { volumes } from "./volumes.ts";

interface DockerStackOptions {
  /** Name of the stack: the host may have several. */
  readonly stack: string;
  /** Of at least {@link neededImages}; others are left out. */
  readonly images: readonly DockerImage[];
}

/**
 * Containers, volumes and network of a stack, as data. Pure: same plan and images, same bytes.
 *
 * @throws ConfigError where Docker has no objects of the stack's name.
 * @throws Error where an image that a container needs was not given.
 */
export function dockerStack(
  plan: DockerCpuPlan | DockerGpuPlan,
  { stack, images }: DockerStackOptions,
): DockerStack {
  refuseName(stack);
  const kept = volumes(stack, plan);
  const needed = neededImages(plan).map((name) => imageNamed(name, images));
  return {
    network: objectName(stack, "network"),
    labels: labels(stack),
    volumes: kept,
    images: needed,
    containers: containers(stack, plan).map((one) => tellingImage(one, needed)),
    endpoints: dockerEndpoints(plan),
    notes: dockerNotes(plan, kept),
  };
}

/** Images that a plan's containers run, in the order of the table of images. */
export function neededImages(plan: DockerCpuPlan | DockerGpuPlan): readonly ImageName[] {
  const needed = new Set<ImageName>([
    "services",
    ...(plan.tier === "cpu"
      ? (["cpu-models"] as const)
      : (["trtllm", ...(plan.encoders === null ? [] : (["encoders"] as const))] as const)),
    ...(databasesOf(plan)?.kind === "container" ? (["mongo", "qdrant"] as const) : []),
  ]);
  return IMAGE_NAMES.filter((name) => needed.has(name));
}

/** Each behind all that it comes after. */
function containers(stack: string, plan: DockerCpuPlan | DockerGpuPlan): readonly DockerContainer[] {
  const databases = databaseContainers(stack, plan);
  const tritons = plan.tier === "cpu" ? cpuTritons(stack, plan) : gpuContainers(stack, plan);
  return [...tritons, ...databases, gateway(stack, plan, databases)];
}

function gpuContainers(stack: string, plan: DockerGpuPlan): readonly DockerContainer[] {
  const builds = plannedBuilds(stack, plan);
  const encoders = encodersTriton(stack, plan, builds);
  return [
    ...builds.map((build) => build.container),
    ...plan.models.map((_, index) => modelTriton(stack, plan, index, builds)),
    ...(encoders === null ? [] : [encoders]),
  ];
}

/** Under which builders find the reference of their image: it stands in the manifests of what they make. */
const IMAGE_VARIABLE = "ENGINE_ROOM_IMAGE";

function tellingImage(container: DockerContainer, images: readonly DockerImage[]): DockerContainer {
  if (container.lifecycle !== "task") return container;
  const image = imageNamed(container.image, images);
  const reference = image.kind === "locked" ? image.reference : image.tag;
  return {
    ...container,
    environment: sortedByKey({ ...container.environment, [IMAGE_VARIABLE]: reference }),
  };
}

function sortedByKey(record: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What Docker lets the names of containers and volumes begin with (`daemon/names` of moby/moby). */
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
