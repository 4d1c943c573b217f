/** TensorRT-LLM 0.9: containers 24.04 and 24.05. */
import type { RecipeTable } from "./types.ts";

export const release09: RecipeTable = {
  range: "0.9",
  converters: {
    gpt: "gpt/convert_checkpoint.py",
    llama: "llama/convert_checkpoint.py",
    opt: "opt/convert_checkpoint.py",
    qwen: "qwen/convert_checkpoint.py",
    mllama: null,
  },
  quantizer: null,
  runScript: "run.py",
  sequenceFlag: [{ since: "0.9", value: "--max_output_len" }],
  textBuildFlags: [
    "--remove_input_padding",
    "enable",
    "--gpt_attention_plugin",
    { value: "dtype" },
    "--context_fmha",
    "enable",
    "--paged_kv_cache",
    "enable",
  ],
  visual: {
    builder: "multimodal/build_visual_engine.py",
    runScript: "multimodal/run.py",
    // BLIP-2 takes its language model from another repository here, and VILA's code has to be patched.
    since: { llava: "0.9", blip2: null, vila: null, llava_onevision: null, mllama: null },
    engineDirectories: "apart",
    imagePathSince: null,
    runFlags: ["--decoder_llm"],
    fusedMlp: [{ since: "0.9", value: ["--use_fused_mlp"] }],
    fusedMlpModels: ["llava"],
  },
  gemmPluginAutoSince: null,
  pagedContextFlags: ["--use_paged_context_fmha", "enable"],
  requirements: {},
  hubLinksByDefault: true,
  sources: [
    "triton-inference-server/tutorials Popular_Models_Guide/Llama2/trtllm_guide.md (run.py prints 0.9.0)",
    "triton-inference-server/tutorials Popular_Models_Guide/Llava1.5/llava_trtllm_guide.md (based on 24.05)",
    "NVIDIA/TensorRT-LLM docs/source/release-notes.md, 0.9",
    "NVIDIA/TensorRT-LLM tensorrt_llm/plugin/plugin.py at v0.9.0: choices and defaults",
    "huggingface/huggingface_hub 0.23.0 release notes: downloads to a folder are files, no links, from then on",
  ],
};
