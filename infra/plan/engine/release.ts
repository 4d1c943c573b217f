/** Places of the files of TensorRT-LLM and its backend in an image. */
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

/**
 * Absolute paths of a release's files in an image of the given layout, and the repositories with them that NVIDIA's image lacks.
 * Folders of NVIDIA's image: dockerfile of triton-inference-server/tensorrtllm_backend at v0.17.0 and r25.07; of the
 * `tritonrelease` stage: docker/Dockerfile.multi of NVIDIA/TensorRT-LLM. Older images lack them.
 */
export function imageFiles({ backendCommit }: Pick<Release, "backendCommit">, layout: ImageLayout) {
  const [examples, root] =
    backendCommit !== undefined
      ? [`${BACKEND_FOLDER}/tensorrt_llm/examples`, BACKEND_FOLDER]
      : layout === "ngc"
        ? ["/app/examples", "/app"]
        : ["/app/tensorrt_llm/examples", "/app/tensorrt_llm/triton_backend"];
  const clones: readonly RepositoryClone[] =
    backendCommit === undefined
      ? []
      : [
          {
            url: "https://github.com/triton-inference-server/tensorrtllm_backend.git",
            commit: backendCommit,
            directory: BACKEND_FOLDER,
            submodule: "tensorrt_llm",
          },
        ];
  return {
    /** Folder of converters, run.py, quantize.py. */
    examples,
    /** Folder of the templates of Triton's model repositories. */
    allModels: `${root}/all_models`,
    fillTemplate: `${root}/tools/fill_template.py`,
    clones,
  } as const;
}
