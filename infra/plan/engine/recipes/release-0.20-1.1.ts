/** TensorRT-LLM 0.20 to 1.1: containers 25.06 to 26.02. */
import type { RecipeTable } from "./types.ts";
import { S2_WRAPPER } from "./vila-packages.ts";
import { allVisualModelsSince } from "./visual-since.ts";

const VISUAL_SINCE = "0.20";

export const release020To11: RecipeTable = {
  range: "0.20-1.1",
  converters: {
    gpt: "models/core/gpt/convert_checkpoint.py",
    llama: "models/core/llama/convert_checkpoint.py",
    opt: "models/contrib/opt/convert_checkpoint.py",
    // docs/multimodal.md of the backend writes models/contrib/qwen, which does not exist.
    qwen: "models/core/qwen/convert_checkpoint.py",
    mllama: "models/core/mllama/convert_checkpoint.py",
  },
  quantizer: "quantization/quantize.py",
  runScript: "run.py",
  sequenceFlag: [{ since: "0.20", value: "--max_seq_len" }],
  textBuildFlags: [],
  visual: {
    builder: "models/core/multimodal/build_multimodal_engine.py",
    runScript: "models/core/multimodal/run.py",
    since: allVisualModelsSince(VISUAL_SINCE),
    engineDirectories: "together",
    imagePathSince: VISUAL_SINCE,
    runFlags: [],
    fusedMlp: [{ since: "0.20", value: ["--use_fused_mlp=enable"] }],
    fusedMlpModels: ["llava", "vila", "llava_onevision"],
  },
  gemmPluginAutoSince: VISUAL_SINCE,
  pagedContextFlags: [],
  requirements: {
    // transformers from 4.45 on and torchvision: the image has both.
    "requirements-mllama.txt": [],
    // Of examples/models/core/multimodal/requirements-llava_onevision.txt the image lacks LLaVA-NeXT, which only model type
    // llava_onevision_lmms imports, and av, which reads videos of run.py.
    "requirements-llava-onevision.txt": [],
    "requirements-vila.txt": [S2_WRAPPER],
  },
  hubLinksByDefault: false,
  sources: [
    "NVIDIA/TensorRT-LLM examples/models/core/multimodal/README.md and examples/models/core/gpt/README.md",
    "NVIDIA/TensorRT-LLM triton_backend/all_models/multimodal (requirements files) and tensorrt_llm/commands/build.py",
    "NVIDIA/TensorRT-LLM tensorrt_llm/tools/multimodal_builder.py: what the visual builder of each model imports",
    "triton-inference-server/tensorrtllm_backend dockerfile/Dockerfile.triton.trt_llm_backend at r25.07: torchvision",
    "The LLaVA-1.5 walkthrough for 25.07 (run.py prints 0.20.0)",
  ],
};
