/** The stack operations through the Pulumi CLI, with a state file of the stack's own and no login. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { sweepStack } from "../../components/local/provider/status.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../commands/command.ts";
import { projectName, projectRoot, readStackFile, type StackReference } from "../program/stack-file.ts";
import { lockStack } from "../tryout/lock.ts";
import type { StackBackend, StackPaths } from "./backend.ts";

/** `pulumi preview --expect-no-changes` ends with this and no other sign when there are changes. */
const NO_CHANGES_EXPECTED = "no changes were expected but changes were proposed";

interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class PulumiBackend implements StackBackend {
  readonly title = "Pulumi CLI, with the state in .stacks/";
  readonly #stack: StackReference;
  readonly #paths: StackPaths;
  readonly #executable: string;

  constructor(stack: StackReference, paths: StackPaths, executable: string) {
    this.#stack = stack;
    this.#paths = paths;
    this.#executable = executable;
  }

  async preview(): Promise<boolean> {
    await this.#select();
    const { code, stderr } = await this.#run(
      ["preview", "--diff", "--expect-no-changes", "--config-file", this.#config],
      { allowFailure: true },
    );
    if (code !== 0 && !stderr.includes(NO_CHANGES_EXPECTED))
      throw new UserError("pulumi preview failed; its output above says why.");
    return code !== 0;
  }

  up(): Promise<void> {
    return this.#locked("up", () =>
      this.#run(["up", "--yes", "--skip-preview", "--refresh", "--config-file", this.#config]),
    );
  }

  refresh(): Promise<void> {
    return this.#locked("refresh", () =>
      this.#run(["refresh", "--yes", "--skip-preview", "--config-file", this.#config]),
    );
  }

  down(): Promise<void> {
    return this.#locked("down", async () => {
      await this.#run(["destroy", "--yes", "--skip-preview", "--config-file", this.#config]);
      await sweepStack(this.#paths.relativeDirectory, []);
    });
  }

  async outputs(): Promise<StackOutputs | undefined> {
    if (existsSync(this.#paths.tryoutState)) await this.#select();
    if (!existsSync(this.#paths.pulumi)) return undefined;
    const { stdout } = await this.#run(["stack", "output", "--json"], { quiet: true });
    const outputs = JSON.parse(stdout) as Partial<StackOutputs>;
    return outputs.endpoints === undefined ? undefined : (outputs as StackOutputs);
  }

  async #locked(operation: string, work: () => Promise<unknown>): Promise<void> {
    const lock = await lockStack(this.#stack.name, this.#paths.directory, operation);
    try {
      await this.#select();
      await work();
    } finally {
      lock.release();
    }
  }

  /** Makes the stack known to the CLI, and takes over what the try-out runner has. */
  async #select(): Promise<void> {
    readStackFile(this.#stack);
    mkdirSync(this.#paths.pulumi, { recursive: true });
    const stacks = join(this.#paths.pulumi, ".pulumi", "stacks", projectName());
    if (!existsSync(join(stacks, `${this.#stack.name}.json`))) await this.#initialise();
    this.#refreshConfig();
    if (!existsSync(this.#paths.tryoutState)) return;
    process.stderr.write("Importing the state of the try-out runner into the Pulumi CLI's.\n");
    await this.#run(["stack", "import", "--file", this.#paths.tryoutState], { quiet: true });
    // Last, so that an interrupted import is repeated; from here on the CLI is the owner.
    rmSync(this.#paths.tryoutState);
  }

  /**
   * `stack init` writes an `encryptionsalt` into Pulumi.<stack>.yaml of the project and takes no other file. The salt is
   * kept in a copy, and the project's file is put back as it was.
   */
  async #initialise(): Promise<void> {
    const written = join(projectRoot, `Pulumi.${this.#stack.name}.yaml`);
    const before = existsSync(written) ? readFileSync(written) : undefined;
    try {
      await this.#run(["stack", "init", this.#stack.name], { quiet: true, select: false });
      writeFileSync(this.#config, readFileSync(written), { mode: 0o600 });
    } finally {
      if (before === undefined) rmSync(written, { force: true });
      else writeFileSync(written, before);
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

  #run(
    command: readonly string[],
    { allowFailure = false, quiet = false, select = true } = {},
  ): Promise<CommandResult> {
    const args = [...command, "--non-interactive", ...(select ? ["--stack", this.#stack.name] : [])];
    return new Promise((resolve, reject) => {
      const child = spawn(this.#executable, args, {
        cwd: projectRoot,
        env: this.#environment(),
        stdio: ["ignore", "pipe", "pipe"],
      });
      let stdout = "";
      let stderr = "";
      child.stdout.on("data", (data: Buffer) => {
        stdout += data.toString();
        if (!quiet) process.stderr.write(data);
      });
      child.stderr.on("data", (data: Buffer) => {
        stderr += data.toString();
        if (!quiet) process.stderr.write(data);
      });
      child.on("error", reject);
      child.on("close", (code) => {
        if (code === 0 || allowFailure) resolve({ code: code ?? 1, stdout, stderr });
        else
          reject(
            new UserError(
              `\`pulumi ${command.join(" ")}\` ended with exit code ${code}.${quiet ? `\n${stderr}` : ""}`,
            ),
          );
      });
    });
  }

  #environment(): NodeJS.ProcessEnv {
    const hasPassphrase =
      process.env.PULUMI_CONFIG_PASSPHRASE !== undefined ||
      process.env.PULUMI_CONFIG_PASSPHRASE_FILE !== undefined;
    return {
      ...process.env,
      PULUMI_BACKEND_URL: `file://${this.#paths.pulumi}`,
      PULUMI_SKIP_UPDATE_CHECK: "true",
      // Nothing of a local stack is secret; who has secrets in the stack file has set a passphrase.
      ...(hasPassphrase ? {} : { PULUMI_CONFIG_PASSPHRASE: "" }),
    };
  }
}
