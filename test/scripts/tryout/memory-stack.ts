/** A stack of things that lives in memory, run by the try-out runner. */
import { runProgram } from "../../../scripts/program/run-program.ts";
import type { RuntimeConfig } from "../../../scripts/program/stack-file.ts";
import type { Step } from "../../../scripts/stack/preview-text.ts";
import { TryoutEngine } from "../../../scripts/tryout/engine.ts";
import { destroy, refresh } from "../../../scripts/tryout/refresh.ts";
import type { PendingOperation, ResourceState } from "../../../scripts/tryout/state.ts";
import { program, type ThingConfig } from "./sequence/program.ts";
import { ThingProvider } from "./sequence/things.ts";

export class MemoryStack {
  readonly provider = new ThingProvider();
  resources: ResourceState[] = [];
  pending: PendingOperation[] = [];
  saves = 0;

  async run(things: readonly ThingConfig[], preview: boolean, run = program): Promise<Step[]> {
    const done: Step[] = [];
    const config: RuntimeConfig = {
      values: { "engine-room:things": JSON.stringify(things) },
      secretKeys: [],
    };
    const engine = new TryoutEngine({
      project: "engine-room",
      stack: "test",
      preview,
      ...this.#common(done),
    });
    await runProgram({ stack: "test", config, preview, owner: engine, program: run });
    await engine.deleteUnregistered();
    return done;
  }

  async destroy(): Promise<Step[]> {
    const done: Step[] = [];
    await destroy(this.#common(done));
    return done;
  }

  async refresh(): Promise<Step[]> {
    const done: Step[] = [];
    await refresh(this.#common(done));
    return done;
  }

  #common(done: Step[]) {
    return {
      provider: this.provider,
      state: { resources: this.resources, pending: this.pending },
      save: (resources: ResourceState[], pending: PendingOperation[]) => {
        this.saves += 1;
        this.resources = structuredClone(resources);
        this.pending = structuredClone(pending);
      },
      onStart: () => {},
      onEnd: (step: Step) => void done.push(step),
    };
  }
}

/** What was done, without what stayed the same, sorted. */
export function operations(done: readonly Step[]): string[] {
  return done
    .filter((step) => step.operation !== "same" && step.operation !== "delete-replaced")
    .map((step) => `${step.operation} ${step.type} ${step.name}`)
    .toSorted();
}

/** A thing, and one that takes its token. */
export const a: ThingConfig = { name: "a", value: "1" };
export const b: ThingConfig = { name: "b", value: "1", from: "a" };
