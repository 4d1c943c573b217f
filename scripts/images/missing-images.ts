/** Which images a host still has to get. */
import type { DockerImage } from "../../infra/plan/docker/types.ts";
import { shortReference } from "../preflight/docker-reading.ts";

/** @param onHost - `repository:tag` and `repository@sha256:…`, as `docker image ls` has them. */
export function missingImages(
  images: readonly DockerImage[],
  onHost: ReadonlySet<string>,
): readonly DockerImage[] {
  return images.filter((image) => {
    const name = image.kind === "locked" ? image.reference : image.tag;
    return !onHost.has(shortReference(name));
  });
}
