/**
 * Where TensorRT-LLM's files lie in a container. Folders of NVIDIA's image: dockerfile of
 * triton-inference-server/tensorrtllm_backend at v0.17.0 and r25.07; of the `tritonrelease` stage: docker/Dockerfile.multi
 * of NVIDIA/TensorRT-LLM. Older images have none of them, so the backend's repository is cloned.
 */
import type { ImageLayout, Release } from "../catalogue/types.ts";

/** Clone of triton-inference-server/tensorrtllm_backend, as the tutorials mount it. */
export const BACKEND_CLONE = "/tensorrtllm_backend";

export const BACKEND_REPOSITORY = "https://github.com/triton-inference-server/tensorrtllm_backend.git";

interface ImageFolders {
  /** Converters, run.py, quantize.py. */
  readonly examples: string;
  /** Templates of Triton's model repositories. */
  readonly allModels: string;
  /** fill_template.py. */
  readonly tools: string;
  /** launch_triton_server.py. */
  readonly scripts: string;
}

/** Folders of a release in an image of the given layout; a clone lies in the same place in both. */
export function imageFolders(release: Pick<Release, "files" | "recipes">, layout: ImageLayout): ImageFolders {
  if (release.files === "clone") {
    // From TensorRT-LLM 0.20 on the backend's repository has no files of its own: they came into the submodule.
    const files =
      release.recipes === "0.20-1.1" ? `${BACKEND_CLONE}/tensorrt_llm/triton_backend` : BACKEND_CLONE;
    return folders(`${BACKEND_CLONE}/tensorrt_llm/examples`, files);
  }
  return layout === "ngc"
    ? folders("/app/examples", "/app")
    : folders("/app/tensorrt_llm/examples", "/app/tensorrt_llm/triton_backend");
}

function folders(examples: string, files: string): ImageFolders {
  return {
    examples,
    allModels: `${files}/all_models`,
    tools: `${files}/tools`,
    scripts: `${files}/scripts`,
  };
}
