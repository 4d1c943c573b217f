/** Triton with one language model. Cost: the model's GPUs, for as long as it runs. */
import type * as pulumi from "@pulumi/pulumi";
import { Server, type ServerArgs } from "./server.ts";

export class TritonServer extends Server {
  constructor(name: string, args: ServerArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:TritonServer", name, args, opts);
    this.registerOutputs(this.outputs);
  }
}
