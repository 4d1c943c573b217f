/** Which findings would be about a value that was taken out of a stack file because its schema refused it. */
import { type Finding, pathParts } from "./finding.ts";

/** A part of the stack file, as checks name their keys. */
interface Part {
  readonly section: string;
  /** Entry of `models`; null where it is all of them, or none. */
  readonly index: number | null;
  /** Key of a model, or of a pool; null where it is all of them. */
  readonly key: string | null;
}

/**
 * Whether a finding was made with any of the values.
 *
 * @param path - Path of the finding in the stack file.
 * @param dropped - Paths such as `models[0].limits.maxBatchSize`.
 */
export function restsOnAny({ scope, keys, problem: { path } }: Finding, dropped: readonly string[]): boolean {
  const own = partOf(path);
  const parts = [own, ...keys.map(partOf)];
  const model = scope === "model" && own.section === "models" ? own.index : null;
  return dropped.map(partOf).some((gone) => parts.some((part) => meets(part, gone, model)));
}

function meets(part: Part, gone: Part, model: number | null): boolean {
  if (part.section !== gone.section) return false;
  if (gone.section === "models" && gone.index !== null && model !== null && gone.index !== model)
    return false;
  return part.key === null || gone.key === null || part.key === gone.key;
}

/** The host of a Docker stack is its one pool. */
function partOf(path: string): Part {
  const [first = "", ...rest] = pathParts(path);
  const section = first === "host" ? "pools" : first;
  if (section !== "models" && section !== "pools") return { section, index: null, key: null };
  const isEntry = /^\d+$/.test(rest[0] ?? "");
  return {
    section,
    index: isEntry ? Number(rest[0]) : null,
    key: (isEntry ? rest[1] : rest[0]) ?? null,
  };
}
