/** TensorRT-LLM 0.10 to 0.18: containers 24.06 to 25.04. */
import type { RecipeTable } from "./types.ts";
import { EINOPS, S2_WRAPPER } from "./vila-packages.ts";

export const release010To018: RecipeTable = {
  range: "0.10-0.18",
  converters: {
    gpt: "gpt/convert_checkpoint.py",
    llama: "llama/convert_checkpoint.py",
    opt: "opt/convert_checkpoint.py",
    qwen: "qwen/convert_checkpoint.py",
    mllama: "mllama/convert_checkpoint.py",
  },
  quantizer: "quantization/quantize.py",
  runScript: "run.py",
  sequenceFlag: [
    { since: "0.10", value: "--max_output_len" },
    { since: "0.11", value: "--max_seq_len" },
  ],
  // Attention plugin, padding removal, context FMHA and paged KV cache are the builder's defaults.
  textBuildFlags: [],
  visual: {
    builder: "multimodal/build_visual_engine.py",
    runScript: "multimodal/run.py",
    since: { llava: "0.10", blip2: "0.13", vila: "0.15", llava_onevision: "0.15", mllama: "0.15" },
    engineDirectories: "apart",
    imagePathSince: "0.12",
    runFlags: [],
    // On by default from 0.13 on, and the multimodal guide leaves it out.
    fusedMlp: [
      { since: "0.10", value: ["--use_fused_mlp"] },
      { since: "0.13", value: [] },
    ],
    fusedMlpModels: ["llava"],
  },
  // 0.10 has float16, float32, bfloat16 and disable; its examples build fp8 with float16.
  gemmPluginAutoSince: "0.11",
  pagedContextFlags: ["--use_paged_context_fmha", "enable"],
  requirements: { "requirements-vila.txt": [S2_WRAPPER, EINOPS] },
  hubLinksByDefault: false,
  sources: [
    "triton-inference-server/tensorrtllm_backend docs/multimodal.md at v0.13.0, v0.15.0 (the first with VILA) and r25.02",
    "NVIDIA/TensorRT-LLM examples/multimodal/README.md with --max_seq_len and bare --use_fused_mlp (0.11 and 0.12)",
    "NVIDIA/TensorRT-LLM docs/source/release-notes.md, 0.10 to 0.18",
    "NVIDIA/TensorRT-LLM tensorrt_llm/plugin/plugin.py at v0.10.0 and v0.11.0, examples/llama/README.md at v0.10.0 (fp8)",
    "NVIDIA/TensorRT-LLM docs/source/advanced/kv-cache-reuse.md: --use_paged_context_fmha enable",
    "NVIDIA/TensorRT-LLM examples/quantization/quantize.py: --qformat, --calib_size, --tp_size, --pp_size",
  ],
};
