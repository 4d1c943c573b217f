/** The stack operations through the Pulumi CLI, in the backend that it is logged in to. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { delimiter, dirname } from "node:path";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { sweepStack } from "../../components/local/provider/supervisor.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { PulumiState } from "../expire/pulumi-states.ts";
import { operationsOf } from "../platforms/index.ts";
import { projectRoot, readStackFile, type StackReference } from "../program/stack-file.ts";
import { approvedPreview, requireApproved } from "./approved-preview.ts";
import { StackLockedError } from "./lock.ts";
import { changeLines, type StackValues } from "./preview-text.ts";
import {
  backendUrl,
  loginUrl,
  PulumiError,
  passphraseAdvice,
  pulumiEnvironment,
  runPulumi,
} from "./pulumi-cli.ts";
import {
  copiedConfig,
  inTemporaryFolder,
  makeStack,
  POLICY_PACK,
  previewJson,
  previewPolicies,
  type StackPlace,
} from "./pulumi-preview.ts";
import { changeStack, EngineReport, type StackChanges, StepReporter } from "./reporter.ts";
import { refuseOtherBackend, refuseUnknownBackend, stackPaths, writeOwner } from "./stack-paths.ts";
import {
  type Deployment,
  outputsOf,
  type PreviewOptions,
  parsedDeployment,
  type StackBackend,
  type StackRecord,
  type UpOptions,
  unfinishedResources,
} from "./state.ts";

const EMPTY: Deployment = { resources: [], pending_operations: [] };

interface RunOptions {
  readonly policyPacks?: string[];
  readonly refresh?: boolean;
  readonly replace?: string[];
}

export class PulumiBackend implements StackBackend {
  readonly title: string;
  readonly #stack: StackReference;
  readonly #executable: string;
  /** Address of Pulumi's backend. */
  readonly #url = backendUrl();

  constructor(stack: StackReference, executable: string) {
    this.title = `Pulumi CLI, with the backend ${this.#url}`;
    this.#stack = stack;
    this.#executable = executable;
  }

  async preview({ isFull = false, operation = "up", out }: PreviewOptions = {}): Promise<StackChanges> {
    const values = fromRuntimeConfig(readStackFile(this.#stack).values);
    const state = await this.#state();
    const reporter = new StepReporter({ out: out ?? process.stdout, isPreview: true });
    const look = (url?: string) =>
      operation === "up"
        ? this.#run("preview", reporter, { replace: unfinishedResources(state?.resources ?? []) }, url)
        : this.#run("previewDestroy", reporter, {}, url);
    try {
      if (state !== undefined) await look();
      // A preview of a missing stack leaves nothing in the backend.
      else
        await inTemporaryFolder(async (folder) => {
          await makeStack(this.#place(`file://${folder}`));
          await look(`file://${folder}`);
        });
      reporter.preview(operation === "up" ? await this.lastApplied() : undefined, values, isFull);
      return reporter.result();
    } finally {
      reporter.close();
    }
  }

  /** As {@link previewJson} of the stack's own backend. */
  async previewJson(): Promise<string> {
    return previewJson(this.#place(this.#url), await this.#state());
  }

  /** As {@link previewPolicies} of the stack's own backend. */
  async previewPolicies(): Promise<string> {
    return previewPolicies(this.#place(this.#url), await this.#state());
  }

  async lastApplied(): Promise<StackValues | undefined> {
    return (await this.#lastUp())?.values;
  }

  /** Commit of the repository in which the last `up` ran; null before the first `up`, or outside of a repository. */
  async deployedCommit(): Promise<string | null> {
    return (await this.#lastUp())?.commit ?? null;
  }

  /** The commit of a successful last `up` without resources that the next `up` replaces unseen by previews; otherwise null. */
  async completedCommit(): Promise<string | null> {
    const last = await this.#lastUp();
    if (last?.hasSucceeded !== true) return null;
    return unfinishedResources((await this.#state())?.resources ?? []).length === 0 ? last.commit : null;
  }

  async #lastUp() {
    if ((await this.#state()) === undefined) return null;
    return new PulumiState(this.#executable, this.#url).lastUp(this.#stack.name);
  }

  async up({ enforcesPolicies = false, approved }: UpOptions = {}): Promise<StackChanges> {
    const operations = await operationsOf(this.#stack);
    await operations.requireAccess();
    return changeStack(this.#stack, "up", async (reporter) => {
      if (approved !== undefined)
        requireApproved(approved, approvedPreview(this.#stack.name, await this.previewJson()));
      const before = await this.lastApplied();
      await operations.openApi((line) => reporter.note(line));
      await this.#own();
      await this.#removeLeftovers();
      await this.#taintUnfinished();
      const after = fromRuntimeConfig(readStackFile(this.#stack).values);
      for (const line of before === undefined ? [] : changeLines(before, after)) reporter.note(line);
      const options = {
        refresh: approved === undefined,
        ...(enforcesPolicies ? { policyPacks: [POLICY_PACK] } : {}),
      };
      // Rules about the whole stack are checked at the end of an operation, after an update.
      if (enforcesPolicies) await this.#previewPolicies(options);
      const started = await operations.beforeUp();
      for (const line of started) reporter.note(`${line}.`);
      try {
        await this.#run("up", reporter, options);
      } catch (error) {
        // They cost money until they sleep again.
        if (started.length > 0)
          reporter.note(
            `Machines that slept before run now (${started.join("; ")}); \`npx engine-room sleep --stack ${this.#stack.name}\` stops them.`,
          );
        throw error;
      }
    });
  }

  async #previewPolicies(options: RunOptions): Promise<void> {
    const reporter = new StepReporter({ isPreview: true });
    try {
      await this.#run("preview", reporter, options);
    } finally {
      reporter.close();
    }
  }

  async refresh(): Promise<StackChanges> {
    await (await operationsOf(this.#stack)).requireAccess();
    return changeStack(this.#stack, "refresh", async (reporter) => {
      await this.#own();
      await this.#taintUnfinished();
      await this.#run("refresh", reporter);
    });
  }

  async record(): Promise<StackRecord> {
    await (await operationsOf(this.#stack)).requireAccess();
    const state = await this.#state();
    if (state === undefined) return "none";
    return state.resources.length + state.pending_operations.length === 0 ? "empty" : "resources";
  }

  async down(): Promise<StackChanges> {
    const operations = await operationsOf(this.#stack);
    await operations.requireAccess();
    return changeStack(this.#stack, "down", async (reporter) => {
      const state = await this.#state();
      if (state !== undefined) {
        this.#refuseProtected(state);
        await operations.openApi((line) => reporter.note(line));
      }
      await this.#removeLeftovers();
      if (state !== undefined) {
        await this.#run("destroy", reporter);
        // The CLI deletes the stack's file of the project as well, if it may.
        await this.#cli("stack", "rm", "--yes", "--preserve-config", "--stack", this.#stack.name);
      }
      await sweepStack(stackPaths(this.#stack.name).relativeDirectory, []);
    });
  }

  async outputs(): Promise<StackOutputs | undefined> {
    return outputsOf((await this.#state())?.resources ?? []);
  }

  #place(url: string): StackPlace {
    return { stack: this.#stack, executable: this.#executable, url };
  }

  #cli(...command: readonly string[]): Promise<string> {
    return runPulumi(this.#executable, command, this.#url);
  }

  /**
   * The state as the last operation left it, successful or not; undefined if the backend lacks the stack.
   *
   * @throws UserError if another backend has it.
   */
  async #state(): Promise<Deployment | undefined> {
    const { name } = this.#stack;
    refuseOtherBackend(name, this.#url);
    try {
      return parsedDeployment(await this.#cli("stack", "export", "--stack", name));
    } catch (error) {
      if (!(error instanceof PulumiError && error.message.includes("no stack named"))) throw error;
      refuseUnknownBackend(name, this.#url);
      return undefined;
    }
  }

  /** Moves the stack into the backend, with the try-out runner's state. From then on the backend has the stack. */
  async #own(): Promise<void> {
    const { name } = this.#stack;
    const paths = stackPaths(name);
    const state = await this.#state();
    if (state === undefined) await this.#initialise();
    if (existsSync(paths.tryoutState)) {
      if ((state?.resources.length ?? 0) > 0)
        throw new UserError(
          `Two states have resources of the stack ${name}: ${paths.tryoutState} and the backend ${this.#url}. Keep one: take another name for the stack, or, if what ${paths.tryoutState} has is gone, delete that.`,
        );
      process.stderr.write(
        `Moving the state of the stack ${name} from ${paths.tryoutState} to ${this.#url}.\n`,
      );
      await this.#cli("stack", "import", "--stack", name, "--file", paths.tryoutState);
      rmSync(paths.tryoutState);
    }
    writeOwner(paths, this.#url);
  }

  /** Creates the stack and selects it, as `pulumi stack init` does. */
  async #initialise(): Promise<void> {
    if (loginUrl() === null) {
      await this.#cli("login", "--local");
      process.stderr.write(
        "Pulumi was not logged in anywhere: logged in to its local backend (~/.pulumi); `pulumi login` changes that.\n",
      );
    }
    await makeStack(this.#place(this.#url));
    await this.#cli("stack", "select", this.#stack.name);
  }

  /** Marks them in the state, which outlives a refresh; an option of `up` would fail for a resource that the refresh finds missing. */
  async #taintUnfinished(): Promise<void> {
    const unfinished = unfinishedResources((await this.#state())?.resources ?? []);
    if (unfinished.length > 0)
      await this.#cli("state", "taint", ...unfinished, "--yes", "--stack", this.#stack.name);
  }

  /**
   * The CLI would delete everything up to the first protected resource, such as the clients' load balancer.
   *
   * @throws UserError if a resource is protected.
   */
  #refuseProtected({ resources }: Deployment): void {
    const names = resources
      .flatMap(({ urn, protect }) => (protect === true ? [urn.split("::").at(-1)] : []))
      .sort();
    if (names.length === 0) return;
    throw new UserError(
      `${names.length} of the resources of the stack ${this.#stack.name} are protected (${names.join(", ")}), so nothing is deleted. ` +
        "To end the stack, take its name out of `retain` of the stack file, run `npx engine-room up`, and then `npx engine-room down`.",
    );
  }

  /** Removes a Docker host's containers that a killed command created but did not record. */
  async #removeLeftovers(): Promise<void> {
    const operations = await operationsOf(this.#stack);
    const removed = await operations.removeLeftovers(async () => (await this.#state()) ?? EMPTY);
    if (removed.length > 0)
      process.stderr.write(`Removed leftovers of a killed command: ${removed.join(", ")}.\n`);
  }

  /** One operation of Pulumi's Automation API, with its steps shown as they happen. */
  async #run(
    operation: "preview" | "previewDestroy" | "up" | "refresh" | "destroy",
    reporter: StepReporter,
    options: RunOptions = {},
    url: string = this.#url,
  ): Promise<void> {
    const report = new EngineReport(reporter, operation === "refresh");
    const abort = new AbortController();
    // Ctrl-C reaches the CLI too, which ends its work and writes its state; until then the stack is locked.
    const interrupted = () => {};
    const terminated = () => abort.abort();
    process.on("SIGINT", interrupted).on("SIGTERM", terminated);
    const command = `pulumi ${operation === "previewDestroy" ? "destroy --preview-only" : operation}`;
    try {
      const stack = await this.#automation(url);
      await inTemporaryFolder(async (folder) => {
        const start = () =>
          stack[operation]({
            ...options,
            configFile: copiedConfig(this.#stack, folder),
            onEvent: report.take,
            signal: abort.signal,
            showSecrets: false,
          });
        await start().catch((error: unknown) => this.#afterLock(error, stack, start));
      });
      // Automation loses the end of a file of events; a CLI that can't send them ends with success all the same.
      if (!report.hasSummary)
        throw new UserError(
          `\`${command}\` ended without an error, but its summary did not arrive, so changes may be missing from the report. Run the command again. A Pulumi CLI before 3.206 can lose its last events (this is ${stack.workspace.pulumiVersion}): docs/pulumi.md has the version to install.`,
        );
    } catch (error) {
      throw await this.#failure(command, error, report);
    } finally {
      process.off("SIGINT", interrupted).off("SIGTERM", terminated);
    }
  }

  async #automation(url: string): Promise<Stack> {
    const { LocalWorkspace, PulumiCommand, Stack } = await import("@pulumi/pulumi/automation/index.js");
    // The Automation API starts `pulumi`, and that its language host, from PATH.
    process.env.PATH = `${dirname(this.#executable)}${delimiter}${process.env.PATH}`;
    const workspace = await LocalWorkspace.create({
      workDir: projectRoot,
      pulumiCommand: await PulumiCommand.get({ skipVersionCheck: true }),
      envVars: pulumiEnvironment(url),
    });
    // As with `pulumi up --stack`, the selected stack remains selected.
    workspace.selectStack = async () => {};
    return Stack.select(this.#stack.name, workspace);
  }

  /** A killed CLI leaves the lock of its backend: the lock of an ended process of this machine is removed. */
  async #afterLock(error: unknown, stack: Stack, again: () => Promise<unknown>): Promise<void> {
    const { ConcurrentUpdateError } = await import("@pulumi/pulumi/automation/index.js");
    if (!(error instanceof ConcurrentUpdateError)) throw error;
    const holders = [...error.message.matchAll(/created by \S+@(\S+) \(pid (\d+)\)/g)];
    const isLeft = holders.every(([, host, pid]) => host === hostname() && !isPulumi(Number(pid)));
    if (holders.length === 0 || !isLeft) throw error;
    await stack.cancel();
    await again();
  }

  async #failure(command: string, error: unknown, { errors }: EngineReport): Promise<unknown> {
    const { CommandError, ConcurrentUpdateError } = await import("@pulumi/pulumi/automation/index.js");
    if (!(error instanceof CommandError)) return error;
    if (error instanceof ConcurrentUpdateError) {
      const [, who = "another process"] = /created by (.*?\) at \S+)/.exec(error.message) ?? [];
      return new StackLockedError(
        this.#stack.name,
        `the Pulumi CLI (${who}; \`pulumi cancel\` removes the lock of one that is gone)`,
      );
    }
    const [, exitCode = "unknown"] = /exit code (\d+)/.exec(error.message) ?? [];
    const sentence = `\`${command}\` ended with exit code ${exitCode}`;
    if (errors.size > 0) return new UserError(`${sentence}; its errors are above.`);
    const words = error.message.split("\n").filter((line) => /^\s*(stderr: )?error: /.test(line));
    return new UserError([`${sentence}.`, ...new Set(words.map(passphraseAdvice))].join("\n"));
  }
}

/** Whether a process of this machine runs, and is probably a Pulumi CLI. */
function isPulumi(pid: number): boolean {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "pulumi";
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
