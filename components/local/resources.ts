/** The resources of the provider `local` as the program declares them. */
import * as pulumi from "@pulumi/pulumi";
import type { z } from "zod";
// Only types: the program loads nothing of the provider.
import type { fixedValuesInputs } from "./provider/fixed-values.ts";
import type {
  JsonObject,
  modelRepositoryInputs,
  Ports,
  processInputs,
  pythonEnvironmentInputs,
} from "./provider/inputs.ts";
import type { nodeGroupSizeInputs } from "./provider/node-group-size.ts";
import type { readyMachineInputs } from "./provider/ready-machine.ts";

/** Place of a stack's processes. */
export interface LocalPlace {
  /** `.stacks/<stack>`. */
  readonly stackDirectory: string;
  /** Interpreter of the environment that holds supervisord and Triton, relative to the project's root. */
  readonly python: pulumi.Input<string>;
}

/** `T` with a promise or an output allowed at any depth. */
type Asked<T> = T extends object ? { readonly [K in keyof T]: pulumi.Input<Asked<T[K]>> } : T;

type Arguments<Schema extends z.ZodObject> = Asked<z.input<Schema>>;

/** One of the provider's resources. Its id is its place, so that the old resource goes before its replacement is made there. */
class LocalResource extends pulumi.CustomResource {
  /** @param type - Without the package. */
  constructor(
    type: string,
    name: string,
    args: Readonly<Record<string, unknown>>,
    options?: pulumi.CustomResourceOptions,
  ) {
    // For `pulumi up --replace` the engine reads only this option, not the provider's answer.
    super(`local:index:${type}`, name, args, { ...options, deleteBeforeReplace: true });
  }
}

/** A Python virtual environment with exactly the packages of a lock. */
export class PythonEnvironment extends LocalResource {
  /** Interpreter, relative to the project's root. */
  declare readonly python: pulumi.Output<string>;

  constructor(
    name: string,
    args: Arguments<typeof pythonEnvironmentInputs>,
    options?: pulumi.CustomResourceOptions,
  ) {
    super("PythonEnvironment", name, { ...args, python: undefined }, options);
  }
}

/** A folder of models as Triton loads it. */
export class ModelRepository extends LocalResource {
  declare readonly digest: pulumi.Output<string>;
  /** `facts.json` of each artifact, by its folder. */
  declare readonly facts: pulumi.Output<Record<string, JsonObject>>;

  constructor(
    name: string,
    args: Arguments<typeof modelRepositoryInputs>,
    options?: pulumi.CustomResourceOptions,
  ) {
    super("ModelRepository", name, { ...args, facts: undefined }, options);
  }
}

/** A program that supervisord starts, restarts and stops. */
export class Process extends LocalResource {
  /** TCP ports on 127.0.0.1 by the names of `requestedPorts`. */
  declare readonly ports: pulumi.Output<Ports>;

  constructor(name: string, args: Arguments<typeof processInputs>, options?: pulumi.CustomResourceOptions) {
    super("Process", name, { ...args, ports: undefined }, options);
  }
}

/** Least and most machines of a managed node group of EKS, between which the autoscaler chooses. */
export class NodeGroupSize extends pulumi.CustomResource {
  constructor(
    name: string,
    args: Arguments<typeof nodeGroupSizeInputs>,
    options?: pulumi.CustomResourceOptions,
  ) {
    super("local:index:NodeGroupSize", name, args, options);
  }
}

/** Values that may not change: `pulumi up` ends with an error before it changes anything that depends on this resource. */
export class FixedValues extends pulumi.CustomResource {
  constructor(
    name: string,
    args: Arguments<typeof fixedValuesInputs>,
    options?: pulumi.CustomResourceOptions,
  ) {
    super("local:index:FixedValues", name, args, options);
  }
}

/** A machine of EC2 whose commands have run, and that its load balancer sends requests to: `pulumi up` waits for it. */
export class ReadyMachine extends pulumi.CustomResource {
  constructor(
    name: string,
    args: Arguments<typeof readyMachineInputs>,
    options?: pulumi.CustomResourceOptions,
  ) {
    super("local:index:ReadyMachine", name, args, options);
  }
}
