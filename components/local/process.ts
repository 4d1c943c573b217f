/** A program that supervisord starts, restarts and stops. */
import * as pulumi from "@pulumi/pulumi";
import type { ProcessInputs } from "./types.ts";

type Defaulted =
  | "environment"
  | "files"
  | "triggers"
  | "stopTimeoutSeconds"
  | "priority"
  | "maxLogMiB"
  | "logBackups";

/** As ProcessInputs; what is absent gets the provider's default. */
type ProcessArgs = {
  readonly [K in Exclude<keyof ProcessInputs, Defaulted>]: pulumi.Input<ProcessInputs[K]>;
} & {
  readonly [K in Exclude<Defaulted, "environment" | "files">]?: pulumi.Input<ProcessInputs[K]>;
} & {
  readonly environment?: pulumi.Input<Record<string, pulumi.Input<string>>>;
  readonly files?: pulumi.Input<Record<string, pulumi.Input<string>>>;
};

export class Process extends pulumi.CustomResource {
  declare readonly name: pulumi.Output<string>;
  /** TCP ports on 127.0.0.1 by the names of `requestedPorts`. */
  declare readonly ports: pulumi.Output<Record<string, number>>;

  constructor(name: string, args: ProcessArgs, options?: pulumi.CustomResourceOptions) {
    super("local:index:Process", name, { ...args, ports: undefined }, options);
  }
}
