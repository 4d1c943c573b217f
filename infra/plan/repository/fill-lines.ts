/** The commands with which a person puts a repository together in the container. */
import { templateSet } from "../catalogue/templates.ts";
import type { RepositoryClone } from "../engine/release.ts";
import { shellLine } from "../engine/shell-line.ts";
import { fillTemplateArgument } from "./fill.ts";
import type { RepositoryModel, RepositoryPlan } from "./types.ts";

/** Templates whose folder of the version is missing, because Git keeps no empty folder. */
const WITHOUT_VERSION: ReadonlySet<string> = new Set(["multimodal/ensemble"]);

/**
 * Commands for bash, in order: a copy of each template, and one fill_template.py line for each folder that has something to
 * fill in. Typed in the container they leave the repository that the plan describes.
 */
export function fillTemplateLines(plan: RepositoryPlan): string[] {
  return [line("mkdir", "-p", plan.path), ...plan.models.flatMap((model) => modelLines(plan, model))];
}

/**
 * Commands for bash that put a repository at its commit, which `git clone` can't. The submodule keeps binaries in LFS that only a
 * build of TensorRT-LLM itself reads.
 */
export function cloneLines({ url, commit, directory, submodule }: RepositoryClone): string[] {
  return [
    line("git", "init", directory),
    line("git", "-C", directory, "fetch", "--depth", "1", url, commit),
    line("git", "-C", directory, "checkout", "--detach", "FETCH_HEAD"),
    ...(submodule === undefined
      ? []
      : [
          `GIT_LFS_SKIP_SMUDGE=1 ${line("git", "-C", directory, "submodule", "update", "--init", "--depth", "1", submodule)}`,
        ]),
  ];
}

function modelLines(plan: RepositoryPlan, model: RepositoryModel): string[] {
  const folder = `${plan.path}/${model.name}`;
  const config = `${folder}/config.pbtxt`;
  return [
    ...copyLines(model.template, model.templateRoot ?? plan.allModels, folder),
    ...Object.entries(model.configFields ?? {}).flatMap(([field, value]) => [
      line("sed", "-i", `/^${field}\\b/d`, config),
      `${line("echo", `${field}: ${value}`)} >> ${word(config)}`,
    ]),
    ...fillLines(plan, model, config),
    ...Object.entries(model.files ?? {}).map(
      ([path, text]) => `${line("printf", "%s", text)} > ${word(`${folder}/${path}`)}`,
    ),
  ];
}

function copyLines(template: string | null, root: string, folder: string): string[] {
  if (template === null) return [line("mkdir", "-p", `${folder}/1`)];
  const copy = line("cp", "-r", `${root}/${template}`, folder);
  return WITHOUT_VERSION.has(template) ? [copy, line("mkdir", "-p", `${folder}/1`)] : [copy];
}

function fillLines(plan: RepositoryPlan, model: RepositoryModel, config: string): string[] {
  if (Object.keys(model.substitutions).length === 0) return [];
  const set = templateSet(plan.templates);
  if (set === undefined) throw new Error(`No set of templates is called ${plan.templates}.`);
  const argument = fillTemplateArgument(model.substitutions, set);
  return [line("python3", plan.fillTemplate, "-i", config, argument)];
}

function line(...words: readonly string[]): string {
  return words.map(word).join(" ");
}

function word(text: string): string {
  return shellLine([text]);
}
