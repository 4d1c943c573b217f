/** The stack operations through the Pulumi CLI, with a state file of the stack's own and no login, or with a shared state. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { sweepStack } from "../../components/local/provider/supervisor.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { projectName, projectRoot, readStackFile, type StackReference } from "../program/stack-file.ts";
import { stackOutputs } from "../tryout/state.ts";
import { type Deployment, parsedDeployment, type StackRecord } from "./deployment.ts";
import { lockStack } from "./lock.ts";
import { PulumiCli } from "./pulumi-cli.ts";
import { takeOverLocks } from "./pulumi-lock.ts";
import { isListed, STATE_URL_VARIABLE, sharedStateUrl } from "./shared-state.ts";
import type { StackBackend, UpOptions } from "./stack-backend.ts";
import { ownStateUrl, type StackPaths } from "./stack-paths.ts";
import { unfinishedResources } from "./unfinished.ts";

/** `pulumi preview --expect-no-changes` ends with this and no other sign when there are changes. */
const NO_CHANGES_EXPECTED = "no changes were expected";

/** Folder of the rules, as docs/policies.md describes them. */
const POLICY_PACK = join(projectRoot, "policy");

export class PulumiBackend implements StackBackend {
  readonly title: string;
  readonly #stack: StackReference;
  readonly #paths: StackPaths;
  readonly #cli: PulumiCli;
  /** Undefined: the state is the stack's own, in .stacks/. */
  readonly #sharedUrl: string | undefined;

  constructor(stack: StackReference, paths: StackPaths, executable: string) {
    this.#sharedUrl = sharedStateUrl();
    this.title = `Pulumi CLI, with the state ${this.#sharedUrl === undefined ? "in .stacks/" : `that ${STATE_URL_VARIABLE} names`}`;
    this.#stack = stack;
    this.#paths = paths;
    this.#cli = new PulumiCli(executable, stack.name, this.#sharedUrl ?? ownStateUrl(paths));
  }

  async preview(): Promise<boolean> {
    if (existsSync(this.#paths.tryoutState)) {
      // Only an `up` hands the stack over; a look at it changes no owner.
      const { TryoutBackend } = await import("./tryout-backend.ts");
      return new TryoutBackend(this.#stack, this.#paths).preview();
    }
    return this.#locked("preview", async () => {
      const isNew = !(await this.#isThere());
      try {
        await this.#select();
        const again = (await this.#unfinished()).flatMap((urn) => ["--replace", urn]);
        const args = ["preview", "--diff", "--expect-no-changes", "--config-file", this.#config, ...again];
        const { code, stderr } = await this.#cli.run(args, {
          allowFailure: true,
          output: process.stdout,
          // What it calls an error is what the preview is for.
          hiding: NO_CHANGES_EXPECTED,
        });
        if (code !== 0 && !stderr.includes(NO_CHANGES_EXPECTED)) {
          throw new UserError("pulumi preview failed; its output above says why.");
        }
        return code !== 0;
      } finally {
        // A look at a stack that is not there leaves nothing, least of all an owner.
        if (isNew) await this.#forget();
      }
    });
  }

  async up({ enforcesPolicies = false, targets = [], onBegin }: UpOptions = {}): Promise<void> {
    await (await operationsOf(this.#stack)).requireAccess();
    onBegin?.();
    return this.#locked("up", async () => {
      await this.#select();
      await this.#importTryout();
      await this.#removeLeftovers();
      await this.#taintUnfinished();
      const pack = enforcesPolicies ? ["--policy-pack", POLICY_PACK] : [];
      const options = ["--refresh", "--config-file", this.#config, ...pack];
      // Rules about the whole stack are asked at the end of an operation, when an update has made it.
      if (enforcesPolicies) await this.#cli.run(["preview", ...options]);
      const changes = targets.length === 0 ? await this.#readyMachines() : [];
      const only = targets.flatMap((urn) => ["--target", urn]);
      try {
        await this.#cli.run(["up", "--yes", "--skip-preview", ...options, ...only]);
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

  async refresh(): Promise<void> {
    await (await operationsOf(this.#stack)).requireAccess();
    return this.#locked("refresh", async () => {
      await this.#select();
      await this.#importTryout();
      await this.#taintUnfinished();
      await this.#cli.run(["refresh", "--yes", "--skip-preview", "--config-file", this.#config]);
    });
  }

  async record(): Promise<StackRecord> {
    if (existsSync(this.#paths.tryoutState)) return "resources";
    if (!(await this.#isThere())) return "none";
    const { resources, pending_operations } = await this.#deployment();
    return resources.length + pending_operations.length === 0 ? "empty" : "resources";
  }

  async down(): Promise<void> {
    await (await operationsOf(this.#stack)).requireAccess();
    return this.#locked("down", async () => {
      await this.#select();
      await this.#importTryout();
      this.#refuseProtected(await this.#deployment());
      await this.#removeLeftovers();
      await this.#cli.run(["destroy", "--yes", "--skip-preview", "--config-file", this.#config]);
      await this.#forget();
    });
  }

  async outputs(): Promise<StackOutputs | undefined> {
    // Until it is imported, the runner's state is the truth.
    const tryout = stackOutputs(this.#paths.tryoutState);
    if (tryout !== undefined || !(await this.#isThere())) return tryout;
    const { stdout } = await this.#cli.run(["stack", "output", "--json"], { output: undefined });
    const outputs = JSON.parse(stdout) as Partial<StackOutputs>;
    return outputs.endpoints === undefined ? undefined : (outputs as StackOutputs);
  }

  async #locked<T>(operation: string, work: () => Promise<T>): Promise<T> {
    const lock = await lockStack(this.#stack.name, this.#paths.directory, operation);
    try {
      return await work();
    } finally {
      lock.release();
    }
  }

  /** Makes the stack known to the CLI. */
  async #select(): Promise<void> {
    readStackFile(this.#stack);
    mkdirSync(this.#paths.pulumi, { recursive: true });
    if (!(await this.#isThere())) await this.#initialise();
    this.#refreshConfig();
    // Whoever else uses a shared state may be on another machine.
    if (this.#sharedUrl !== undefined) return;
    const locks = join(this.#paths.pulumi, ".pulumi", "locks", "organization", projectName());
    takeOverLocks(this.#stack.name, join(locks, this.#stack.name));
  }

  /** Whether the CLI knows the stack. */
  async #isThere(): Promise<boolean> {
    if (this.#sharedUrl === undefined) {
      const stacks = join(this.#paths.pulumi, ".pulumi", "stacks", projectName());
      return existsSync(join(stacks, `${this.#stack.name}.json`));
    }
    const { stdout } = await this.#cli.run(["stack", "ls", "--json"], { output: undefined, select: false });
    return isListed(stdout, this.#stack.name);
  }

  /** Leaves nothing of a stack that has no resources. */
  async #forget(): Promise<void> {
    // The CLI deletes the stack's file of the project as well, if it may.
    if (this.#sharedUrl !== undefined && (await this.#isThere()))
      await this.#cli.run(["stack", "rm", "--yes", "--preserve-config"], { output: undefined });
    await sweepStack(this.#paths.relativeDirectory, []);
  }

  /** The state as the last operation left it, however that ended. */
  async #deployment(): Promise<Deployment> {
    const { stdout } = await this.#cli.run(["stack", "export"], { output: undefined });
    return parsedDeployment(stdout);
  }

  /** URNs of what the next `up` makes anew. @throws UserError where EKS has to be asked, and does not say. */
  async #unfinished(): Promise<readonly string[]> {
    const { resources } = await this.#deployment();
    return unfinishedResources(resources, await (await operationsOf(this.#stack)).failedGroups(resources));
  }

  /** By a mark in the state, which outlives a refresh; an option of `up` would fail where that finds one of them gone. */
  async #taintUnfinished(): Promise<void> {
    const unfinished = await this.#unfinished();
    if (unfinished.length > 0) await this.#cli.run(["state", "taint", ...unfinished, "--yes"]);
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

  /** What a command that was killed made on a Docker host, and did not live to write into the state. */
  async #removeLeftovers(): Promise<void> {
    const operations = await operationsOf(this.#stack);
    const removed = await operations.removeLeftovers(() => this.#deployment());
    if (removed.length > 0)
      process.stderr.write(`Removed what a command that was killed had left: ${removed.join(", ")}.\n`);
  }

  /** @returns What was changed, a line each. */
  async #readyMachines(): Promise<readonly string[]> {
    const lines = await (await operationsOf(this.#stack)).beforeUp();
    for (const line of lines) process.stderr.write(`${line}.\n`);
    return lines;
  }

  /** Takes over what the try-out runner has. From the moment its state is gone, the CLI is the owner. */
  async #importTryout(): Promise<void> {
    if (!existsSync(this.#paths.tryoutState)) return;
    process.stderr.write("Importing the state of the try-out runner into the Pulumi CLI's.\n");
    await this.#cli.run(["stack", "import", "--file", this.#paths.tryoutState], { output: undefined });
    rmSync(this.#paths.tryoutState);
  }

  /**
   * `stack init` writes an `encryptionsalt` into Pulumi.<stack>.yaml of its project and takes no other file, so it runs
   * in a folder that has only the project's name: the committed file stays as it is.
   */
  async #initialise(): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), "engine-room-init-"));
    try {
      writeFileSync(join(directory, "Pulumi.yaml"), `name: ${projectName()}\nruntime: nodejs\n`);
      await this.#cli.run(["stack", "init", this.#stack.name], {
        output: undefined,
        select: false,
        cwd: directory,
      });
      copyFileSync(join(directory, `Pulumi.${this.#stack.name}.yaml`), this.#config);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  }

  /** Brings the copy up to date with the stack's file. */
  #refreshConfig(): void {
    const document = parseDocument(readFileSync(this.#stack.configFile, "utf8"));
    if (!document.has("encryptionsalt") && existsSync(this.#config)) {
      const salt = parseDocument(readFileSync(this.#config, "utf8")).get("encryptionsalt");
      if (salt !== undefined) document.set("encryptionsalt", salt);
    }
    writeFileSync(this.#config, document.toString(), { mode: 0o600 });
  }

  get #config(): string {
    return join(this.#paths.pulumi, `Pulumi.${this.#stack.name}.yaml`);
  }
}
