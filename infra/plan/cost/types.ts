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
}

/** What every stack says it costs, in US dollars; all zero where nothing is rented. */
export interface CostPlan {
  /** All machines at their planned number. */
  readonly hourlyUsd: number;
  /** 730 hours. */
  readonly monthlyUsd: number;
  /** All engines that the stack needs, each built once: a marked estimate. */
  readonly buildUsd: number;
  /** Date of the price table, ISO 8601; null where no price was used. */
  readonly pricesAsOf: string | null;
}

/** US dollars. */
export interface GpuCost extends CostPlan {
  /** With every pool at its least number of machines. */
  readonly asleepHourlyUsd: number;
  /** A month of that. */
  readonly asleepMonthlyUsd: number;
  readonly lines: readonly CostLine[];
  readonly builds: readonly {
    readonly engine: string;
    readonly seconds: number;
    readonly usd: number | null;
    /** The estimate's parts: `estimate: download 141 s + convert 23 s + ...`. */
    readonly arithmetic?: string;
  }[];
  /** What has no price, and is in no sum. */
  readonly unpriced: readonly string[];
}

/** From nothing to the first answer; estimates in seconds. */
export interface ColdStart {
  readonly model: string;
  readonly steps: readonly {
    readonly what: "node" | "imagePull" | "engineCopy" | "load";
    readonly seconds: number;
    readonly arithmetic: string;
  }[];
  readonly seconds: number;
}
