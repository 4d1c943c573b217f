/** Stacks for the tests of memory fit, cost and differences: rows of the catalogue, with a test's changes. */
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import type { LanguageModelName } from "../../../../infra/plan/catalogue/language-models.ts";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import type { EngineLimits, Gpu, MachineType } from "../../../../infra/plan/catalogue/types.ts";
import type {
  EncodersSpec,
  EngineSpec,
  GpuStackSpec,
  ModelSpec,
  PoolSpec,
  ServingSpec,
} from "../../../../infra/plan/spec.ts";
import { engineSpec, servedModel } from "../model-specs.ts";

const machines: Readonly<Record<string, MachineType>> = machineTypes;
const gpuRows: Readonly<Record<string, Gpu>> = gpus;

/** A row that a test relies on. */
export function present<T>(value: T | undefined | null, what: string): T {
  if (value === undefined || value === null) throw new Error(`The catalogue has no ${what}.`);
  return value;
}

export function poolOf(instanceType: string, changes: Partial<PoolSpec> = {}): PoolSpec {
  const machine = present(machines[instanceType], instanceType);
  return {
    name: "gpu",
    instanceType,
    machine,
    gpu: present(gpuRows[machine.gpu], machine.gpu),
    sharing: { mode: "none" },
    nodes: { min: 0, max: 4 },
    capacity: "onDemand",
    diskGiB: 200,
    path: "pools[0]",
    ...changes,
  };
}

export interface ModelChanges {
  readonly name?: string;
  readonly pool?: string;
  readonly buildPool?: string;
  readonly gpuIndices?: readonly number[];
  readonly limits?: Partial<EngineLimits>;
  readonly engine?: Partial<EngineSpec>;
  readonly serving?: Partial<ServingSpec>;
}

export function modelOf(name: LanguageModelName, changes: ModelChanges = {}): ModelSpec {
  const engine = engineSpec(name, { limits: changes.limits ?? {}, ...changes.engine });
  const pool = changes.pool ?? "gpu";
  return {
    ...servedModel(engine, {
      ...(changes.name === undefined ? {} : { name: changes.name }),
      ...changes.serving,
    }),
    pool,
    buildPool: changes.buildPool ?? pool,
    ...(changes.gpuIndices === undefined ? {} : { gpuIndices: changes.gpuIndices }),
  };
}

export function encodersOf(changes: Partial<EncodersSpec> = {}): EncodersSpec {
  return {
    vision: "clip-vit-base-patch32",
    text: "all-MiniLM-L6-v2",
    device: "gpu",
    precision: "fp16",
    maxBatchSize: 32,
    maxQueueDelayMicroseconds: 500,
    pool: "gpu",
    replicas: 1,
    ...changes,
  };
}

/** Resolved properties of each platform. */
export const PLATFORMS = {
  docker: { runsOn: "host", isRented: false },
  kubernetes: { runsOn: "cluster", isRented: false },
  aws: { runsOn: "cluster", isRented: true },
} as const;

export function stackOf(
  models: readonly ModelSpec[],
  pools: readonly PoolSpec[],
  {
    platform = "aws",
    ...changes
  }: Partial<GpuStackSpec> & { readonly platform?: keyof typeof PLATFORMS } = {},
): GpuStackSpec {
  return {
    ...PLATFORMS[platform],
    region: "us-east-1",
    release: releases["25.07"],
    image: { base: "nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3", layout: "ngc" },
    models,
    encoders: null,
    pools,
    front: { gateways: 1, databases: [] },
    store: { kind: "efs", readMBPerSecond: 250, sizeGiB: null, provisionedMiBps: null },
    rented: { services: [], machines: [], disks: [], logs: [], copies: [], notIncluded: ["data transfer"] },
    whenFull: "fail",
    memoryFitAccept: {},
    acceptUnverified: false,
    ...changes,
  };
}
