/** What there is of each image, and what is left to do. */

import type { DockerImage } from "../../infra/plan/docker/images.ts";
import { imageSources, imageTag, lockKey } from "../../infra/plan/docker/images.ts";
import { shortReference } from "../preflight/docker-reading.ts";
import type { ImageTarget } from "./image-target.ts";

export interface ImageState {
  readonly image: DockerImage;
  /** In the lock file: `trtllm-25.07`. */
  readonly key: string;
  readonly contentHash: string;
  /** With the tag that is pushed; null where there is no registry, or the image is somebody else's. */
  readonly pushReference: string | null;
  /** `locked`: its digest is in the lock file. `onHost`: the host has it. `missing`: nobody has it. */
  readonly state: "locked" | "onHost" | "missing";
  /** In this order. */
  readonly steps: readonly ("build" | "pull" | "push" | "lock" | "copy")[];
}

interface StateOptions {
  readonly push: boolean;
  /** As `docker image ls` names them. */
  readonly onHost: ReadonlySet<string>;
  /** Names of images that are locked, and that the stack's own registry has yet to get from another. @default none */
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
