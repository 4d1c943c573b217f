/** Images of a stack, and the Docker engine that makes them. */
import { planClusterImages, planImages, planInstanceImages } from "../../infra/image-inputs.ts";
import type { ImageOptions } from "../../infra/plan/docker/images.ts";
import type { DockerImage, ImageName } from "../../infra/plan/docker/types.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";

export interface ImageTarget {
  readonly needed: readonly ImageName[];
  readonly options: ImageOptions;
  /** In the order of `needed`. */
  readonly images: readonly DockerImage[];
  /** Where they are pushed to; null: nowhere. */
  readonly registry: string | null;
  /** Of the engine, as DOCKER_HOST names it. */
  readonly uri: string;
}

/** A cluster and a machine of AWS build no images; the engine of this machine does. */
const OWN_ENGINE = "unix:///var/run/docker.sock";

/** null: the platform runs no images. */
export function imageTarget(plan: StackPlan): ImageTarget | null {
  switch (plan.platform) {
    case "docker": {
      const { needed, inputs, images } = planImages(plan);
      return { needed, options: inputs, images, registry: plan.host.registry, uri: plan.host.uri };
    }
    case "kubernetes": {
      const { needed, inputs, found } = planClusterImages(plan);
      return { needed, options: inputs, images: found, registry: plan.cluster.registry, uri: OWN_ENGINE };
    }
    case "aws": {
      const { needed, inputs, found } =
        plan.compute === "eks" ? planClusterImages(plan) : planInstanceImages(plan);
      const { registry } = plan.compute === "eks" ? plan.cluster : plan.host;
      return { needed, options: inputs, images: found, registry, uri: OWN_ENGINE };
    }
    default:
      return null;
  }
}
