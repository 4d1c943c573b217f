/** Volumes that outlive the containers of a stack. Cost: disk of the host; the engine store takes twice a model's weights. */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import type { DockerVolume } from "../../infra/plan/docker/host-objects.ts";

interface VolumesArgs {
  readonly volumes: readonly DockerVolume[];
}

export class Volumes extends pulumi.ComponentResource {
  /** Names on the host: a container that mounts a volume waits for it. */
  readonly volumeNames: Readonly<Record<string, pulumi.Output<string>>>;

  constructor(name: string, { volumes }: VolumesArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:docker:Volumes", name, {}, opts);

    this.volumeNames = Object.fromEntries(
      volumes.map((volume) => [volume.name, this.#createVolume(name, volume).name]),
    );
    this.registerOutputs({ volumeNames: this.volumeNames });
  }

  #createVolume(name: string, { name: volumeName, purpose, labels, isKept }: DockerVolume): docker.Volume {
    return new docker.Volume(
      `${name}-${purpose}`,
      { name: volumeName, labels },
      // Docker treats a volume of that name as the same, so the next `up` finds the volume that `down` kept.
      { parent: this, ...(isKept ? { retainOnDelete: true } : { deleteBeforeReplace: true }) },
    );
  }
}
