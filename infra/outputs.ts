/**
 * The contract of scripts and users: what a stack says of itself when it is up. `npm run outputs -- --json` prints
 * exactly this object, on every platform.
 */
import type * as pulumi from "@pulumi/pulumi";
import type { CostPlan } from "./plan/cost/types.ts";
import type { Endpoints } from "./plan/endpoints.ts";

/** One served model. */
export interface ModelOutput {
  readonly name: string;
  readonly model: string;
  readonly release: string;
  /** Key of the TensorRT engine; null where the model runs without one. */
  readonly engineKey: string | null;
  readonly nodePool: string;
}

export interface StackOutputs {
  readonly endpoints: Endpoints;
  readonly models: readonly ModelOutput[];
  readonly release: string;
  /** Where weights and engines are kept. */
  readonly engineStore: string;
  readonly cost: CostPlan;
  /** What a user has to know about what is served, such as "image embeddings carry no meaning". */
  readonly notes: readonly string[];
}

/** Outputs while the stack is being made: some values are known only after `up`, and the others in a preview. */
export type DeployedStack = Omit<
  { readonly [K in keyof StackOutputs]: pulumi.Input<StackOutputs[K]> },
  "endpoints" | "notes"
> & {
  readonly endpoints: pulumi.Input<{ readonly [K in keyof Endpoints]: pulumi.Input<Endpoints[K]> }>;
  readonly notes: pulumi.Input<readonly pulumi.Input<string>[]>;
};
