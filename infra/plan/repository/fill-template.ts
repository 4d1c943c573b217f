/** Values as fill_template.py is handed them, and the commands with which a person puts a repository together. */
import { type TemplateSet, templateSet } from "../catalogue/templates.ts";
import type { RepositoryClone } from "../engine/release.ts";
import { shellLine } from "../engine/shell-line.ts";
import type { RepositoryModel, RepositoryPlan } from "./flavours.ts";

/** How a release's fill_template.py reads its argument. */
type FillTemplateSyntax = Pick<TemplateSet, "escapesCommas">;

/** Why a value can't be filled in; null where it can. */
export function valueObstacle(value: string, { escapesCommas }: FillTemplateSyntax): string | null {
  if (!escapesCommas && /[,:]/.test(value)) {
    return "fill_template.py before TensorRT-LLM 0.16 splits at every comma and colon and has no way to escape them.";
  }
  // The value lands between quotes of config.pbtxt, where it is protobuf text; "${" would read as not filled in.
  if (/["\\$\p{Cc}]/u.test(value)) {
    return "it stands between quotes of config.pbtxt, where quotes, backslashes, dollar signs and control characters have a meaning.";
  }
  return null;
}

/**
 * The argument of fill_template.py: `key:value,key:value`. The script first splits at commas and takes one level of
 * backslashes away, then splits each part at colons and takes another: a colon needs two levels, a comma one.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/tools/fill_template.py
 *
 * @throws RangeError for a value that {@link valueObstacle} names.
 */
export function fillTemplateArgument(
  substitutions: Readonly<Record<string, string>>,
  syntax: FillTemplateSyntax,
): string {
  return Object.entries(substitutions)
    .map(([key, value]) => {
      const obstacle = valueObstacle(value, syntax);
      if (obstacle !== null) throw new RangeError(`${key} can't be ${JSON.stringify(value)}: ${obstacle}`);
      return escaped(`${key}:${escaped(value, ":")}`, ",");
    })
    .join(",");
}

function escaped(text: string, delimiter: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll(delimiter, `\\${delimiter}`);
}

/** Templates whose folder of the version is missing, because Git keeps no empty folder. */
const WITHOUT_VERSION: ReadonlySet<string> = new Set(["multimodal/ensemble"]);

/**
 * Commands for bash, in order: a copy of each template, and one fill_template.py line for each folder with values. Typed in the
 * container they leave the repository that the plan describes.
 */
export function fillTemplateLines(plan: RepositoryPlan): string[] {
  return [line("mkdir", "-p", plan.path), ...plan.models.flatMap((model) => modelLines(plan, model))];
}

function modelLines(
  { allModels, fillTemplate, path, templates }: RepositoryPlan,
  { name, template, templateRoot = allModels, substitutions, configFields = {}, files = {} }: RepositoryModel,
): string[] {
  const folder = `${path}/${name}`;
  const config = `${folder}/config.pbtxt`;
  const set = templateSet(templates);
  if (set === undefined) throw new Error(`No set of templates is called ${templates}.`);
  return [
    ...(template === null ? [] : [line("cp", "-r", `${templateRoot}/${template}`, folder)]),
    ...(template === null || WITHOUT_VERSION.has(template) ? [line("mkdir", "-p", `${folder}/1`)] : []),
    ...Object.entries(configFields).flatMap(([field, value]) => [
      line("sed", "-i", `/^${field}\\b/d`, config),
      `${line("echo", `${field}: ${value}`)} >> ${line(config)}`,
    ]),
    ...(Object.keys(substitutions).length === 0
      ? []
      : [line("python3", fillTemplate, "-i", config, fillTemplateArgument(substitutions, set))]),
    ...Object.entries(files).map(
      ([file, text]) => `${line("printf", "%s", text)} > ${line(`${folder}/${file}`)}`,
    ),
  ];
}

/**
 * Commands for bash that put a repository at its commit, which `git clone` can't. The submodule keeps binaries in LFS that only a
 * build of TensorRT-LLM itself reads.
 */
export function cloneLines({ url, commit, directory, submodule }: RepositoryClone): string[] {
  const git = (...words: readonly string[]) => line("git", "-C", directory, ...words);
  return [
    line("git", "init", directory),
    git("fetch", "--depth", "1", url, commit),
    git("checkout", "--detach", "FETCH_HEAD"),
    ...(submodule === undefined
      ? []
      : [`GIT_LFS_SKIP_SMUDGE=1 ${git("submodule", "update", "--init", "--depth", "1", submodule)}`]),
  ];
}

/** A command in one line, other than `shellLine`, which begins a line for each flag. */
function line(...words: readonly string[]): string {
  return words.map((word) => shellLine([word])).join(" ");
}
