/** Triton with the encoders of images and text. Cost: about 1 GiB of memory, on a GPU its share. */
import type * as pulumi from "@pulumi/pulumi";
import { type ContainerComponentArgs, ServiceContainer } from "./container-components.ts";

export class Encoders extends ServiceContainer {
  constructor(
    name: string,
    args: ContainerComponentArgs<"encoders">,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:docker:Encoders", name, args, opts);
  }
}
