/** Where Triton's side of TensorRT-LLM lies in a container, and where a repository is put together. */
import type { ImageLayout, Release } from "../catalogue/types.ts";
import { BACKEND_FOLDER, BACKEND_REPOSITORY, imageFolders } from "../engine/image-folders.ts";
import type { RepositoryClone } from "./types.ts";

/** Where a model repository is put together, on a writable disk of the server. */
export const MODEL_REPOSITORY = "/model-repository";

/** Where triton-inference-server/tutorials is cloned; its guides mount it there too. */
export const TUTORIALS_CLONE = "/tutorials";

/** Places of one image, absolute. */
interface BackendPaths {
  /** Templates of model repositories. */
  readonly allModels: string;
  readonly fillTemplate: string;
  readonly launchScript: string;
  /** What has to be cloned for these to exist in NVIDIA's image; this project's has it. */
  readonly clones: readonly RepositoryClone[];
}

/** Places in the image of a release; an own image of the `tritonrelease` stage has them elsewhere. */
export function backendPaths(release: Release, layout: ImageLayout): BackendPaths {
  const { allModels, tools, scripts } = imageFolders(release, layout);
  return {
    allModels,
    fillTemplate: `${tools}/fill_template.py`,
    launchScript: `${scripts}/launch_triton_server.py`,
    clones:
      release.backendCommit === undefined
        ? []
        : [
            {
              url: BACKEND_REPOSITORY,
              commit: release.backendCommit,
              directory: BACKEND_FOLDER,
              submodule: "tensorrt_llm",
            },
          ],
  };
}
