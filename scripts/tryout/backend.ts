/** The stack operations without a Pulumi CLI. */
import { existsSync, rmSync } from "node:fs";
import { basename } from "node:path";
import type { ResourceHandler } from "../../components/local/provider/contract.ts";
import { handlers } from "../../components/local/provider/handlers.ts";
import { sweepStack } from "../../components/local/provider/supervisor.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { loadPlan } from "../../infra/load-plan.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { CONFIG_NAMESPACE } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { projectName, readStackFile, type StackReference } from "../program/stack-file.ts";
import { changeLines, type StackValues, withoutSecrets } from "../stack/preview-text.ts";
import { changeStack, type StackChanges, StepReporter } from "../stack/reporter.ts";
import { assertTryoutOwns, stackPaths } from "../stack/stack-paths.ts";
import {
  outputsOf,
  type PreviewOptions,
  type StackBackend,
  type StackRecord,
  type UpOptions,
} from "../stack/state.ts";
import { TryoutEngine } from "./engine.ts";
import { loadState, saveState } from "./state.ts";

/** As shells report a process that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;

export class TryoutBackend implements StackBackend {
  readonly title = "try-out runner (no Pulumi CLI found; the state can be imported by one later)";
  readonly #stack: StackReference;
  /** Path of its state. */
  readonly #state: string;

  constructor(stack: StackReference) {
    this.#stack = stack;
    this.#state = stackPaths(stack.name).tryoutState;
  }

  async preview({ isFull = false, out }: PreviewOptions = {}): Promise<StackChanges> {
    await this.#refuseOtherPlatforms();
    const reporter = new StepReporter({ out: out ?? process.stdout, isPreview: true });
    try {
      await this.#apply(reporter, true);
      reporter.preview(await this.lastApplied(), this.#values(), isFull);
      return reporter.result();
    } finally {
      reporter.close();
    }
  }

  async up({ enforcesPolicies = false, approved }: UpOptions = {}): Promise<StackChanges> {
    if (enforcesPolicies || approved !== undefined)
      throw new UserError(
        "Policies are enforced and previews compared by the Pulumi CLI, and the try-out runner has no policies; put `pulumi` on PATH, or leave out --policies and --approved.",
      );
    // Planned before any reading or start, so that a mistake costs nothing.
    await this.#refuseOtherPlatforms();
    return this.#change("up", async (reporter) => {
      await this.#engine({
        start: () => {},
        progress: () => {},
        // Before an `up` only missing resources are reported.
        end: ({ operation, name }) =>
          operation === "delete" &&
          reporter.note(`${name} is missing or incomplete; it will be created again`),
      }).refresh();
      const before = await this.lastApplied();
      for (const line of before === undefined ? [] : changeLines(before, this.#values())) reporter.note(line);
      await this.#apply(reporter, false);
    });
  }

  async refresh(): Promise<StackChanges> {
    await this.#refuseForeignStack();
    return this.#change("refresh", (reporter) => this.#engine(reporter).refresh());
  }

  async record(): Promise<StackRecord> {
    await this.#refuseForeignStack();
    return existsSync(this.#state) ? "resources" : "none";
  }

  async down(): Promise<StackChanges> {
    await this.#refuseForeignStack();
    return this.#change("down", async (reporter) => {
      const { relativeDirectory } = stackPaths(this.#stack.name);
      await this.#engine(reporter).deleteUnregistered();
      // Deletes unrecorded resources of a killed `up` too, and the state last, so that `down` can be repeated.
      await sweepStack(relativeDirectory, [basename(this.#state)]);
      rmSync(this.#state, { force: true });
      await sweepStack(relativeDirectory, []);
    });
  }

  async lastApplied(): Promise<StackValues | undefined> {
    return loadState(this.#state).config;
  }

  async outputs(): Promise<StackOutputs | undefined> {
    return outputsOf(loadState(this.#state).resources);
  }

  #values(): StackValues {
    return fromRuntimeConfig(readStackFile(this.#stack).values);
  }

  async #refuseOtherPlatforms(): Promise<void> {
    await loadPlan(this.#values());
    const { isForTryout, platform } = await operationsOf(this.#stack);
    if (!isForTryout) throw onlyPulumi(platform);
    const encrypted = readStackFile(this.#stack).secretKeys.filter((key) =>
      key.startsWith(`${CONFIG_NAMESPACE}:`),
    );
    if (encrypted.length > 0)
      throw new UserError(
        `${encrypted.join(", ")} has encrypted values, which only the Pulumi CLI decrypts; install it, or write them in plain text.`,
      );
  }

  /** Only the Pulumi CLI can have created resources on AWS; here it would end with "nothing to do". */
  async #refuseForeignStack(): Promise<void> {
    const { isRented, platform } = await operationsOf(this.#stack);
    if (!existsSync(this.#state) && isRented) throw onlyPulumi(platform);
  }

  async #apply(reporter: StepReporter, isPreview: boolean): Promise<void> {
    const config = readStackFile(this.#stack);
    if (config.leftOut !== undefined) process.stderr.write(`${config.leftOut}\n`);
    const engine = this.#engine(reporter, isPreview, withoutSecrets(this.#values()));
    // Pulumi's SDK takes half a second to load: commands that read or delete a stack do not load it.
    const { runProgram } = await import("../program/run-program.ts");
    await runProgram({ stack: this.#stack.name, config, preview: isPreview, owner: engine });
    await engine.deleteUnregistered();
  }

  /** @param config - Values of the stack file that the state keeps. @default those that it has */
  #engine(
    reporter: Pick<StepReporter, "start" | "end" | "progress">,
    isPreview = false,
    config?: StackValues,
  ): TryoutEngine {
    const state = loadState(this.#state);
    return new TryoutEngine({
      project: projectName(),
      stack: this.#stack.name,
      isPreview,
      handlerOf: (type) => (handlers as Readonly<Record<string, ResourceHandler>>)[type],
      state,
      save: (changed) => saveState(this.#state, { ...state, ...changed, ...(config && { config }) }),
      reporter,
    });
  }

  #change(
    operation: "up" | "refresh" | "down",
    work: (reporter: StepReporter) => Promise<void>,
  ): Promise<StackChanges> {
    return changeStack(this.#stack, operation, async (reporter) => {
      // Checked again under the lock: a CLI may have taken over the stack meanwhile.
      assertTryoutOwns(this.#stack.name);
      const interrupted = () => {
        reporter.note(`Interrupted. \`npx engine-room ${operation} --stack ${this.#stack.name}\` resumes.`);
        process.exit(INTERRUPTED_EXIT_CODE);
      };
      process.once("SIGINT", interrupted);
      try {
        await work(reporter);
      } finally {
        process.off("SIGINT", interrupted);
      }
    });
  }
}

function onlyPulumi(platform: string): UserError {
  const where = `only the Pulumi CLI deploys stacks of \`platform: ${platform}\``;
  return new UserError(
    process.env.ENGINE_ROOM_RUNNER === "tryout"
      ? `ENGINE_ROOM_RUNNER=tryout leaves the Pulumi CLI aside, and ${where}; unset it and try again.`
      : `This machine has no Pulumi CLI, and ${where}; install it (https://www.pulumi.com/docs/install/), put \`pulumi\` on PATH and try again.`,
  );
}
