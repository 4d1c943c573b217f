/** Encoders, releases and GPUs as the tests of this folder plan them. */
import type { Gpu, Release } from "../../../../infra/plan/catalogue/types.ts";
import type { EncodersSpec } from "../../../../infra/plan/spec.ts";

export const a10g: Gpu = {
  name: "A10G",
  computeCapability: "8.6",
  architecture: "Ampere",
  memoryGiB: 22.35,
  memoryBandwidthGBPerSecond: 600,
  nvlink: false,
  migProfiles: {},
  formats: ["float16", "bfloat16", "int8", "int4"],
  supported: true,
  source: "test",
};

export const l4: Gpu = { ...a10g, name: "L4", computeCapability: "8.9", architecture: "Ada" };

export function release(tag: string, changes: Partial<Release> = {}): Release {
  return {
    tag,
    tensorRtLlm: "0.20.0",
    tensorRt: "10.10.0.31",
    cuda: null,
    minimumDriver: null,
    imageGB: null,
    python: null,
    templates: null,
    recipes: null,
    files: "app",
    backendRef: `r${tag}`,
    runtimes: ["engine"],
    verified: true,
    source: "test",
    ...changes,
  };
}

export const b32: EncodersSpec = {
  vision: "clip-vit-base-patch32",
  text: "all-MiniLM-L6-v2",
  device: "gpu",
  precision: "fp16",
  maxBatchSize: 32,
  maxQueueDelayMicroseconds: 500,
  pool: "a10g",
  replicas: 1,
};

export const onCpu: EncodersSpec = { ...b32, device: "cpu", precision: "fp32", pool: "cpu" };
