/** Builds the encoders' ONNX models, or their TensorRT plans, into the store. Cost: minutes, of the GPU for plans. */
import type * as pulumi from "@pulumi/pulumi";
import { type ContainerComponentArgs, TaskContainer } from "./container-components.ts";

export class EncoderBuild extends TaskContainer {
  constructor(
    name: string,
    args: ContainerComponentArgs<"encoderBuild">,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:docker:EncoderBuild", name, args, opts);
  }
}
