/**
 * Where TensorRT-LLM's files lie in a container. Folders of NVIDIA's image: dockerfile of
 * triton-inference-server/tensorrtllm_backend at v0.17.0 and r25.07; of the `tritonrelease` stage: docker/Dockerfile.multi
 * of NVIDIA/TensorRT-LLM. Older images have none of them: this project's image adds the backend's.
 */
import type { ImageLayout, Release } from "../catalogue/types.ts";

/** Where an image has files of triton-inference-server/tensorrtllm_backend; the tutorials mount their clone there. */
export const BACKEND_FOLDER = "/tensorrtllm_backend";

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

/** Folders of a release in an image of the given layout; what this project adds lies in the same place in both. */
export function imageFolders(
  { backendCommit }: Pick<Release, "backendCommit">,
  layout: ImageLayout,
): ImageFolders {
  if (backendCommit !== undefined) return folders(`${BACKEND_FOLDER}/tensorrt_llm/examples`, BACKEND_FOLDER);
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
