/** A step before its places have paths. */
import type { StepName, Word } from "./types.ts";

export interface StepDraft {
  readonly name: StepName;
  readonly summary: string;
  readonly words: readonly Word[];
  /** Values may name places too. */
  readonly environment?: Readonly<Record<string, Word>>;
}

/** Steps whose words decide the engine's bytes, and so its key. */
export const KEY_STEPS: ReadonlySet<StepName> = new Set(["convert", "llm", "vision"]);
