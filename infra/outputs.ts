/**
 * The contract of scripts and users: what a stack says of itself when it is up. `npm run outputs -- --json` prints
 * exactly this object, on every platform.
 */
import type * as pulumi from "@pulumi/pulumi";
import type { CostPlan } from "./plan/cost/types.ts";
import type { Reach, TritonEndpoints } from "./plan/endpoints.ts";

export interface ModelEndpoints extends TritonEndpoints {
  /** URL that takes one JSON request and gives one JSON answer. */
  readonly generate: string;
}

export interface Endpoints {
  readonly gateway: string;
  /** `mongodb://` address without password; null where an external one is kept in a secret. */
  readonly mongo: string | null;
  /** HTTP address of the vector database, null where the stack has none. */
  readonly vector: string | null;
  readonly encoders: TritonEndpoints;
  readonly models: Readonly<Record<string, ModelEndpoints>>;
  /** Who reaches all of the above. */
  readonly reach: Reach;
}

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

/** Outputs while the stack is being made: some values are known only after `up`. */
export type DeployedStack = { readonly [K in keyof StackOutputs]: pulumi.Input<StackOutputs[K]> };
