/** What a build needs besides the image: Python packages, source code of a model. */
import type { EngineSpec } from "../spec.ts";
import { imageFolders } from "./image-folders.ts";
import type { RecipeTable } from "./recipes/types.ts";
import type { StepDraft } from "./step-draft.ts";

/** Commands in their order; most models need none. */
export function requirementSteps(spec: EngineSpec, table: RecipeTable): readonly StepDraft[] {
  return [...packages(spec, table), ...sourceCode(spec)];
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
