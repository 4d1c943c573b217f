/** Common form of the project's commands: their description, and commander's parser for it. */
import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { Option, type Command as Parser } from "commander";
import { UsageError, UserError, unknownName } from "../errors.ts";
import { callerDirectory, type StackReference } from "../program/stack-file.ts";

/** Help of an option; a string is the sentence. */
type OptionText =
  | string
  | {
      readonly text: string;
      readonly default?: string;
      /** The only allowed values. */
      readonly choices?: readonly string[];
    };

/** By flags: `-m, --model <name>`, `--json`, `--no-samples`. An option `--image <file...>` may be given more than once. */
type OptionTable = Readonly<Record<string, OptionText>>;

/** Arguments other than options. */
interface ArgumentText {
  /** `[name]` is one at most, `[name...]` any number. */
  readonly name: `[${string}]`;
  readonly text: string;
  /** The only allowed values, and a sentence on each. */
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

/** Text that a command prints at its end, and whether its exit code is 0. */
export interface CommandResult {
  /** With `--json`, on standard output. */
  readonly json?: object;
  /** Without it. */
  readonly text?: string;
  /** False: exit code 1. @default true */
  readonly isOk?: boolean;
  /** Another exit code. */
  readonly exitCode?: number;
}

export interface Command<Options extends OptionTable = OptionTable, Choices extends string = string> {
  readonly options?: Options;
  readonly argument?: ArgumentText & { readonly choices?: Readonly<Record<Choices, string>> };
  /** Paragraphs below the options: further information, and exit codes other than the usual codes. */
  readonly notes?: readonly string[];
  /**
   * Whether it contacts the cluster of a stack, or the machine of a stack on AWS: credentials of another account are
   * then an error, and kubectl finds the cluster of a stack on AWS by itself.
   */
  readonly asksCluster?: boolean | ((values: Values<Options>) => boolean);
  /** Whether it contacts the gateway, whose key is then named in the help. */
  readonly asksGateway?: boolean;
  /** Whether it is about no stack, or about all of them, so that it does not accept --stack and --config-file. */
  readonly takesNoStack?: boolean;
  /** @returns The exit code, or the result to print. */
  run(context: {
    readonly values: Values<Options>;
    readonly positionals: readonly Choices[];
    readonly stack: StackReference;
    /** Where progress goes: standard output, but standard error with `--json`. */
    readonly out: NodeJS.WriteStream;
    /** Loads all commands. */
    describedCommands(): Promise<readonly DescribedCommand[]>;
  }): Promise<number | CommandResult>;
}

/** Returns a command whose options have the types of its flags. */
export function defineCommand<const Options extends OptionTable, Choices extends string = string>(
  command: Command<Options, Choices>,
): Command {
  return command as unknown as Command;
}

/** Exit codes of all commands. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** Writes to standard output, as JSON if `--json` is given and there is a result: `ask --as` has only a text. */
export function printResult({ json, text = "" }: CommandResult, isJson: boolean | undefined): void {
  process.stdout.write(isJson === true && json !== undefined ? `${JSON.stringify(json, null, 2)}\n` : text);
}

/** Columns of the help; longer lines are hard to read, however wide the terminal is. */
export const helpColumns = () => Math.min(80, process.stdout.columns ?? 80);

/**
 * Checks that files can be written, before minutes of work whose result would be lost.
 *
 * @param files - By option, relative to the user's folder; undefined: not given.
 * @throws UserError with a sentence for each that can't.
 */
export function requireFolders(files: Readonly<Record<string, string | undefined>>): void {
  const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  const problems = Object.entries(files).flatMap(([option, file]) => {
    if (file === undefined) return [];
    const path = resolve(callerDirectory(), file);
    const folder = dirname(path);
    if (isFolder(path)) return [`${option} is ${path}, a folder; name a file in it.`];
    return isFolder(folder)
      ? []
      : [`There is no folder ${folder} for ${option}; make it, or name a file elsewhere.`];
  });
  if (problems.length > 0) throw new UserError(problems.join("\n"));
}

/** A command line without mistakes. */
export interface ParsedLine {
  readonly values: Values<OptionTable>;
  readonly positionals: readonly string[];
}

const STACK_OPTIONS: OptionTable = {
  "-s, --stack <name>": { text: "the stack", default: "local" },
  "--config-file <file>": "its configuration (default: Pulumi.<stack>.yaml)",
};

/** Adds options, arguments and help to the parser of a command. @param run - Called with the parsed line. */
export function describe(
  parser: Parser,
  { options = {}, argument, notes = [], asksGateway, takesNoStack = false }: Command,
  run: (line: ParsedLine) => Promise<void>,
): void {
  parser.description(sentence(parser.summary())).helpOption("-h, --help", "print this help");
  for (const [flags, text] of Object.entries({ ...options, ...(takesNoStack ? {} : STACK_OPTIONS) }))
    parser.addOption(optionOf(flags, typeof text === "string" ? { text } : text));
  if (argument !== undefined) parser.argument(argument.name, argument.text);
  // Its own sentence names the unexpected arguments.
  parser.allowExcessArguments().action(() => {
    refuseUnknown(parser, argument);
    return run({ values: parser.opts(), positionals: parser.args });
  });
  const choices = Object.entries(argument?.choices ?? {});
  const paragraphs = [
    ...notes,
    ...(asksGateway === true
      ? ["The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY."]
      : []),
    "Exit codes: 0 done, 1 failed, 2 wrong command line.",
  ];
  parser.addHelpText("after", ({ command }) => {
    const help = command.createHelp();
    help.prepareContext({ helpWidth: helpColumns() });
    const width = Math.max(0, ...choices.map(([name]) => name.length));
    const items = choices.map(([name, text]) => help.formatItem(name, width, text, help));
    const wrapped = paragraphs.map((text) => help.boxWrap(text, helpColumns()));
    return ["", ...items, ...(items.length === 0 ? [] : [""]), ...wrapped].join("\n");
  });
}

function optionOf(flags: string, { text, default: value, choices }: Exclude<OptionText, string>): Option {
  const isList = flags.endsWith("...>");
  // commander's own lists consume all further words.
  const option = new Option(
    flags.replace("...>", ">"),
    isList ? `${text}; may be given more than once` : text,
  );
  if (value !== undefined) option.default(value, value);
  if (choices !== undefined) option.choices(choices);
  if (isList) option.argParser((word, before: readonly string[] = []) => [...before, word]);
  else if (choices !== undefined) option.argParser((word) => word);
  return option;
}

/** @throws UsageError for a word that the command does not accept; commander's own sentences suggest no other. */
function refuseUnknown(parser: Parser, argument: Command["argument"]): void {
  const { args, registeredArguments, options } = parser;
  const last = registeredArguments.at(-1);
  const most = last === undefined ? 0 : last.variadic ? Number.POSITIVE_INFINITY : 1;
  const advice = argument?.name === "[text]" ? "; put the text in quotes" : "";
  if (args.length > most)
    throw new UsageError(`Unexpected argument: ${args.slice(most).join(" ")}${advice}.`);
  if (argument?.choices !== undefined) requireKnown(last?.name() ?? "", args, Object.keys(argument.choices));
  for (const option of options) {
    const given: string | readonly string[] = parser.getOptionValue(option.attributeName()) ?? [];
    if (option.argChoices !== undefined) requireKnown(option.long ?? "", [given].flat(), option.argChoices);
  }
}

function requireKnown(title: string, words: readonly string[], names: readonly string[]): void {
  const unknown = words.find((word) => !names.includes(word));
  if (unknown !== undefined) throw unknownName(title, unknown, names);
}

/** Begins commander's sentences with a capital letter and ends them with a full stop. */
export function sentence(words: string): string {
  const text = words.replace(/^error: /, "").replace(/\n\((.*)\)$/s, ". $1");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/[^.?!]$/, "$&.");
}
