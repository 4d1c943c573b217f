/** Finds existing images of a stack and missing steps, and keeps digests in the lock file. */
import { renameSync, writeFileSync } from "node:fs";
import { imageLockFile, readImageLock } from "../../infra/image-inputs.ts";
import { UNKNOWN_IMAGE_GB, UNPACK_MB_PER_SECOND } from "../../infra/plan/cost/times.ts";
import {
  type BaseChoice,
  type DockerImage,
  type ImageName,
  type ImageOptions,
  imageSources,
  imageTag,
  type LockEntry,
  lockKey,
} from "../../infra/plan/docker/images.ts";
import { shortReference } from "../preflight/docker-facts.ts";

/** Images of a stack, and the Docker engine that builds them. */
export interface ImageTarget {
  readonly needed: readonly ImageName[];
  readonly options: ImageOptions;
  /** In the order of `needed`. */
  readonly images: readonly DockerImage[];
  /** Registry for pushes; null without one. */
  readonly registry: string | null;
  /** Address of the engine, as in DOCKER_HOST. */
  readonly uri: string;
}

export interface ImageState {
  readonly image: DockerImage;
  /** In the lock file: `trtllm-25.07`. */
  readonly key: string;
  readonly contentHash: string;
  /** With the tag that is pushed; null without a registry, or for an image that the project does not build. */
  readonly pushReference: string | null;
  /** `locked`: its digest is in the lock file. `onHost`: the host has it. `missing`: it must be built or pulled. */
  readonly state: "locked" | "onHost" | "missing";
  /** In this order. */
  readonly steps: readonly ("build" | "pull" | "push" | "lock" | "copy")[];
}

interface StateOptions {
  readonly push: boolean;
  /** As `docker image ls` names them. */
  readonly onHost: ReadonlySet<string>;
  /** Names of images that are locked, but that the stack's own registry still lacks. @default none */
  readonly toCopy?: ReadonlySet<string>;
}

/** In the order of the plan. */
export function imageStates(
  { images, options, registry }: ImageTarget,
  { push, onHost, toCopy = new Set() }: StateOptions,
): readonly ImageState[] {
  const { contentHashes, lock, triton } = options;
  return images.map((image) => {
    const { name } = image;
    const contentHash = contentHashes[name] ?? "";
    const key = lockKey(name, triton);
    const isOfficial = imageSources[name].kind === "official";
    const isLocked = lock.images[key]?.contentHash === contentHash;
    const isOnHost = onHost.has(shortReference(image.reference));
    const made = isOnHost ? [] : [isOfficial ? ("pull" as const) : ("build" as const)];
    const kept = isOfficial ? (["lock"] as const) : push ? (["push", "lock"] as const) : [];
    return {
      image,
      key,
      contentHash,
      pushReference:
        isOfficial || registry === null ? null : `${registry}/${name}:${imageTag(name, contentHash, triton)}`,
      state: isLocked ? "locked" : isOnHost ? "onHost" : "missing",
      steps: isLocked ? (push && toCopy.has(name) ? ["copy"] : []) : [...made, ...kept],
    };
  });
}

/** @param onHost - `repository:tag` and `repository@sha256:…`, as `docker image ls` has them. */
export function missingImages(
  images: readonly DockerImage[],
  onHost: ReadonlySet<string>,
): readonly DockerImage[] {
  return images.filter(({ reference }) => !onHost.has(shortReference(reference)));
}

/** Space of an image on the host's disk, in GB (10^9), unpacked; its base is counted if the host lacks it. */
export function downloadGB(
  name: ImageName,
  { triton, bases }: BaseChoice,
  onHost: ReadonlySet<string>,
): number {
  const source = imageSources[name];
  if (source.kind === "official") return source.sizeGB;
  const base = triton ?? { release: "" };
  if (onHost.has(shortReference(bases[name] ?? source.base(base)))) return source.ownGB;
  return (source.baseGB(base) ?? UNKNOWN_IMAGE_GB) + source.ownGB;
}

/** Seconds of download and unpacking: an estimate. */
export function downloadSeconds(gb: number): number {
  return (gb * 1000) / UNPACK_MB_PER_SECOND;
}

/** Puts one entry into the lock file, sorted; concurrent readers see the old file or the new file. */
export function lockImage(key: string, entry: LockEntry, file: string = imageLockFile()): void {
  const { images } = readImageLock(file);
  const sorted = Object.entries({ ...images, [key]: entry }).sort(([a], [b]) => (a < b ? -1 : 1));
  const next = `${file}.${process.pid}.tmp`;
  writeFileSync(next, `${JSON.stringify({ version: 1, images: Object.fromEntries(sorted) }, null, 2)}\n`);
  renameSync(next, file);
}
