/** Builds the encoders' ONNX models, or their TensorRT plans, into the store. Cost: minutes, of a GPU for plans. */
import type * as pulumi from "@pulumi/pulumi";
import { BuildJob, type BuildJobArgs } from "./build-job.ts";

export class EncoderBuild extends BuildJob {
  constructor(name: string, args: BuildJobArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:EncoderBuild", name, args, opts);
  }
}
