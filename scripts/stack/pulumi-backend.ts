/** The stack operations through the Pulumi CLI, in the backend that it is logged in to. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import type { Stack } from "@pulumi/pulumi/automation/index.js";
import { parseDocument } from "yaml";
import { sweepStack } from "../../components/local/provider/supervisor.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { PulumiState } from "../expire/pulumi-states.ts";
import { operationsOf } from "../platforms/index.ts";
import { projectName, projectRoot, readStackFile, type StackReference } from "../program/stack-file.ts";
import { loadState, stackOutputs } from "../tryout/state.ts";
import { lockStack, StackLockedError } from "./lock.ts";
import { changeLines, type StackValues } from "./preview-text.ts";
import {
  backendUrl,
  loginUrl,
  PulumiError,
  passphraseAdvice,
  pulumiEnvironment,
  runPulumi,
} from "./pulumi-cli.ts";
import { EngineReport, type StackChanges, StepReporter } from "./reporter.ts";
import {
  earlierBackend,
  refuseOtherBackend,
  refuseUnknownBackend,
  type StackPaths,
  writeOwner,
} from "./stack-paths.ts";
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

/** Folder of the rules, as docs/policies.md describes them. */
const POLICY_PACK = join(projectRoot, "policy");

const EMPTY: Deployment = { resources: [], pending_operations: [] };

/** Methods of the Automation API's Stack. */
type StackOperation = "preview" | "previewDestroy" | "up" | "refresh" | "destroy";

interface RunOptions {
  readonly policyPacks?: string[];
  readonly refresh?: boolean;
  readonly replace?: string[];
  readonly target?: string[];
}

export class PulumiBackend implements StackBackend {
  readonly title: string;
  readonly #stack: StackReference;
  readonly #paths: StackPaths;
  readonly #executable: string;
  /** Of the backend that Pulumi uses. */
  readonly #url = backendUrl();
  #access: Promise<void> | undefined;

  constructor(stack: StackReference, paths: StackPaths, executable: string) {
    this.title = `Pulumi CLI, with the backend ${this.#url}`;
    this.#stack = stack;
    this.#paths = paths;
    this.#executable = executable;
  }

  async preview(options: PreviewOptions = {}): Promise<StackChanges> {
    if (existsSync(this.#paths.tryoutState)) {
      // Only an `up` hands the stack over; a look at it changes no owner.
      const { TryoutBackend } = await import("./tryout-backend.ts");
      return new TryoutBackend(this.#stack, this.#paths).preview(options);
    }
    const { isFull = false, operation = "up", out = process.stdout } = options;
    return this.#locked("preview", async () => {
      const values = fromRuntimeConfig(readStackFile(this.#stack).values);
      const state = await this.#state();
      const reporter = new StepReporter({ out, isPreview: true });
      const replace = [...(await this.#unfinished(state ?? EMPTY))];
      const look = (url: string) =>
        operation === "up"
          ? this.#run("preview", { replace }, { url, reporter })
          : this.#run("previewDestroy", {}, { url, reporter });
      if (state !== undefined) await look(this.#sourceUrl);
      else await this.#inScratchBackend(look);
      reporter.preview(operation === "up" ? await this.lastApplied() : undefined, values, isFull);
      return reporter.result();
    });
  }

  async lastApplied(): Promise<StackValues | undefined> {
    if (existsSync(this.#paths.tryoutState)) return loadState(this.#paths.tryoutState).config;
    if ((await this.#state()) === undefined) return undefined;
    const state = new PulumiState(this.#executable, this.#sourceUrl);
    return (await state.lastUp(this.#stack.name))?.values;
  }

  async up({ enforcesPolicies = false, targets = [], onBegin }: UpOptions = {}): Promise<StackChanges> {
    await this.#requireAccess();
    onBegin?.();
    return this.#locked("up", async () => {
      await this.#own();
      await this.#removeLeftovers();
      await this.#taintUnfinished();
      const options = { refresh: true, ...(enforcesPolicies ? { policyPacks: [POLICY_PACK] } : {}) };
      // Rules about the whole stack are asked at the end of an operation, when an update has made it.
      if (enforcesPolicies) await this.#run("preview", options);
      await this.#sayChanges();
      const changes = targets.length === 0 ? await this.#readyMachines() : [];
      try {
        return await this.#run("up", {
          ...options,
          ...(targets.length === 0 ? {} : { target: [...targets] }),
        });
      } catch (error) {
        const { name } = this.#stack;
        if (changes.length > 0)
          process.stderr.write(
            `Machines of ${name} may run that slept before (${changes.join("; ")}); \`npx engine-room sleep --stack ${name}\` ends that.\n`,
          );
        throw error;
      }
    });
  }

  async refresh(): Promise<StackChanges> {
    await this.#requireAccess();
    return this.#locked("refresh", async () => {
      await this.#own();
      await this.#taintUnfinished();
      return this.#run("refresh");
    });
  }

  async record(): Promise<StackRecord> {
    if (existsSync(this.#paths.tryoutState)) return "resources";
    await this.#requireAccess();
    const state = await this.#state();
    if (state === undefined) return "none";
    return state.resources.length + state.pending_operations.length === 0 ? "empty" : "resources";
  }

  async down(): Promise<StackChanges> {
    return this.#locked("down", async () => {
      if ((await this.record()) === "none") {
        await this.#removeLeftovers();
        await sweepStack(this.#paths.relativeDirectory, []);
        process.stderr.write("  nothing to do\n");
        return { changes: [], unchanged: 0 };
      }
      await this.#own();
      this.#refuseProtected((await this.#state()) ?? EMPTY);
      await this.#removeLeftovers();
      const changes = await this.#run("destroy");
      // The CLI deletes the stack's file of the project as well, if it may.
      await this.#cli("stack", "rm", "--yes", "--preserve-config", "--stack", this.#stack.name);
      await sweepStack(this.#paths.relativeDirectory, []);
      return changes;
    });
  }

  async outputs(): Promise<StackOutputs | undefined> {
    // Until it is imported, the runner's state is the truth.
    return stackOutputs(this.#paths.tryoutState) ?? outputsOf((await this.#state())?.resources ?? []);
  }

  /** Asked once. @throws UserError where the credentials are none, or another account's. */
  #requireAccess(): Promise<void> {
    this.#access ??= operationsOf(this.#stack).then((operations) => operations.requireAccess());
    return this.#access;
  }

  async #locked<T>(operation: string, work: () => Promise<T>): Promise<T> {
    const lock = await lockStack(this.#stack.name, this.#paths.directory, operation);
    try {
      return await work();
    } finally {
      lock.release();
    }
  }

  /** Where the stack is until the next `up`, `refresh` or `down` moves it: an earlier version kept it in .stacks/. */
  get #sourceUrl(): string {
    return earlierBackend(this.#stack.name, this.#paths) ?? this.#url;
  }

  #cli(...command: readonly string[]): Promise<string> {
    return runPulumi(this.#executable, command, this.#url);
  }

  /**
   * The state as the last operation left it, however that ended; undefined where the backend has no such stack.
   *
   * @throws UserError where another backend has it.
   */
  async #state(url: string = this.#sourceUrl): Promise<Deployment | undefined> {
    if (url === this.#url) refuseOtherBackend(this.#stack.name, this.#paths, url);
    try {
      const { name } = this.#stack;
      return parsedDeployment(await runPulumi(this.#executable, ["stack", "export", "--stack", name], url));
    } catch (error) {
      if (!(error instanceof PulumiError && error.message.includes("no stack named"))) throw error;
      refuseUnknownBackend(this.#stack.name, this.#paths, url);
      return undefined;
    }
  }

  /** Makes the stack known to the backend, with what an earlier owner has. From then on it has the stack. */
  async #own(): Promise<void> {
    readStackFile(this.#stack);
    const { name } = this.#stack;
    const { tryoutState, earlierState } = this.#paths;
    const earlier = earlierBackend(name, this.#paths);
    const isTryout = existsSync(tryoutState);
    const state = await this.#state(this.#url);
    if (state === undefined) await this.#initialise();
    if (isTryout || earlier !== undefined) {
      const source = isTryout ? tryoutState : earlierState;
      if ((state?.resources.length ?? 0) > 0)
        throw new UserError(
          `Two states have resources of the stack ${name}: ${source} and the backend ${this.#url}. Keep one: take another name for the stack, or, where what ${source} has is gone, delete that.`,
        );
      process.stderr.write(`Moving the state of the stack ${name} from ${source} to ${this.#url}.\n`);
      if (isTryout) await this.#import(tryoutState);
      else await this.#importFrom(earlier ?? "");
      rmSync(source, { recursive: true });
    }
    writeOwner(this.#paths, this.#url);
  }

  async #importFrom(url: string): Promise<void> {
    await this.#inTemporaryFolder(async (folder) => {
      const file = join(folder, "state.json");
      const command = ["stack", "export", "--stack", this.#stack.name, "--file", file];
      await runPulumi(this.#executable, command, url);
      await this.#import(file);
    });
  }

  async #import(file: string): Promise<void> {
    await this.#cli("stack", "import", "--stack", this.#stack.name, "--file", file);
  }

  /**
   * Creates the stack and selects it, as `pulumi stack init` does, but in a folder of its own: that would write an
   * `encryptionsalt` into the stack's file of the project.
   */
  async #initialise(): Promise<void> {
    if (loginUrl() === null) {
      await this.#cli("login", "--local");
      process.stderr.write(
        "Pulumi was not logged in anywhere: logged in to its local backend (~/.pulumi); `pulumi login` changes that.\n",
      );
    }
    await this.#init(this.#url);
    await this.#cli("stack", "select", this.#stack.name);
  }

  async #init(url: string): Promise<void> {
    await this.#inTemporaryFolder(async (folder) => {
      const { name } = this.#stack;
      writeFileSync(join(folder, "Pulumi.yaml"), `name: ${projectName()}\nruntime: nodejs\n`);
      // It may name a secrets provider.
      this.#copyConfig(join(folder, `Pulumi.${name}.yaml`));
      await runPulumi(this.#executable, ["stack", "init", name, "--no-select"], url, folder);
    });
  }

  /** A preview of a stack that is not there leaves nothing in the backend. */
  async #inScratchBackend(work: (url: string) => Promise<unknown>): Promise<void> {
    await this.#inTemporaryFolder(async (folder) => {
      await this.#init(`file://${folder}`);
      await work(`file://${folder}`);
    });
  }

  async #inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-"));
    try {
      return await work(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /**
   * The stack's file for the CLI, which writes into the file that it is given. A salt that encrypts nothing in it may be of
   * another backend's stack, so that the CLI takes what this stack was made with.
   */
  #copyConfig(file: string): void {
    const { configFile } = this.#stack;
    const document = parseDocument(readFileSync(configFile, "utf8"));
    if (readStackFile(this.#stack).secretKeys.length === 0) document.delete("encryptionsalt");
    writeFileSync(file, document.toString(), { mode: 0o600 });
  }

  /** URNs of what the next `up` makes anew. @throws UserError where EKS has to be asked, and does not say. */
  async #unfinished({ resources }: Deployment): Promise<readonly string[]> {
    return unfinishedResources(resources, await (await operationsOf(this.#stack)).failedGroups(resources));
  }

  /** By a mark in the state, which outlives a refresh; an option of `up` would fail where that finds one of them gone. */
  async #taintUnfinished(): Promise<void> {
    const unfinished = await this.#unfinished((await this.#state()) ?? EMPTY);
    if (unfinished.length > 0)
      await this.#cli("state", "taint", ...unfinished, "--yes", "--stack", this.#stack.name);
  }

  /**
   * The CLI would delete whatever comes before the first protected resource, such as what clients connect to.
   *
   * @throws UserError where there is one.
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

  /** What differs from the stack file of the last `up`. */
  async #sayChanges(): Promise<void> {
    const before = await this.lastApplied();
    if (before === undefined) return;
    const after = fromRuntimeConfig(readStackFile(this.#stack).values);
    for (const line of changeLines(before, after)) process.stderr.write(`  ${line}\n`);
  }

  /** What a command that was killed made on a Docker host, and did not live to write into the state. */
  async #removeLeftovers(): Promise<void> {
    const operations = await operationsOf(this.#stack);
    const removed = await operations.removeLeftovers(async () => (await this.#state()) ?? EMPTY);
    if (removed.length > 0)
      process.stderr.write(`Removed what a command that was killed had left: ${removed.join(", ")}.\n`);
  }

  /** @returns What was changed, a line each. */
  async #readyMachines(): Promise<readonly string[]> {
    const lines = await (await operationsOf(this.#stack)).beforeUp();
    for (const line of lines) process.stderr.write(`${line}.\n`);
    return lines;
  }

  /** One operation of Pulumi's Automation API, with its steps shown as they happen. */
  async #run(
    operation: StackOperation,
    options: RunOptions = {},
    { url = this.#url, reporter = new StepReporter() }: { url?: string; reporter?: StepReporter } = {},
  ): Promise<StackChanges> {
    const report = new EngineReport(reporter, operation === "refresh");
    const abort = new AbortController();
    // Ctrl-C reaches the CLI too, which ends what it is doing and writes its state; until then the stack is locked.
    const interrupted = () => {};
    const terminated = () => abort.abort();
    process.on("SIGINT", interrupted).on("SIGTERM", terminated);
    try {
      await this.#inTemporaryFolder(async (folder) => {
        const configFile = join(folder, `Pulumi.${this.#stack.name}.yaml`);
        this.#copyConfig(configFile);
        const shared = { configFile, onEvent: report.take, signal: abort.signal, showSecrets: false };
        const stack = await this.#automation(url);
        const start = () => stack[operation]({ ...shared, ...options });
        await start().catch((error: unknown) => this.#afterLock(error, stack, start));
      });
      if (!operation.startsWith("preview")) process.stderr.write(`  ${reporter.summary()}\n`);
      return reporter.result();
    } catch (error) {
      throw await this.#failure(operation, error, report);
    } finally {
      process.off("SIGINT", interrupted).off("SIGTERM", terminated);
      reporter.close();
    }
  }

  async #automation(url: string): Promise<Stack> {
    const automation = await import("@pulumi/pulumi/automation/index.js");
    // It starts `pulumi`, and that its language host, from PATH.
    process.env.PATH = `${dirname(this.#executable)}${delimiter}${process.env.PATH}`;
    const pulumiCommand = await automation.PulumiCommand.get({ skipVersionCheck: true });
    const envVars = pulumiEnvironment(url);
    const workspace = await automation.LocalWorkspace.create({
      workDir: projectRoot,
      pulumiCommand,
      envVars,
    });
    // As with `pulumi up --stack`, the stack that is selected stays selected.
    workspace.selectStack = async () => {};
    return automation.Stack.select(this.#stack.name, workspace);
  }

  /** A CLI that was killed leaves the lock of its backend behind: that of a process of this machine that is gone is removed. */
  async #afterLock(error: unknown, stack: Stack, again: () => Promise<unknown>): Promise<void> {
    const { ConcurrentUpdateError } = await import("@pulumi/pulumi/automation/index.js");
    if (!(error instanceof ConcurrentUpdateError)) throw error;
    const holders = [...error.message.matchAll(/created by \S+@(\S+) \(pid (\d+)\)/g)];
    const isLeft = holders.every(([, host, pid]) => host === hostname() && !isPulumi(Number(pid)));
    if (holders.length === 0 || !isLeft) throw error;
    await stack.cancel();
    await again();
  }

  async #failure(operation: StackOperation, error: unknown, report: EngineReport): Promise<unknown> {
    const { CommandError, ConcurrentUpdateError } = await import("@pulumi/pulumi/automation/index.js");
    if (!(error instanceof CommandError)) return error;
    if (error instanceof ConcurrentUpdateError) {
      const [, who] = /created by (.*?\) at \S+)/.exec(error.message) ?? [];
      return new StackLockedError(
        this.#stack.name,
        `the Pulumi CLI${who === undefined ? "" : ` (${who})`}; \`pulumi cancel\` removes the lock of one that is gone`,
      );
    }
    const [, exitCode = "unknown"] = /exit code (\d+)/.exec(error.message) ?? [];
    const sentence = `\`pulumi ${operation}\` ended with exit code ${exitCode}`;
    if (report.errors.size > 0) return new UserError(`${sentence}; its errors stand above.`);
    const words = error.message.split("\n").filter((line) => /^\s*(stderr: )?error: /.test(line));
    return new UserError([`${sentence}.`, ...new Set(words.map(passphraseAdvice))].join("\n"));
  }
}

/** Whether a process runs the CLI; one of that number may be another program by now, which only Linux tells. */
function isPulumi(pid: number): boolean {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "pulumi";
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
