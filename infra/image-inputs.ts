/** What says which images a stack runs: the lock file, and the hashes of what they are made from. */

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { jsonDigest } from "./plan/canonical-json.ts";
import type { DockerCpuPlan } from "./plan/cpu-stack.ts";
import type { DockerImage, ImageName } from "./plan/docker/images.ts";
import {
  type BaseChoice,
  dockerImages,
  type ImageLock,
  type ImageOptions,
  imageBuildArguments,
  imageSources,
} from "./plan/docker/images.ts";
import type { DockerGpuPlan, Ec2Plan } from "./plan/gpu-stack.ts";
import { clusterImages, neededImages } from "./plan/images.ts";
import type { ClusterPlan } from "./plan/stack-plan.ts";
import { sourcesSha256 } from "./project-files.ts";

/** Path of the lock file: that of the project, or ENGINE_ROOM_IMAGE_LOCK, for images of one's own. */
export function imageLockFile(): string {
  return process.env.ENGINE_ROOM_IMAGE_LOCK ?? fileURLToPath(new URL("../images.lock.json", import.meta.url));
}

/** Images of a stack on a Docker host: which are needed, what is known of them, and what each is. */
export function planImages(plan: DockerCpuPlan | DockerGpuPlan): {
  readonly needed: readonly ImageName[];
  readonly inputs: ImageOptions;
  readonly images: readonly DockerImage[];
} {
  const needed = neededImages(plan);
  const inputs = imageInputs(needed, baseChoice(plan));
  return { needed, inputs, images: dockerImages(needed, inputs) };
}

type PulledImages = {
  readonly needed: readonly ImageName[];
  readonly inputs: ImageOptions;
  /** As an engine that builds them has them. */
  readonly found: readonly DockerImage[];
} & ReturnType<typeof clusterImages>;

/** Images of a stack in a cluster: which are needed, what is known of them, and what keeps them from being pulled. */
export function planClusterImages(plan: ClusterPlan): PulledImages {
  const { registry, imageBases } = plan.cluster;
  return pulledImages(plan, neededImages(plan), registry, imageBases);
}

/** Images of a stack on a machine that builds none, as {@link planClusterImages}. */
export function planInstanceImages(plan: Ec2Plan): PulledImages {
  const { registry, imageBases } = plan.host;
  return pulledImages(plan, neededImages(plan), registry, imageBases);
}

function pulledImages(
  plan: ClusterPlan | Ec2Plan,
  needed: readonly ImageName[],
  registry: string | null,
  bases: BaseChoice["bases"],
): PulledImages {
  const triton = tritonBase(plan);
  const inputs = imageInputs(needed, { triton, bases });
  const found = dockerImages(needed, inputs);
  const isMirror = plan.platform === "aws";
  return { needed, inputs, found, ...clusterImages(found, { triton, registry, isMirror }) };
}

function baseChoice(plan: DockerCpuPlan | DockerGpuPlan): BaseChoice {
  return { triton: tritonBase(plan), bases: plan.host.imageBases };
}

/** null: no image stands on a release of Triton's own. */
function tritonBase(plan: DockerCpuPlan | DockerGpuPlan | ClusterPlan): BaseChoice["triton"] {
  return plan.tier === "cpu" ? null : { release: plan.release.tag, image: plan.spec.image.base };
}

/**
 * All that `dockerImages` wants to know, read from the project's files.
 *
 * @throws Error where the lock file is none.
 */
export function imageInputs(needed: readonly ImageName[], choice: BaseChoice): ImageOptions {
  const contentHashes = Object.fromEntries(needed.map((name) => [name, imageContentHash(name, choice)]));
  return { lock: readImageLock(), contentHashes, ...choice };
}

/** @throws Error where the file is no lock file of this version. */
export function readImageLock(file: string = imageLockFile()): ImageLock {
  if (!existsSync(file)) return { version: 1, images: {} };
  const lock = JSON.parse(readFileSync(file, "utf8")) as Partial<ImageLock>;
  if (lock.version !== 1 || typeof lock.images !== "object")
    throw new Error(
      `${file} is no lock file of version 1; restore it, or delete it and run \`npm run images\`.`,
    );
  return { version: 1, images: lock.images };
}

/**
 * SHA-256 over paths and bytes of all that a build reads, its Dockerfile and its arguments; of an official image over its
 * pinned name.
 *
 * @returns 64 hexadecimal digits.
 */
export function imageContentHash(name: ImageName, choice: BaseChoice): string {
  const source = imageSources[name];
  const content =
    source.kind === "official"
      ? { reference: source.reference }
      : {
          dockerfile: source.dockerfile,
          buildArguments: imageBuildArguments(name, choice),
          files: sourcesSha256([source.dockerfile, ...source.paths], /./),
        };
  return jsonDigest(content);
}
