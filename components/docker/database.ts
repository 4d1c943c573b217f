/** A database; its data are in a volume that outlives it. Cost: none but the volume's disk; memory by its documents. */
import type * as pulumi from "@pulumi/pulumi";
import { type ContainerComponentArgs, ServiceContainer } from "./container-components.ts";

export class Database extends ServiceContainer {
  constructor(
    name: string,
    args: ContainerComponentArgs<"mongo" | "vector">,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:docker:Database", name, args, opts);
  }
}
