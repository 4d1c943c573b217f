/** Triton with one language model. Cost: the model's share of a GPU, or on a CPU its memory. */
import type * as pulumi from "@pulumi/pulumi";
import { type ContainerComponentArgs, ServiceContainer } from "./container-components.ts";

export class TritonServer extends ServiceContainer {
  constructor(name: string, args: ContainerComponentArgs<"triton">, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:docker:TritonServer", name, args, opts);
  }
}
