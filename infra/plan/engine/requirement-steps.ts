/** What a build needs besides the image: Python packages, source code of a model. */
import type { EngineSpec } from "../spec.ts";
import { shortKey } from "./engine-key.ts";
import { imageFolders } from "./image-folders.ts";
import type { RecipeTable, VisualModelType } from "./recipes/types.ts";
import type { StepDraft } from "./step-draft.ts";

/** A line of a model's source code that has to be another one, as sed's patterns without slashes. */
interface SourceEdit {
  readonly file: string;
  /** Command of sed, which finds nothing in code that needs no edit, or has it. */
  readonly sed: string;
}

/**
 * VILA's code is of transformers 4.37 and for training too. As it is, none of TensorRT-LLM's builders can import it in an
 * image. With these edits at the catalogue's commit, a small model of the same layout loads, computes and is exported to ONNX
 * with transformers 4.45.1, 4.48.3, 4.51.3, 4.53.1 and 4.56.0, and without deepspeed and flash_attn.
 */
const SOURCE_EDITS: Readonly<Partial<Record<VisualModelType, readonly SourceEdit[]>>> = {
  vila: [
    {
      // Only training over several machines calls it; deepspeed is in no image.
      file: "llava/train/sequence_parallel/globals.py",
      sed: "s/^import deepspeed.comm as dist$/import torch.distributed as dist/",
    },
    {
      // Since transformers 4.51 it takes no argument; before, this was the default.
      file: "llava/model/llava_arch.py",
      sed: "s/no_init_weights(_enable=True)/no_init_weights()/",
    },
    {
      // Other models' visual tower, which wants flash_attn: images before 25.05 have none, and the index only its sources.
      file: "llava/model/multimodal_encoder/builder.py",
      sed: "/^from .intern_encoder import InternVisionTower$/d",
    },
  ],
};

/** Commands in their order; most models need none. */
export function requirementSteps(spec: EngineSpec, table: RecipeTable): readonly StepDraft[] {
  return [...packages(spec, table), ...sourceCode(spec)];
}

/**
 * Folder of a model's source code in the store: name of the repository and commit, so that no build edits files which another
 * one reads.
 */
export function codeDirectory(url: string, commit: string | null): string {
  const name =
    url
      .replace(/\/+$/, "")
      .replace(/\.git$/, "")
      .split("/")
      .at(-1) ?? "";
  return `/store/code/${name}${commit === null ? "" : `-${shortKey(commit)}`}`;
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

/** `init`, `fetch` and `checkout` may be run again on what is there, unlike `clone`; so may the edits. */
function sourceCode({ row: { vision } }: EngineSpec): readonly StepDraft[] {
  const code = vision?.codeRepository;
  if (vision === undefined || code === undefined) return [];
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
    git(
      "its files",
      ...["-C", { place: "code" } as const, "checkout", "--detach"],
      // Without a commit the files may be other ones next time, and edited ones would be in the way.
      ...(code.commit === null ? ["--force"] : []),
      "FETCH_HEAD",
    ),
    ...sourceEdits(vision.modelType),
  ];
}

function sourceEdits(modelType: VisualModelType): readonly StepDraft[] {
  return (SOURCE_EDITS[modelType] ?? []).map(({ file, sed }) => ({
    name: "requirements",
    summary: "a line of it that the image's packages don't go with",
    words: ["sed", "-i", sed, { place: "code", rest: `/${file}` }],
  }));
}
