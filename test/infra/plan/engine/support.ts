/** Commands of a plan, and command lines as documents print them. */

import type { EnginePlan } from "../../../../infra/plan/container-spec-schemas.ts";

/** Words of the only step of a name, with places as `<weights>`. */
export function namedWords(plan: EnginePlan, name: EnginePlan["steps"][number]["name"]): readonly string[] {
  const steps = plan.steps.filter((step) => step.name === name);
  if (steps.length !== 1) throw new Error(`${steps.length} steps named ${name}`);
  // The longest path first: a folder's path begins those of its files.
  const places = Object.entries(plan.places as Readonly<Record<string, string>>).sort(
    ([, a], [, b]) => b.length - a.length,
  );
  return steps.flatMap(({ argv }) =>
    argv.map((word) => places.reduce((text, [place, path]) => text.replace(path, `<${place}>`), word)),
  );
}

/** A change that a document's command needs before it is right, and why. */
export interface Correction {
  /** Text of the document, found exactly once. */
  readonly document: string;
  readonly corrected: string;
  readonly reason: string;
}

/** Applies corrections to a document's command; each must find its text. */
export function correct(command: string, corrections: readonly Correction[]): string {
  return corrections.reduce((text, { document, corrected }) => {
    if (text.split(document).length !== 2) throw new Error(`"${document}" is not once in: ${text}`);
    return text.replace(document, () => corrected);
  }, command);
}

/** Words of a command line: quotes as bash reads them, as far as the documents use them. */
export function shellWords(command: string): readonly string[] {
  const text = command.replace(/\\\n/g, " ");
  return [...text.matchAll(/(?:\$'(?:[^'\\]|\\.)*'|"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replace(/\$'((?:[^'\\]|\\.)*)'|"([^"]*)"|'([^']*)'/g, (_all, ansi, double, single) =>
      ansi === undefined ? (double ?? single) : ansi.replace(/\\n/g, "\n"),
    ),
  );
}

/** Program and flags with their values. Flags are sorted, since argparse ignores their order. */
export function byFlag(words: readonly string[]): readonly (readonly string[])[] {
  const groups: string[][] = [[]];
  for (const word of words) {
    if (word.startsWith("--")) groups.push([]);
    groups.at(-1)?.push(word);
  }
  const [program = [], ...flags] = groups;
  return [program, ...flags.sort((a, b) => (a.join(" ") < b.join(" ") ? -1 : 1))];
}
