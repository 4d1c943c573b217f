/** Money and time as data; all are estimates. */
import type { EnginePlan } from "../container-spec-schemas.ts";
import type { ModelSpec } from "../spec.ts";

/** An engine of the stack, and a model that needs it. */
export interface EngineOfModel {
  readonly model: ModelSpec;
  readonly engine: EnginePlan;
}

export interface CostLine {
  readonly what: string;
  readonly arithmetic: string;
  /** null if the price is unknown. */
  readonly hourlyUsd: number | null;
  /** After `npx engine-room sleep`; null if the price of the rest is unknown. */
  readonly asleepHourlyUsd: number | null;
}

/** Cost of any stack, in US dollars; all zero if nothing is rented. */
export interface CostPlan {
  /** All machines at their planned number; null if no part that is paid for has a price. */
  readonly hourlyUsd: number | null;
  /** 730 hours. */
  readonly monthlyUsd: number | null;
  /** Names of parts without a price, which are in no amount by the hour and month: if there are any, these are lower bounds. */
  readonly withoutPrice: readonly string[];
  /** All engines that the stack needs, each built once; null if one of them has no price. */
  readonly buildUsd: number | null;
  /** Date of the price table, ISO 8601; null if no price was used. */
  readonly pricesAsOf: string | null;
}

/** Amounts in US dollars. */
export interface GpuCost extends CostPlan {
  /** After `npx engine-room sleep`, with the machines of `asleepNodes`; null if no part that stays has a price. */
  readonly asleepHourlyUsd: number | null;
  readonly asleepMonthlyUsd: number | null;
  readonly lines: readonly CostLine[];
  readonly builds: readonly {
    readonly engine: string;
    readonly seconds: number;
    readonly usd: number | null;
    /** `estimate: download 141 s + convert 23 s + ...` */
    readonly arithmetic?: string;
  }[];
  /** Items billed by the byte, the request or the month, which are not in the sums. */
  readonly notIncluded: readonly string[];
  /** Cost of the same stack in a region with known prices, if those of its own region are unknown and some are missing. */
  readonly elsewhere: {
    readonly region: string;
    readonly hourlyUsd: number | null;
    readonly asleepHourlyUsd: number | null;
  } | null;
}

/** From an account without the stack to answers of all its models. */
export interface FirstUp {
  readonly steps: readonly {
    readonly what: "network" | "controlPlane" | "machines" | "builds" | "coldStart";
    readonly seconds: number;
  }[];
  readonly seconds: number;
}

/** From nothing to the first answer of a model. */
export interface ColdStart {
  readonly model: string;
  /** If machines are rented, for a newly started machine. */
  readonly steps: readonly {
    readonly what: "node" | "imagePull" | "engineCopy" | "load";
    readonly seconds: number;
    readonly arithmetic: string;
  }[];
  /** Sum of the steps. */
  readonly seconds: number;
  /** Sums on a rented machine that is already running, without and with the model's image; empty if no machine can be. */
  readonly onRunningMachine: readonly { readonly hasImage: boolean; readonly seconds: number }[];
}
