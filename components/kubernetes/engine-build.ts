/** Builds the TensorRT engine of one model into the store, unless it is there. Cost: minutes to hours of a pool's GPUs. */
import type * as pulumi from "@pulumi/pulumi";
import { BuildJob, type BuildJobArgs } from "./build-job.ts";

export class EngineBuild extends BuildJob {
  constructor(name: string, args: BuildJobArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:EngineBuild", name, args, opts);
  }
}
