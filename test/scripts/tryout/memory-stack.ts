/** A stack of things in memory, for the try-out runner. */
import { runProgram } from "../../../scripts/program/run-program.ts";
import type { RuntimeConfig } from "../../../scripts/program/stack-file.ts";
import type { Step } from "../../../scripts/stack/preview-text.ts";
import { TryoutEngine } from "../../../scripts/tryout/engine.ts";
import type { RunnerState } from "../../../scripts/tryout/state.ts";
import { THING, ThingHandler } from "./sequence/in-memory-provider.ts";
import { program, type ThingConfig } from "./sequence/program.ts";

export class MemoryStack {
  readonly things = new ThingHandler();
  state: RunnerState = { resources: [], pending: [] };

  async run(things: readonly ThingConfig[], preview: boolean, run = program): Promise<Step[]> {
    const { engine, done } = this.#engine(preview);
    const config: RuntimeConfig = {
      values: { "engine-room:things": JSON.stringify(things) },
      secretKeys: [],
    };
    await runProgram({ stack: "test", config, preview, owner: engine, program: run });
    await engine.deleteUnregistered();
    return done;
  }

  async destroy(): Promise<void> {
    await this.#engine().engine.deleteUnregistered();
  }

  async refresh(): Promise<Step[]> {
    const { engine, done } = this.#engine();
    await engine.refresh();
    return done;
  }

  #engine(isPreview = false) {
    const done: Step[] = [];
    const engine = new TryoutEngine({
      project: "engine-room",
      stack: "test",
      isPreview,
      handlerOf: (type) => (type === THING ? this.things : undefined),
      state: this.state,
      save: (state) => {
        this.state = structuredClone(state);
      },
      reporter: { start: () => {}, progress: () => {}, end: (step) => void done.push(step) },
    });
    return { engine, done };
  }
}

/** Sorted operations, without unchanged resources. */
export function operations(done: readonly Step[]): string[] {
  return done
    .filter((step) => step.operation !== "same" && step.operation !== "delete-replaced")
    .map((step) => `${step.operation} ${step.type} ${step.name}`)
    .toSorted();
}

/** A thing, and a thing that takes its token. */
export const a: ThingConfig = { name: "a", value: "1" };
export const b: ThingConfig = { name: "b", value: "1", from: "a" };
