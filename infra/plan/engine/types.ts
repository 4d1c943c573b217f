/** Plan of an engine as data, and the notation of its commands. */
import type { EngineBuildSpec } from "../container-spec-schemas.ts";

export type EnginePlan = NonNullable<EngineBuildSpec["plan"]>;

export type EngineKeyFields = EnginePlan["keyFields"];

export type VisualNumbers = NonNullable<EnginePlan["visual"]>;

export type Place = keyof EnginePlan["places"];

/** One word of a command: text, or a place between `before` (`--engine_dir=`) and `rest` (`/run.py`). */
export type Word<AnyPlace extends string = Place> =
  | string
  | { readonly place: AnyPlace; readonly rest?: string; readonly before?: string };

export type StepName = EnginePlan["steps"][number]["name"];

/**
 * A command in parts: text is split at spaces and has places as `<weights>`; a list has words as they are, such as a prompt;
 * false is left out.
 */
export function commandWords<AnyPlace extends string = Place>(
  ...parts: readonly (string | readonly string[] | false)[]
): readonly Word<AnyPlace>[] {
  return parts.flatMap((part): readonly Word<AnyPlace>[] => {
    if (part === false) return [];
    if (typeof part !== "string") return part;
    const words = part.split(" ");
    return part.includes("<") ? words.map((word) => parsedWord<AnyPlace>(word)) : words;
  });
}

function parsedWord<AnyPlace extends string>(text: string): Word<AnyPlace> {
  const [start, end] = [text.indexOf("<"), text.indexOf(">")];
  if (start === -1 || end < start) return text;
  const [before, rest] = [text.slice(0, start), text.slice(end + 1)];
  return {
    ...(before !== "" && { before }),
    place: text.slice(start + 1, end) as AnyPlace,
    ...(rest !== "" && { rest }),
  };
}

/** A word as a key has it: `<scripts>/run.py`, wherever that is. */
export function nameWord(word: Word<string>): string {
  return typeof word === "string" ? word : `${word.before ?? ""}<${word.place}>${word.rest ?? ""}`;
}

/** A word as a container sees it. @throws Error for a place that has no path. */
export function resolveWord(word: Word<string>, places: Readonly<Record<string, string>>): string {
  if (typeof word === "string") return word;
  const path = places[word.place];
  if (path === undefined) throw new Error(`No path is known for <${word.place}>.`);
  return `${word.before ?? ""}${path}${word.rest ?? ""}`;
}
