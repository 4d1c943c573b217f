/** Encoders as the tests of this folder plan them. */
import type { EncodersSpec } from "../../../../infra/plan/spec.ts";

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
