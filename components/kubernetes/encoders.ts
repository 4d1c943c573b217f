/** Triton with the encoders of images and text. Cost: 1 CPU and 3 GiB of memory a replica, on a GPU a slot of it. */
import type * as pulumi from "@pulumi/pulumi";
import { Server, type ServerArgs } from "./server.ts";

export class Encoders extends Server {
  constructor(name: string, args: ServerArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Encoders", name, args, opts);
    this.registerOutputs(this.outputs);
  }
}
