/** Builds the TensorRT engine of one model into the store, unless it is there. Cost: minutes to hours of the host's GPU. */
import type * as pulumi from "@pulumi/pulumi";
import { type ContainerComponentArgs, TaskContainer } from "./container-components.ts";

export class EngineBuild extends TaskContainer {
  constructor(
    name: string,
    args: ContainerComponentArgs<"engineBuild">,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:docker:EngineBuild", name, args, opts);
  }
}
