/** TensorRT-LLM 0.8: containers 24.02 and 24.03. */
import type { RecipeTable } from "./types.ts";

export const release08: RecipeTable = {
  range: "0.8",
  converters: {
    // GPT-2 still has a converter and a builder of its own; GPT and Qwen joined the common workflow with 0.9.
    gpt: null,
    llama: "llama/convert_checkpoint.py",
    opt: "opt/convert_checkpoint.py",
    qwen: null,
    mllama: null,
  },
  quantizer: null,
  runScript: "run.py",
  sequenceFlag: [{ since: "0.8", value: "--max_output_len" }],
  textBuildFlags: [],
  // Its visual builder wants `--model_name` with a name from a list; no walkthrough uses it.
  visual: null,
  gemmPluginAutoSince: null,
  pagedContextFlags: ["--use_paged_context_fmha", "enable"],
  requirements: {},
  hubLinksByDefault: true,
  sources: [
    "t9k/examples deployments/triton-tensorrtllm: convert and trtllm-build of Llama-2-7b-chat with tensorrt_llm 0.8.0",
    "NVIDIA/TensorRT-LLM docs/source/release-notes.md, 0.8 and 0.9",
    "NVIDIA/TensorRT-LLM tensorrt_llm/plugin/plugin.py at v0.8.0: choices and defaults",
  ],
};
