/** A Python virtual environment with exactly the packages of a lock. */
import * as pulumi from "@pulumi/pulumi";
import type { PythonEnvironmentInputs } from "./types.ts";

type PythonEnvironmentArgs = {
  readonly [K in keyof PythonEnvironmentInputs]: pulumi.Input<PythonEnvironmentInputs[K]>;
};

export class PythonEnvironment extends pulumi.CustomResource {
  declare readonly directory: pulumi.Output<string>;
  /** Interpreter, relative to the project's root. */
  declare readonly python: pulumi.Output<string>;
  /** As in `3.11.2`. */
  declare readonly version: pulumi.Output<string>;
  declare readonly sitePackages: pulumi.Output<string>;

  constructor(name: string, args: PythonEnvironmentArgs, options?: pulumi.CustomResourceOptions) {
    super(
      "local:index:PythonEnvironment",
      name,
      { ...args, python: undefined, version: undefined, sitePackages: undefined },
      options,
    );
  }
}
