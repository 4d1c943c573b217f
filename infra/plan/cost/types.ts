/** Money and time, as data. Every estimate is marked as one. */
import type { EnginePlan } from "../engine/types.ts";
import type { ModelSpec } from "../spec.ts";

/** An engine of the stack, and who needs it. */
export interface EngineOfModel {
  readonly model: ModelSpec;
  readonly engine: EnginePlan;
}

export interface CostLine {
  readonly what: string;
  readonly arithmetic: string;
  /** null: no price is known for it. */
  readonly hourlyUsd: number | null;
  /** What is left of it after `npm run sleep`; null: no price is known for what stays. */
  readonly asleepHourlyUsd: number | null;
}

/** What every stack says it costs, in US dollars; all zero where nothing is rented. */
export interface CostPlan {
  /** All machines at their planned number; null where nothing that is paid for has a price. */
  readonly hourlyUsd: number | null;
  /** 730 hours. */
  readonly monthlyUsd: number | null;
  /** Names of what has no price, and is in no amount by the hour and month: where there are any, these are lower bounds. */
  readonly withoutPrice: readonly string[];
  /** All engines that the stack needs, each built once: a marked estimate; null where one of them has no price. */
  readonly buildUsd: number | null;
  /** Date of the price table, ISO 8601; null where no price was used. */
  readonly pricesAsOf: string | null;
}

/** US dollars. */
export interface GpuCost extends CostPlan {
  /**
   * What is left after `npm run sleep`: on EC2 the machine is stopped and its disks stay, in a cluster of AWS machines with GPUs
   * are gone but for those of encoders, whatever `nodes.min` and `warm` say. Elsewhere `sleep` ends no machine, and pools with
   * GPUs are at their least. null where nothing that stays has a price.
   */
  readonly asleepHourlyUsd: number | null;
  /** A month of that. */
  readonly asleepMonthlyUsd: number | null;
  readonly lines: readonly CostLine[];
  readonly builds: readonly {
    readonly engine: string;
    readonly seconds: number;
    readonly usd: number | null;
    /** The estimate's parts: `estimate: download 141 s + convert 23 s + ...`. */
    readonly arithmetic?: string;
  }[];
  /** What is billed besides the lines, by the byte, the request or the month, and is in no sum. */
  readonly besides: readonly string[];
  /** What the same stack costs in a region whose prices are known, where those of its own are not and some are missing. */
  readonly elsewhere: {
    readonly region: string;
    readonly hourlyUsd: number | null;
    readonly asleepHourlyUsd: number | null;
  } | null;
}

/** From an account without the stack to answers of all its models; estimates in seconds. */
export interface FirstUp {
  readonly steps: readonly {
    readonly what: "network" | "controlPlane" | "machines" | "builds" | "coldStart";
    readonly seconds: number;
  }[];
  readonly seconds: number;
}

/** From nothing to the first answer; estimates in seconds. */
export interface ColdStart {
  readonly model: string;
  /** Where machines are rented, those on a new one. */
  readonly steps: readonly {
    readonly what: "node" | "imagePull" | "engineCopy" | "load";
    readonly seconds: number;
    readonly arithmetic: string;
  }[];
  /** Sum of the steps. */
  readonly seconds: number;
  /**
   * Sums on a rented machine that runs already, without and with the model's image; those that can be. None where the pool keeps
   * no machine and no images on machines that run for others.
   */
  readonly onRunningMachine: readonly { readonly hasImage: boolean; readonly seconds: number }[];
}
