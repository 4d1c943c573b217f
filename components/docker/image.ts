/** An image on the host: pulled by digest, or built there. Cost: its disk; a release of Triton takes about 20 GB. */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import type { DockerImage } from "../../infra/plan/docker/images.ts";

interface ImageArgs {
  readonly image: DockerImage;
  /** Folder of the project, for the provider: relative to the program's. */
  readonly context: string;
}

/** 20 GB over a line of 25 Mbit/s. */
const PULL_OR_BUILD_TIMEOUT = "2h";

export class Image extends pulumi.ComponentResource {
  /** Id in the host's engine: containers are replaced when it changes, and only then. */
  readonly imageId: pulumi.Output<string>;

  constructor(name: string, { image, context }: ImageArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:docker:Image", name, {}, opts);

    const onHost = new docker.RemoteImage(
      `${name}-image`,
      // Kept by `down`: its layers are shared, and take longest to download again.
      { ...imageArgs(image, context), keepLocally: true },
      { parent: this, customTimeouts: { create: PULL_OR_BUILD_TIMEOUT } },
    );

    this.imageId = onHost.imageId;
    this.registerOutputs({ imageId: this.imageId });
  }
}

function imageArgs(image: DockerImage, context: string): docker.RemoteImageArgs {
  const name = image.reference;
  if (image.kind === "locked") return { name };
  const { contentHash, dockerfile, buildArguments } = image;
  return {
    name,
    build: { context, dockerfile, buildArgs: { ...buildArguments } },
    triggers: { contentHash },
  };
}
