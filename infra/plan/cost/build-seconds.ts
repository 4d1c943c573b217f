/**
 * How long an engine build takes: an estimate, for its cost. Every coefficient names what it was fitted to or says that it
 * is an assumption; expect the truth within a factor of two.
 */
import { engineBytesGiB, loadedWeightsGiB } from "../engine/engine-size.ts";
import type { EngineSpec, PoolSpec, WeightsSource } from "../spec.ts";

interface BuildEstimate {
  readonly seconds: number;
  readonly parts: readonly {
    readonly what: "download" | "convert" | "llm" | "vision" | "check";
    readonly seconds: number;
    readonly arithmetic: string;
  }[];
}

/** What a hub gives one reader, in MB/s; an assumption. The machine's network may be slower. */
const HUB_MB_PER_SECOND = 100;

/**
 * Conversion. Without quantization, Llama-3-8B (15 GiB) took 24 s (https://github.com/michaelnny/llama3_inference). Weight-only
 * int4 of Qwen1.5-MoE (26.7 GiB) took 193 s (github.com/LongWeihan/trtllm-moe-runtime-optimizer, docs/07_int4wo_build.md); AWQ of Llama-3-8B (15 GiB) "about 5 minutes"
 * on a g6.2xlarge (https://www.infracloud.io/blogs/running-llama-3-with-triton-tensorrt-llm/), and fp8 runs the same tool with
 * the same calibration.
 */
const CONVERT_BASE_SECONDS = 8;
const CONVERT_SECONDS_PER_GIB = { none: 1.1, int8: 7, int4: 7, fp8: 20 } as const;

/**
 * trtllm-build: gpt2-medium (0.66 GiB) 41 s (NVIDIA/TensorRT-LLM examples/models/core/gpt/README.md), Llama-3-8B bf16
 * (14.96 GiB) 129 s on an RTX 3090 (michaelnny/llama3_inference), Llama-3-8B int4 (5 GiB) 55 s on an L4 (infracloud.io),
 * Qwen1.5-MoE int4 (7.6 GiB) 38 s, Command R 35B (65 GiB) 107 s (NVIDIA/TensorRT-LLM examples/models/core/commandr/README.md).
 * GPUs as different as an L4 and a 3090 lie on one line, so the GPU has no part in it.
 */
const LLM_BASE_SECONDS = 36;
const LLM_SECONDS_PER_GIB = 6.5;

/** ONNX export and TensorRT of the visual half; an assumption, nobody publishes a log with both. */
const VISION_BASE_SECONDS = 60;
const VISION_SECONDS_PER_GIB = 60;

/** Start of the runner; then the engine is read at the rate of a server's start (see cold-start.ts). */
const CHECK_BASE_SECONDS = 20;

/** Estimates one build on a machine of `pool`, weights not yet in the store. */
export function buildEstimate(spec: EngineSpec, pool: PoolSpec): BuildEstimate {
  const { llmGiB, visionGiB, totalGiB } = engineBytesGiB(spec);
  const ranks = spec.tensorParallel * spec.pipelineParallel;
  const stored = loadedWeightsGiB(spec.row);
  const convertRate = CONVERT_SECONDS_PER_GIB[spec.quantization];
  const parts: BuildEstimate["parts"] = [
    download(spec, pool),
    {
      what: "convert",
      ...timed(
        CONVERT_BASE_SECONDS + convertRate * stored,
        `${CONVERT_BASE_SECONDS} s + ${stored.toFixed(1)} GiB × ${convertRate} s`,
      ),
    },
    {
      what: "llm",
      ...timed(
        LLM_BASE_SECONDS * ranks + LLM_SECONDS_PER_GIB * llmGiB,
        `${ranks} × ${LLM_BASE_SECONDS} s + ${llmGiB.toFixed(1)} GiB × ${LLM_SECONDS_PER_GIB} s`,
      ),
    },
    ...(spec.row.vision === undefined
      ? []
      : [
          {
            what: "vision" as const,
            ...timed(
              VISION_BASE_SECONDS + VISION_SECONDS_PER_GIB * visionGiB,
              `${VISION_BASE_SECONDS} s + ${visionGiB.toFixed(1)} GiB × ${VISION_SECONDS_PER_GIB} s`,
            ),
          },
        ]),
    {
      what: "check",
      ...timed(
        CHECK_BASE_SECONDS + totalGiB,
        `${CHECK_BASE_SECONDS} s + ${totalGiB.toFixed(1)} GiB at 1 GiB/s`,
      ),
    },
  ];
  return { seconds: parts.reduce((sum, part) => sum + part.seconds, 0), parts };
}

function download(spec: EngineSpec, pool: PoolSpec): BuildEstimate["parts"][number] {
  const rate = downloadMBPerSecond(spec.weights, pool.machine.networkMbps);
  if (rate === null) return { what: "download", seconds: 0, arithmetic: "the weights are there already" };
  const gb = spec.row.source.downloadGB;
  return { what: "download", ...timed((gb * 1000) / rate, `${gb} GB at ${Math.round(rate)} MB/s`) };
}

/** null: nothing is downloaded. */
function downloadMBPerSecond(weights: WeightsSource, networkMbps: number): number | null {
  const network = networkMbps > 0 ? networkMbps / 8 : Infinity;
  switch (weights.kind) {
    case "folder":
      return null;
    case "hub":
    case "modelscope":
    case "s3":
      return Math.min(network, HUB_MB_PER_SECOND);
  }
}

function timed(seconds: number, arithmetic: string) {
  return { seconds: Math.round(seconds), arithmetic };
}
