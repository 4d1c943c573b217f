import type { RenderedTree } from "./rendered-tree.ts";
import type { PolicyViolation } from "./types.ts";

export interface ComparedStack {
  readonly stack: string;
  readonly base: RenderedTree;
  readonly head: RenderedTree;
}

/** Rules that the head breaks. */
export function stackViolations(_compared: ComparedStack): readonly PolicyViolation[] {
  return [];
}
