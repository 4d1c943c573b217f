/** What a check has to say, and which keys of the stack file decide it. */
import type { AwsConfig, AwsMachineConfig, AwsPoolConfig } from "../../config/aws-stacks.ts";
import type { GpuStackConfig } from "../../config/config.ts";
import type { HostConfig, PoolConfig } from "../../config/gpu-stacks.ts";
import { type Problem, showValue } from "../../problems.ts";
import type { MemoryFit } from "../fit/types.ts";
import type { GpuStackSpec, ModelSpec, PoolSpec } from "../spec.ts";

type KeysOf<T> = T extends unknown ? keyof T & string : never;

/**
 * A part of the stack file. `models.limits` is that of the model which a finding is about, or of all models where it is
 * about the stack; `pools.nodes` that of any pool, and of the host of a Docker stack.
 */
export type Key =
  | `models.${KeysOf<GpuStackConfig["models"][number]>}`
  | `pools.${KeysOf<PoolConfig> | KeysOf<AwsPoolConfig> | KeysOf<AwsMachineConfig> | KeysOf<HostConfig>}`
  | Exclude<KeysOf<GpuStackConfig>, "models" | "pools" | "host">;

/** What a check looks at. */
export interface CheckedStack {
  readonly config: GpuStackConfig;
  readonly spec: GpuStackSpec;
  readonly fit: readonly MemoryFit[];
}

/** One sentence of a check, before it is known which keys it rests on. */
export interface Remark {
  /** Absent: a problem, which forbids to create anything. */
  readonly severity?: "warning";
  /** `models[0].tensorParallel` */
  readonly path: string;
  /** Absent: what the stack file has at the path. */
  readonly value?: string;
  readonly reason: string;
  readonly fix: string;
}

export interface Finding {
  readonly severity: "problem" | "warning";
  readonly problem: Problem;
  /** About one model, or about what several keys of the stack make together. */
  readonly scope: "model" | "stack";
  /** Keys that decide it, besides that of its path. */
  readonly keys: readonly Key[];
}

export interface Check {
  readonly scope: Finding["scope"];
  readonly keys: readonly Key[];
  readonly remarks: (stack: CheckedStack) => readonly Remark[];
}

/** A check of every model by itself. */
export function modelCheck(
  keys: readonly Key[],
  remarks: (model: ModelSpec, stack: CheckedStack) => readonly Remark[],
): Check {
  return {
    scope: "model",
    keys,
    remarks: (stack) => stack.spec.models.flatMap((model) => remarks(model, stack)),
  };
}

/** A check of every pool by itself. */
export function poolCheck(
  keys: readonly Key[],
  remarks: (pool: PoolSpec, stack: CheckedStack) => readonly Remark[],
): Check {
  return {
    scope: "stack",
    keys,
    remarks: (stack) => stack.spec.pools.flatMap((pool) => remarks(pool, stack)),
  };
}

/** A check of what keys make together. */
export function stackCheck(keys: readonly Key[], remarks: (stack: CheckedStack) => readonly Remark[]): Check {
  return { scope: "stack", keys, remarks };
}

/** A check of a stack on AWS alone. */
export function awsCheck(keys: readonly Key[], remarks: (config: AwsConfig) => readonly Remark[]): Check {
  return stackCheck(keys, ({ config }) => (config.platform === "aws" ? remarks(config) : []));
}

/** A remark as it is reported. */
export function finding(
  config: GpuStackConfig,
  scope: Finding["scope"],
  keys: readonly Key[],
  { severity, path, value = shownAt(config, path), reason, fix }: Remark,
): Finding {
  return { severity: severity ?? "problem", problem: { path, value, reason, fix }, scope, keys };
}

/** Below `hub` stand credentials, which the Pulumi runtime hands over in clear. */
function shownAt(config: GpuStackConfig, path: string): string {
  const value = valueAt(config, path);
  return pathParts(path)[0] === "hub" && value !== undefined ? "[secret]" : showValue(value);
}

/** What the stack file has at a path such as `models[0].limits.maxBatchSize`; undefined where it has nothing. */
export function valueAt(config: unknown, path: string): unknown {
  return pathParts(path).reduce<unknown>(
    (inner, key) =>
      typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>)[key] : undefined,
    config,
  );
}

/** `models[0].limits` as `["models", "0", "limits"]`. */
export function pathParts(path: string): readonly string[] {
  return path.match(/[^.[\]]+/g) ?? [];
}
