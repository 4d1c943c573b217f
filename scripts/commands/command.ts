/** What every command of the project has in common. */
import type { ParseArgsConfig } from "node:util";
import type { StackReference } from "../program/stack-file.ts";

/** Options by name; a list where an option may be given more than once. */
type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

export interface CommandContext {
  readonly values: Values;
  readonly positionals: readonly string[];
  readonly stack: StackReference;
}

export interface Command {
  /** One line, for the list of commands. */
  readonly summary: string;
  /** Text after `npx engine-room <name> `, without the options that every command has. */
  readonly usage: string;
  /**
   * Explanation of each option, as `--json  the same as JSON`, and sentences on exit codes other than the usual ones; each is one
   * text, however long it is, and begins a line of the help.
   */
  readonly details?: readonly string[];
  readonly options?: NonNullable<ParseArgsConfig["options"]>;
  /** Most words besides options. @default 0 */
  readonly maxPositionals?: number;
  /**
   * Whether it asks the cluster of a stack, or the machine of one on AWS: credentials of another account then end it, and kubectl
   * finds the cluster of a stack on AWS by itself.
   */
  readonly asksCluster?: boolean;
  /** Whether it is about no stack, or about all of them, so that --stack and --config-file are none of its options. */
  readonly takesNoStack?: boolean;
  /** @returns The exit code. */
  run(context: CommandContext): Promise<number>;
}

/** Exit codes of all commands. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;
