/** The network on which the containers of a stack find each other by name. Cost: none. */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import type { DockerLabel } from "../../infra/plan/docker/host-objects.ts";

interface NetworkArgs {
  /** Name on the host. */
  readonly networkName: string;
  readonly labels: DockerLabel[];
}

export class Network extends pulumi.ComponentResource {
  readonly networkName: pulumi.Output<string>;

  constructor(name: string, { networkName, labels }: NetworkArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:docker:Network", name, {}, opts);

    const network = new docker.Network(
      `${name}-bridge`,
      { name: networkName, driver: "bridge", labels },
      { parent: this, deleteBeforeReplace: true },
    );

    this.networkName = network.name;
    this.registerOutputs({ networkName: this.networkName });
  }
}
