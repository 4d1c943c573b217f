/** The stack operations without a Pulumi CLI. */
import { existsSync, rmSync } from "node:fs";
import { basename } from "node:path";
import { sweepStack } from "../../components/local/provider/supervisor.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { loadPlan } from "../../infra/load-plan.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { CONFIG_NAMESPACE } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { projectName, readStackFile, type StackReference } from "../program/stack-file.ts";
import { TryoutEngine } from "../tryout/engine.ts";
import { localProvider } from "../tryout/local-provider.ts";
import { destroy, refresh, type StateOperation } from "../tryout/refresh.ts";
import { loadState, saveState, stackOutputs } from "../tryout/state.ts";
import { lockStack } from "./lock.ts";
import { changeLines, type StackValues, type Step, withoutSecrets } from "./preview-text.ts";
import { type StackChanges, StepReporter } from "./reporter.ts";
import { assertTryoutOwns, type StackPaths } from "./stack-paths.ts";
import type { PreviewOptions, StackBackend, StackRecord, UpOptions } from "./state.ts";

/** As shells report a process that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;

export class TryoutBackend implements StackBackend {
  readonly title = "try-out runner (no Pulumi CLI found; the state can be imported by one later)";
  readonly #stack: StackReference;
  readonly #paths: StackPaths;

  constructor(stack: StackReference, paths: StackPaths) {
    this.#stack = stack;
    this.#paths = paths;
  }

  async preview({ isFull = false, out = process.stdout }: PreviewOptions = {}): Promise<StackChanges> {
    await this.#refuseOtherPlatforms();
    const reporter = new StepReporter({ out, isPreview: true });
    try {
      await this.#apply(reporter, true);
      reporter.preview(await this.lastApplied(), this.#values(), isFull);
      return reporter.result();
    } finally {
      reporter.close();
    }
  }

  async up({ enforcesPolicies = false, onBegin }: UpOptions = {}): Promise<StackChanges> {
    if (enforcesPolicies)
      throw new UserError(
        "Policies are enforced by the Pulumi CLI, and the try-out runner has none; put `pulumi` on PATH, or leave out --policies.",
      );
    // Planned before anything is read or started, so that a mistake costs nothing.
    await this.#refuseOtherPlatforms();
    onBegin?.();
    return this.#locked("up", async (reporter) => {
      if (existsSync(this.#paths.tryoutState))
        await refresh({ ...this.#stateOperation(reporter), onStart: () => {}, onEnd: reportGone(reporter) });
      const before = await this.lastApplied();
      for (const line of before === undefined ? [] : changeLines(before, this.#values())) reporter.note(line);
      await this.#apply(reporter, false);
    });
  }

  async refresh(): Promise<StackChanges> {
    await this.#refuseForeignStack();
    return this.#locked("refresh", async (reporter) => {
      await refresh(this.#stateOperation(reporter));
    });
  }

  async record(): Promise<StackRecord> {
    await this.#refuseForeignStack();
    return existsSync(this.#paths.tryoutState) ? "resources" : "none";
  }

  async down(): Promise<StackChanges> {
    await this.#refuseForeignStack();
    return this.#locked("down", async (reporter) => {
      await destroy(this.#stateOperation(reporter));
      // What a killed `up` made without recording it goes too; the state goes last, so that `down` can be repeated.
      await sweepStack(this.#paths.relativeDirectory, [basename(this.#paths.tryoutState)]);
      rmSync(this.#paths.tryoutState, { force: true });
      await sweepStack(this.#paths.relativeDirectory, []);
    });
  }

  async lastApplied(): Promise<StackValues | undefined> {
    return loadState(this.#paths.tryoutState).config;
  }

  async outputs(): Promise<StackOutputs | undefined> {
    return stackOutputs(this.#paths.tryoutState);
  }

  #values(): StackValues {
    return fromRuntimeConfig(readStackFile(this.#stack).values);
  }

  async #refuseOtherPlatforms(): Promise<void> {
    await loadPlan(this.#values());
    const { isForTryout, platform } = await operationsOf(this.#stack);
    if (!isForTryout) throw this.#onlyPulumi(platform);
    const encrypted = readStackFile(this.#stack).secretKeys.filter((key) =>
      key.startsWith(`${CONFIG_NAMESPACE}:`),
    );
    if (encrypted.length > 0)
      throw new UserError(
        `${encrypted.join(", ")} has encrypted values, which only the Pulumi CLI decrypts; install it, or write them in plain text.`,
      );
  }

  /** What there is on AWS only the Pulumi CLI can have made; here it would end with "nothing to do". */
  async #refuseForeignStack(): Promise<void> {
    const { mayBeKnownElsewhere, platform } = await operationsOf(this.#stack);
    if (!existsSync(this.#paths.tryoutState) && mayBeKnownElsewhere) throw this.#onlyPulumi(platform);
  }

  #onlyPulumi(platform: string): UserError {
    const where = `only the Pulumi CLI deploys stacks of \`platform: ${platform}\``;
    return new UserError(
      process.env.ENGINE_ROOM_RUNNER === "tryout"
        ? `ENGINE_ROOM_RUNNER=tryout leaves the Pulumi CLI aside, and ${where}; unset it and try again.`
        : `This machine has no Pulumi CLI, and ${where}; install it (https://www.pulumi.com/docs/install/), put \`pulumi\` on PATH and try again.`,
    );
  }

  async #apply(reporter: StepReporter, preview: boolean): Promise<void> {
    const operation = this.#stateOperation(reporter);
    const engine = new TryoutEngine({
      ...operation,
      save: (resources, pending) =>
        saveState(this.#paths.tryoutState, resources, pending, withoutSecrets(this.#values())),
      project: projectName(),
      stack: this.#stack.name,
      preview,
    });
    // Pulumi's SDK takes half a second to load: commands that read or delete a stack do without.
    const { runProgram } = await import("../program/run-program.ts");
    const config = readStackFile(this.#stack);
    if (config.leftOut !== undefined) process.stderr.write(`${config.leftOut}\n`);
    await runProgram({ stack: this.#stack.name, config, preview, owner: engine });
    await engine.deleteUnregistered();
  }

  #stateOperation(reporter: StepReporter): StateOperation {
    const { config, ...state } = loadState(this.#paths.tryoutState);
    return {
      provider: localProvider((name, line) => reporter.progress(name, line)),
      state,
      save: (resources, pending) => saveState(this.#paths.tryoutState, resources, pending, config),
      onStart: (step) => reporter.start(step),
      onEnd: (step, seconds) => reporter.end(step, seconds),
    };
  }

  async #locked(operation: string, work: (reporter: StepReporter) => Promise<void>): Promise<StackChanges> {
    const lock = await lockStack(this.#stack.name, this.#paths.directory, operation);
    const reporter = new StepReporter();
    const interrupted = () => {
      reporter.note(`Interrupted. ${this.#goOn(operation)}`);
      process.exit(INTERRUPTED_EXIT_CODE);
    };
    process.once("SIGINT", interrupted);
    try {
      // Asked again under the lock: a CLI may have taken the stack over meanwhile.
      assertTryoutOwns(this.#stack.name, this.#paths);
      await work(reporter);
      process.stderr.write(`  ${reporter.summary()}\n`);
      return reporter.result();
    } catch (error) {
      if (reporter.hasChanges())
        reporter.note(`${reporter.summary()}, then it failed. ${this.#goOn(operation)}`);
      throw error;
    } finally {
      process.off("SIGINT", interrupted);
      reporter.close();
      lock.release();
    }
  }

  #goOn(operation: string): string {
    const options = this.#stack.name === "local" ? "" : ` --stack ${this.#stack.name}`;
    return `\`npx engine-room status${options}\` shows what runs; \`npx engine-room ${operation}${options}\` resumes.`;
  }
}

/** Before an `up` only what is gone is worth a line. */
function reportGone(reporter: StepReporter): (step: Step, seconds: number) => void {
  return (step) => {
    if (step.operation === "delete")
      reporter.note(`${step.name} is missing or not whole; it will be made again`);
  };
}
