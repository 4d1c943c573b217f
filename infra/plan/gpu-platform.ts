/** Properties of a platform for stacks on GPUs. The plan reads nothing else about platforms. */
import type { GpuStackConfig } from "../config/config.ts";
import type { MachineConfig } from "../config/models.ts";
import type { CheckedStack, Checks } from "./checks/check.ts";
import type { GpuPlan, GpuPlanParts } from "./gpu-stack.ts";
import type { GpuStackSpec, PoolSpec, RentedParts } from "./spec.ts";

/** Machines as a stack file describes them. */
export interface DeclaredPool extends Omit<PoolSpec, "instanceType" | "machine" | "gpu"> {
  readonly instanceType?: string | undefined;
  readonly machine?: MachineConfig | undefined;
}

export interface GpuPlatform<Config extends GpuStackConfig = GpuStackConfig> {
  readonly runsOn: GpuStackSpec["runsOn"];
  readonly isRented: GpuStackSpec["isRented"];
  /** Whether the stack file has a list of pools; else it describes one machine. */
  readonly hasPools: boolean;
  /** Machines as the stack file describes them. */
  pools(config: Config): readonly DeclaredPool[];
  store(config: Config): GpuStackSpec["store"];
  /** Replicas of the gateway. */
  gateways(config: Config): number;
  /** null for a platform without regions. */
  region(config: Config): string | null;
  /** Services, machines and disks that are billed by the hour, except the pools. */
  rented(config: Config): RentedParts;
  /** Checks that only this platform has. */
  readonly checks: Checks<CheckedStack<Config>>;
  /** The plan with the platform's own part. */
  plan(config: Config, parts: GpuPlanParts): GpuPlan;
}

/** For a platform whose owner pays for everything already. */
export const NOT_RENTED: RentedParts = {
  services: [],
  machines: [],
  disks: [],
  logs: [],
  copies: [],
  notIncluded: [],
};
