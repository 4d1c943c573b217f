/** Images of a stack, and the Docker engine that makes them. */
import type { DockerImage, ImageName, ImageOptions } from "../../infra/plan/docker/images.ts";

export interface ImageTarget {
  readonly needed: readonly ImageName[];
  readonly options: ImageOptions;
  /** In the order of `needed`. */
  readonly images: readonly DockerImage[];
  /** Where they are pushed to; null: nowhere. */
  readonly registry: string | null;
  /** Address of the engine, as in DOCKER_HOST. */
  readonly uri: string;
}
