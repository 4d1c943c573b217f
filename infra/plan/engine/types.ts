/** What a build does, as data: what the builder reads of it, and how its commands are written. */
import type { EngineBuildSpec } from "../container-spec-schemas.ts";

type Built = NonNullable<EngineBuildSpec["plan"]>;

export type EngineKeyFields = Built["keyFields"];

export type VisualNumbers = NonNullable<Built["visual"]>;

export type Place = keyof Built["places"];

/** One word of a command: text, or a place between `before` (`--engine_dir=`) and `rest` (`/run.py`). */
export type Word = string | { readonly place: Place; readonly rest?: string; readonly before?: string };

export type StepName = Built["steps"][number]["name"];

/** A command before its places have paths. */
export interface StepDraft {
  readonly name: StepName;
  readonly summary: string;
  readonly words: readonly Word[];
  readonly environment?: Readonly<Record<string, Word>>;
}

export type EnginePlan = Omit<Built, "steps"> & {
  readonly steps: readonly (Built["steps"][number] & { readonly words: readonly Word[] })[];
};
