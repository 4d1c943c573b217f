/** What a build needs besides the image: the backend's clone for old images, Python packages, source code of a model. */
import type { EngineSpec } from "../spec.ts";
import { BACKEND_CLONE, BACKEND_REPOSITORY, imageFolders } from "./image-folders.ts";
import type { RecipeTable } from "./recipes/types.ts";
import type { StepDraft } from "./step-draft.ts";

/** Commands in their order; most models need none. */
export function requirementSteps(spec: EngineSpec, table: RecipeTable): readonly StepDraft[] {
  return [...backendClone(spec), ...packages(spec, table), ...sourceCode(spec)];
}

/** Folder of a model's source code in the store; the name of the repository. */
export function codeDirectory(url: string): string {
  const name =
    url
      .replace(/\/+$/, "")
      .replace(/\.git$/, "")
      .split("/")
      .at(-1) ?? "";
  return `/store/code/${name}`;
}

function backendClone({ release }: EngineSpec): readonly StepDraft[] {
  if (release.files !== "clone") return [];
  return [
    {
      name: "requirements",
      summary: `converters and templates of ${release.backendRef}: the image has none`,
      words: [
        "git",
        "clone",
        "--depth",
        "1",
        "--branch",
        release.backendRef,
        "--recurse-submodules=tensorrt_llm",
        "--shallow-submodules",
        BACKEND_REPOSITORY,
        BACKEND_CLONE,
      ],
      // The submodule keeps binaries in LFS that only a build of TensorRT-LLM itself reads.
      environment: { GIT_LFS_SKIP_SMUDGE: "1" },
    },
  ];
}

function packages({ row, release, layout }: EngineSpec, table: RecipeTable): readonly StepDraft[] {
  const file = row.vision?.requirements;
  if (file === undefined) return [];
  const pinned = table.requirements[file];
  if (pinned?.length === 0) return [];
  const words =
    pinned === undefined
      ? ["-r", `${imageFolders(release, layout).allModels}/multimodal/${file}`]
      : ["--no-deps", ...pinned];
  return [
    { name: "requirements", summary: "Python packages of the model", words: ["pip", "install", ...words] },
  ];
}

/** `init`, `fetch` and `checkout` may be run again on what is there, unlike `clone`. */
function sourceCode({ row }: EngineSpec): readonly StepDraft[] {
  const code = row.vision?.codeRepository;
  if (code === undefined) return [];
  const git = (summary: string, ...words: StepDraft["words"]): StepDraft => ({
    name: "requirements",
    summary,
    words: ["git", ...words],
  });
  return [
    git("folder for the model's source code", "init", { place: "code" }),
    git(
      "the model's source code",
      "-C",
      { place: "code" },
      "fetch",
      "--depth",
      "1",
      code.url,
      code.commit ?? "HEAD",
    ),
    git("its files", "-C", { place: "code" }, "checkout", "--detach", "FETCH_HEAD"),
  ];
}
