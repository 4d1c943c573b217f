/** Where the files of TensorRT-LLM and its backend lie in an image. */
import type { ImageLayout, Release } from "../catalogue/types.ts";

/** A repository whose files NVIDIA's image lacks; this project's image has them in the same place, some patched. */
export interface RepositoryClone {
  readonly url: string;
  readonly commit: string;
  readonly directory: string;
  /** Path in it of the only submodule that is needed; absent: none. */
  readonly submodule?: string | undefined;
}

/** Where an image has files of triton-inference-server/tensorrtllm_backend; the tutorials mount their clone there. */
const BACKEND_FOLDER = "/tensorrtllm_backend";

/** Absolute paths in an image. */
interface ImageFiles {
  /** Folder of converters, run.py, quantize.py. */
  readonly examples: string;
  /** Folder of the templates of Triton's model repositories. */
  readonly allModels: string;
  /** fill_template.py. */
  readonly fillTemplate: string;
  /** launch_triton_server.py. */
  readonly launchScript: string;
  /** Repositories with these files that NVIDIA's image lacks. */
  readonly clones: readonly RepositoryClone[];
}

/**
 * Files of a release in an image of the given layout. Folders of NVIDIA's image: dockerfile of
 * triton-inference-server/tensorrtllm_backend at v0.17.0 and r25.07; of the `tritonrelease` stage: docker/Dockerfile.multi of
 * NVIDIA/TensorRT-LLM. Older images have none of them.
 */
export function imageFiles(
  { backendCommit }: Pick<Release, "backendCommit">,
  layout: ImageLayout,
): ImageFiles {
  if (backendCommit === undefined) {
    return layout === "ngc"
      ? files("/app/examples", "/app", [])
      : files("/app/tensorrt_llm/examples", "/app/tensorrt_llm/triton_backend", []);
  }
  return files(`${BACKEND_FOLDER}/tensorrt_llm/examples`, BACKEND_FOLDER, [
    {
      url: "https://github.com/triton-inference-server/tensorrtllm_backend.git",
      commit: backendCommit,
      directory: BACKEND_FOLDER,
      submodule: "tensorrt_llm",
    },
  ]);
}

function files(examples: string, root: string, clones: readonly RepositoryClone[]): ImageFiles {
  return {
    examples,
    allModels: `${root}/all_models`,
    fillTemplate: `${root}/tools/fill_template.py`,
    launchScript: `${root}/scripts/launch_triton_server.py`,
    clones,
  };
}
