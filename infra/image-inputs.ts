/** Inputs that select the images of a stack: the lock file, and hashes of the images' sources. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
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
import { modelRequirements } from "./plan/docker/python-packages.ts";
import type { DockerGpuPlan, Ec2Plan } from "./plan/gpu-stack.ts";
import { clusterImages, neededImages } from "./plan/images.ts";
import { jsonDigest } from "./plan/plain-data.ts";
import type { ClusterPlan } from "./plan/stack-plan.ts";
import { sourcesSha256 } from "./project-files.ts";

/** Path of the lock file: that of the project, or ENGINE_ROOM_IMAGE_LOCK, for other images. */
export function imageLockFile(): string {
  return process.env.ENGINE_ROOM_IMAGE_LOCK ?? fileURLToPath(new URL("../images.lock.json", import.meta.url));
}

/** Images of a stack: needed names, known facts, and sources for an engine that builds them. */
interface PlannedImages {
  readonly needed: readonly ImageName[];
  readonly inputs: ImageOptions;
  readonly found: readonly DockerImage[];
}

export function planImages(plan: DockerCpuPlan | DockerGpuPlan | ClusterPlan): PlannedImages {
  const needed = neededImages(plan);
  // Images of a stack on CPUs do not depend on a release of Triton.
  const triton =
    plan.tier === "cpu"
      ? null
      : {
          release: plan.release.tag,
          image: plan.spec.image.base,
          requirements: plan.spec.models.flatMap(modelRequirements),
        };
  const inputs = imageInputs(needed, { triton, bases: placeOf(plan).imageBases });
  return { needed, inputs, found: dockerImages(needed, inputs) };
}

/** As {@link planImages}, for a cluster or a machine that only pulls images, with problems of pulling them. */
export function pulledImages(plan: ClusterPlan | Ec2Plan): PlannedImages & ReturnType<typeof clusterImages> {
  const planned = planImages(plan);
  const { triton } = planned.inputs;
  const { registry } = placeOf(plan);
  return {
    ...planned,
    ...clusterImages(planned.found, { triton, registry, isMirror: plan.platform === "aws" }),
  };
}

function placeOf(plan: DockerCpuPlan | DockerGpuPlan | ClusterPlan) {
  return "cluster" in plan ? plan.cluster : plan.host;
}

/** Options of `dockerImages`, read from the project's files. */
export function imageInputs(needed: readonly ImageName[], choice: BaseChoice): ImageOptions {
  const contentHashes = Object.fromEntries(needed.map((name) => [name, imageContentHash(name, choice)]));
  return { lock: readImageLock(), contentHashes, ...choice };
}

/** @throws Error when the file is not a lock file of this version. */
export function readImageLock(file: string = imageLockFile()): ImageLock {
  if (!existsSync(file)) return { version: 1, images: {} };
  const lock = JSON.parse(readFileSync(file, "utf8")) as Partial<ImageLock>;
  if (lock.version !== 1 || typeof lock.images !== "object")
    throw new Error(
      `${file} is not a lock file of version 1; restore it, or delete it and run \`npx engine-room images\`.`,
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
          files: packedImageFiles()[name] ?? sourcesSha256([source.dockerfile, ...source.paths], /./),
        };
  return jsonDigest(content);
}

/** Set by loader/package.mjs: the package lacks files of images, because npm packs neither package-lock.json nor .npmrc. */
declare const PACKED_IMAGE_FILES: Readonly<Record<string, string>> | undefined;

function packedImageFiles(): Readonly<Record<string, string>> {
  return typeof PACKED_IMAGE_FILES === "undefined" ? {} : PACKED_IMAGE_FILES;
}

/** SHA-256 of the files of each image that is built, by its name. */
export function imageFiles(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(imageSources).flatMap(([name, source]) =>
      source.kind === "official" ? [] : [[name, sourcesSha256([source.dockerfile, ...source.paths], /./)]],
    ),
  );
}
