/** The one door for clients. Cost: none; about 100 MiB of memory. */
import type * as pulumi from "@pulumi/pulumi";
import { type ContainerComponentArgs, ServiceContainer } from "./container-components.ts";

export class Gateway extends ServiceContainer {
  constructor(name: string, args: ContainerComponentArgs<"gateway">, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:docker:Gateway", name, args, opts);
  }
}
