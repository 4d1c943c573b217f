/** Words of commands, with places filled in or named. */
import type { Place, Word } from "./types.ts";

/** A word as the container sees it. */
export function resolveWord(word: Word, places: Readonly<Record<Place, string>>): string {
  return typeof word === "string" ? word : `${word.before ?? ""}${places[word.place]}${word.rest ?? ""}`;
}

/** A word as the key sees it: `<scripts>/run.py`, wherever that is. */
export function nameWord(word: Word): string {
  return typeof word === "string" ? word : `${word.before ?? ""}<${word.place}>${word.rest ?? ""}`;
}
