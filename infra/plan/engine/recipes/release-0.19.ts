/** TensorRT-LLM 0.19: container 25.05. */
import { release010To018 } from "./release-0.10-0.18.ts";
import type { RecipeTable } from "./types.ts";
import { allVisualModelsSince } from "./visual-since.ts";

const VISUAL_SINCE = "0.19";

export const release019: RecipeTable = {
  ...release010To018,
  range: "0.19",
  sequenceFlag: [{ since: "0.19", value: "--max_seq_len" }],
  gemmPluginAutoSince: VISUAL_SINCE,
  pagedContextFlags: [],
  visual: {
    // The visual builder has its new name and still its old folder.
    builder: "multimodal/build_multimodal_engine.py",
    runScript: "multimodal/run.py",
    since: allVisualModelsSince(VISUAL_SINCE),
    engineDirectories: "together",
    imagePathSince: VISUAL_SINCE,
    runFlags: [],
    fusedMlp: [],
    fusedMlpModels: [],
  },
  sources: [
    "triton-inference-server/tensorrtllm_backend docs/multimodal.md at v0.19.0",
    "github.com/NVIDIA/TensorRT-LLM/issues/4275: the image of 25.05 has /app/examples/llama, as these documents say and" +
      " other than the backend's README at r25.05",
  ],
};
