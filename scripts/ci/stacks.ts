/** Which stacks the workflows know, and what they do with each. */
import { UserError } from "../errors.ts";

interface StackPipeline {
  /** Whether each pull request shows what it changes in it; that takes no credentials. */
  readonly isPreviewed: boolean;
  /** Why `deploy` and `drift` never touch it; null: they do once the repository's variable names it. */
  readonly keptBack: string | null;
}

/** By name; a test holds it against the stack files of the project. */
export const STACK_PIPELINES: Readonly<Record<string, StackPipeline>> = {
  dev: { isPreviewed: true, keptBack: "it is an example, with the number of nobody's account" },
  kind: { isPreviewed: true, keptBack: "it is for a cluster on somebody's own machine" },
  local: { isPreviewed: true, keptBack: "it is for processes of somebody's own machine" },
  onprem: { isPreviewed: true, keptBack: null },
  prod: { isPreviewed: true, keptBack: "it is an example, with the number of nobody's account" },
};

export type MatrixPurpose = "preview" | "deployed";
export const MATRIX_PURPOSES: readonly MatrixPurpose[] = ["preview", "deployed"];

/**
 * Names of stacks, sorted, as a job's matrix takes them.
 *
 * @param deployed - The repository's variable: names between spaces or commas; empty where nothing is deployed.
 * @throws UserError where the variable names a stack that there is not, or that is never deployed.
 */
export function matrixStacks(
  purpose: MatrixPurpose,
  deployed: string,
  pipelines: Readonly<Record<string, StackPipeline>> = STACK_PIPELINES,
): readonly string[] {
  const names = Object.keys(pipelines).toSorted();
  if (purpose === "preview") return names.filter((name) => pipelines[name]?.isPreviewed);
  const wanted = new Set(deployed.split(/[\s,]+/).filter((name) => name !== ""));
  for (const name of wanted) {
    const pipeline = pipelines[name];
    if (pipeline === undefined)
      throw new UserError(
        `There is no stack ${JSON.stringify(name)} to deploy; there are ${names.join(", ")}.`,
      );
    if (pipeline.keptBack !== null)
      throw new UserError(`The stack ${name} is not deployed: ${pipeline.keptBack}.`);
  }
  return [...wanted].toSorted();
}
