/** A user's own files in place of the release's templates. */
import { nearestName } from "../../problems.ts";
import {
  modelRequirements,
  REQUIREMENTS_FILE,
  readRequirements,
  releaseRequirements,
  requirementLines,
} from "../docker/python-packages.ts";
import { enginePlan } from "../engine/engine-plan.ts";
import { unsupportedReason } from "../engine/recipes.ts";
import { repositoryProblems } from "../repository/problems.ts";
import { type RepositoryModel, repositoryPlan } from "../repository/repository-plan.ts";
import type { ModelSpec } from "../spec.ts";
import { type Check, eachModel, type Finding } from "./check.ts";

/** The build's shell gets them as one variable, of at most 128 KiB in Linux, with those of the release. */
const MOST_BYTES_OF_PACKAGES = 120_000;

export const templateChecks = {
  templatesAreServed: eachModel((model) => {
    const { templateFiles, ...serving } = model.serving;
    if (templateFiles === undefined || !hasRepository(model)) return [];
    const engine = serving.runtime === "engine" ? enginePlan(model.engine) : null;
    const { models } = repositoryPlan({ ...model, serving }, engine, 1);
    return Object.entries(templateFiles).flatMap(([file, text]) =>
      fileProblems(file, text, models).map((problem) => ({ path: pathOf(model), ...problem })),
    );
  }),

  packagesFitTogether: ({ spec: { release, models } }) => {
    const first = new Map(
      releaseRequirements(release).map(({ name, version }) => [
        name,
        { version, owner: `release ${release.tag}` },
      ]),
    );
    const listed = models.map((model) => ({ model, requirements: modelRequirements(model) }));
    const conflicts = listed.flatMap(({ model, requirements }) =>
      requirements.flatMap(({ name, version }) => {
        const { version: other, owner } = first.get(name) ?? { version, owner: pathOf(model) };
        first.set(name, { version: other, owner });
        if (version === other) return [];
        return {
          path: pathOf(model),
          reason: `${REQUIREMENTS_FILE} has ${name} ${version}, and ${owner} has ${other}: one image serves all models.`,
          fix: `Write ${name}==${other} with its hashes here too.`,
        };
      }),
    );
    const lines = requirementLines(listed.flatMap(({ requirements }) => requirements));
    const bytes = Buffer.byteLength(lines.join("\n"));
    const tooLong = bytes > MOST_BYTES_OF_PACKAGES && {
      path: "models",
      value: `${lines.length} packages`,
      reason: `Packages of all models have ${bytes} bytes with their hashes, and the image's build takes at most ${MOST_BYTES_OF_PACKAGES}.`,
      fix: "Keep only the hash of the wheel that the image's Python takes, for each package.",
    };
    return [...conflicts, tooLong];
  },
} satisfies Record<string, Check>;

function pathOf({ path }: ModelSpec): string {
  return `${path}.triton.templates`;
}

/** Others are reported already. */
function hasRepository(model: ModelSpec): boolean {
  const isBuilt = model.serving.runtime !== "engine" || unsupportedReason(model.engine) === null;
  return isBuilt && repositoryProblems(model).length === 0;
}

type Problem = Pick<Finding, "reason" | "fix">;

function fileProblems(file: string, text: string, models: readonly RepositoryModel[]): readonly Problem[] {
  if (file === REQUIREMENTS_FILE)
    return readRequirements(text).refused.map(({ line, reason, fix }) => ({
      reason: `Line ${line} of ${file} ${reason}`,
      fix,
    }));
  const problem = fileProblem(file, text, models);
  return problem === null ? [] : [problem];
}

function fileProblem(file: string, text: string, models: readonly RepositoryModel[]): Problem | null {
  const [folder = "", ...rest] = file.split("/");
  const inner = rest.join("/");
  if (/(^|\/)requirements[^/]*\.txt$/.test(file)) {
    return {
      reason: `${file} lists packages, and only ${REQUIREMENTS_FILE} at the top of the folder is installed, when the image is built.`,
      fix: `Move its lines to ${REQUIREMENTS_FILE} there.`,
    };
  }
  const names = models.map(({ name }) => name);
  const model = models.find(({ name }) => name === folder);
  if (model === undefined || inner === "") {
    const nearest = nearestName(folder, names);
    return {
      reason: `${file} is of no model of the repository, which has ${names.join(", ")}.`,
      fix: nearest === undefined ? `Put it below the folder of a model.` : `Did you mean \`${nearest}\`?`,
    };
  }
  if (model.files !== undefined && Object.hasOwn(model.files, inner)) {
    return {
      reason: `The plan writes ${file} from other keys of the model.`,
      fix: "Remove the file, and set the keys.",
    };
  }
  // The entry point installs the project's own files, and renames a template's 1/model.py to 1/template_model.py.
  const { sources = {} } = model;
  const isTaken = inner !== "1/model.py" && Object.hasOwn(sources, inner);
  if (isTaken || inner === "1/template_model.py") {
    return {
      reason: isTaken
        ? `The server has a file of this project at ${file}.`
        : `${file} is where the server keeps a template's model.py that this project wraps.`,
      fix: "Give the file another name.",
    };
  }
  return inner === "config.pbtxt" ? configProblem(file, text, model) : null;
}

/** Text format of protobuf, as far as brackets, quotes and fields go; placeholders count as words. */
const TOKEN =
  /[\s]+|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{<[]|[}>\]]|[:,;]|(?:\$\{[^}\n]*\}|[A-Za-z0-9_.+-])+/y;
const CLOSES: Readonly<Record<string, string>> = { "{": "}", "<": ">", "[": "]" };

function configProblem(file: string, text: string, model: RepositoryModel): Problem | null {
  const known = Object.keys({ ...model.substitutions, ...model.defaults });
  const open: string[] = [];
  let position = 0;
  const refused = (complaint: string): Problem => ({
    reason: `${file} is not text of protobuf: line ${text.slice(0, position).split("\n").length} ${complaint}.`,
    fix: "Begin with the release's own file, which `npx engine-room shell` shows in the container.",
  });
  while (position < text.length) {
    TOKEN.lastIndex = position;
    const token = TOKEN.exec(text)?.[0];
    if (token === undefined) return refused(`has ${JSON.stringify(text[position])}, which has no meaning`);
    if (token in CLOSES) open.push(CLOSES[token] ?? "");
    else if (/^[}>\]]$/.test(token) && open.pop() !== token)
      return refused(`closes ${token} that is not open`);
    const strange = token.startsWith("#")
      ? undefined
      : [...token.matchAll(/\$\{([^}]*)\}/g)]
          .map(([, name = ""]) => name)
          .find((name) => !known.includes(name));
    if (strange !== undefined) {
      const nearest = nearestName(strange, known);
      return {
        reason: `${file} has the placeholder ${strange}, which the release's template of ${model.name} lacks: nothing would fill it in.`,
        fix: nearest === undefined ? "Write its value in its place." : `Did you mean \`${nearest}\`?`,
      };
    }
    position += token.length;
  }
  return open.length === 0 ? null : refused(`ends with ${open.join("")} not closed`);
}
