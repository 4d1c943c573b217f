/** What every command of the project has in common. */
import type { Command as Parser } from "commander";
import type { StackReference } from "../program/stack-file.ts";

/** What the help says of an option; a text alone is the sentence. */
type OptionText =
  | string
  | {
      readonly text: string;
      readonly default?: string;
      /** The only values that it takes. */
      readonly choices?: readonly string[];
    };

/** By flags: `-m, --model <name>`, `--json`, `--no-samples`. An option `--image <file...>` may be given more than once. */
type OptionTable = Readonly<Record<string, OptionText>>;

/** The words besides options. */
interface ArgumentText {
  /** `[name]` is one at most, `[name...]` any number. */
  readonly name: `[${string}]`;
  readonly text: string;
  /** The only values that it takes, and a sentence on each. */
  readonly choices?: Readonly<Record<string, string>>;
}

type CamelCase<Text extends string> = Text extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Text;

type LongFlag<Flags extends string> = Flags extends `${string}--${infer Rest}`
  ? Rest extends `${infer Name} ${string}`
    ? Name
    : Rest
  : never;

/** `dryRun` of `--dry-run`, `samples` of `--no-samples`. */
type OptionName<Flags extends string> =
  LongFlag<Flags> extends `no-${infer Name}` ? CamelCase<Name> : CamelCase<LongFlag<Flags>>;

type OptionValue<Flags, Text> = Flags extends `${string}...>`
  ? readonly string[] | undefined
  : Flags extends `${string}>`
    ?
        | (Text extends { choices: readonly (infer Choice)[] } ? Choice : string)
        | (Text extends { default: string } ? never : undefined)
    : boolean | undefined;

/** Values of options by name. */
export type Values<Options extends OptionTable> = {
  readonly [Flags in keyof Options & string as OptionName<Flags>]: OptionValue<Flags, Options[Flags]>;
};

/** A command, and its parser with all options. */
export interface DescribedCommand {
  readonly parser: Parser;
  readonly command: Command;
}

export interface Command<Options extends OptionTable = OptionTable, Choices extends string = string> {
  readonly options?: Options;
  readonly argument?: ArgumentText & { readonly choices?: Readonly<Record<Choices, string>> };
  /** Paragraphs below the options: what else a user has to know, and exit codes other than the usual ones. */
  readonly notes?: readonly string[];
  /**
   * Whether it asks the cluster of a stack, or the machine of one on AWS: credentials of another account then end it, and kubectl
   * finds the cluster of a stack on AWS by itself.
   */
  readonly asksCluster?: boolean;
  /** Whether it is about no stack, or about all of them, so that --stack and --config-file are none of its options. */
  readonly takesNoStack?: boolean;
  /** @returns The exit code. */
  run(context: {
    readonly values: Values<Options>;
    readonly positionals: readonly Choices[];
    readonly stack: StackReference;
    /** All commands; it loads each of them. */
    describedCommands(): Promise<readonly DescribedCommand[]>;
  }): Promise<number>;
}

/** A command whose options have the types that its flags say. */
export function defineCommand<const Options extends OptionTable, Choices extends string = string>(
  command: Command<Options, Choices>,
): Command {
  return command as unknown as Command;
}

/** Exit codes of all commands. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** The object that `--json` prints. */
export function printJson(value: object): void {
  process.stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}
