/** Which images a host still has to get, and how much that is. */
import { UNKNOWN_IMAGE_GB, UNPACK_MB_PER_SECOND } from "../../infra/plan/cost/times.ts";
import type { DockerImage, ImageName } from "../../infra/plan/docker/images.ts";
import { type BaseChoice, imageSources } from "../../infra/plan/docker/images.ts";
import { shortReference } from "../preflight/docker-reading.ts";

/** @param onHost - `repository:tag` and `repository@sha256:…`, as `docker image ls` has them. */
export function missingImages(
  images: readonly DockerImage[],
  onHost: ReadonlySet<string>,
): readonly DockerImage[] {
  return images.filter(({ reference }) => !onHost.has(shortReference(reference)));
}

/** What an image takes of the host's disk, in GB (10^9), unpacked; its base is counted where the host lacks it. */
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
