/** The command line as commander parses it: made of the commands' own descriptions, with the help's layout and texts. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Help, Option, Command as Parser } from "commander";
import { UsageError, unknownName } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";
import { styled } from "../terminal-text.ts";
import type { Command } from "./command.ts";
import { COMMANDS, HELP } from "./index.ts";

/** Of the help; longer lines are hard to read, however wide the terminal is. */
const MAX_COLUMNS = 80;

const STACK_OPTIONS: NonNullable<Command["options"]> = {
  "-s, --stack <name>": { text: "the stack", default: "local" },
  "--config-file <file>": "its configuration (default: Pulumi.<stack>.yaml)",
};

/** A command line without mistakes. */
export interface ParsedLine {
  readonly values: Parameters<Command["run"]>[0]["values"];
  readonly positionals: readonly string[];
}

/** The parser of `npx engine-room`, whose commands have no options until {@link describe} adds them. */
export function rootParser(): Parser {
  const { description, version } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8")) as {
    readonly description: string;
    readonly version: string;
  };
  const root = new Parser("npx engine-room")
    .description(description)
    .usage("<command> [options]")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help, or that of a command")
    .commandsGroup(HELP)
    .helpCommand("help [command]", "print the help of a command")
    .exitOverride()
    .configureOutput({
      outputError: () => {},
      getOutHelpWidth: () => Math.min(MAX_COLUMNS, process.stdout.columns ?? MAX_COLUMNS),
    })
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      subcommandDescription: (command) => command.summary() || command.description(),
      styleTitle: (title) => styled("title", title),
    });
  root.addHelpText("after", "\n`npx engine-room <command> --help` explains a command and its options.");
  for (const [name, { group, summary }] of Object.entries(COMMANDS))
    root.command(name).summary(summary).helpGroup(group);
  return root;
}

/** Adds options, arguments and help to the parser of one command. @param run - Called with what was parsed. */
export function describe(
  parser: Parser,
  { options = {}, argument, notes = [], takesNoStack = false }: Command,
  run: (line: ParsedLine) => Promise<void>,
): void {
  parser.description(sentence(parser.summary())).helpOption("-h, --help", "print this help");
  for (const [flags, text] of Object.entries({ ...options, ...(takesNoStack ? {} : STACK_OPTIONS) }))
    parser.addOption(option(flags, typeof text === "string" ? { text } : text));
  if (argument !== undefined) parser.argument(argument.name, argument.text);
  // Its own sentence names the words that are too many.
  parser.allowExcessArguments().action(() => {
    refuseUnknown(parser, argument);
    return run({ values: parser.opts(), positionals: parser.args });
  });
  parser.addHelpText("after", ({ command }) => {
    const help = command.createHelp();
    help.prepareContext({ helpWidth: helpWidth(command) });
    return helpEnd(help, argument?.choices ?? {}, notes);
  });
}

function option(
  flags: string,
  { text, default: value, choices }: Exclude<NonNullable<Command["options"]>[string], string>,
): Option {
  const isList = flags.endsWith("...>");
  // commander's own lists take every word that follows.
  const made = new Option(flags.replace("...>", ">"), isList ? `${text}; may be given more than once` : text);
  if (value !== undefined) made.default(value);
  if (choices !== undefined) made.choices(choices);
  if (isList) made.argParser((word, before: readonly string[] = []) => [...before, word]);
  else if (choices !== undefined) made.argParser((word) => word);
  return made;
}

function helpWidth(command: Parser): number {
  return command.configureOutput().getOutHelpWidth?.() ?? MAX_COLUMNS;
}

function helpEnd(help: Help, choices: Readonly<Record<string, string>>, notes: readonly string[]): string {
  const width = Math.max(0, ...Object.keys(choices).map(({ length }) => length));
  const items = Object.entries(choices).map(([name, text]) => help.formatItem(name, width, text, help));
  const paragraphs = [...notes, "Exit codes: 0 done, 1 failed, 2 wrong command line."].map((text) =>
    help.boxWrap(text, help.helpWidth ?? MAX_COLUMNS),
  );
  return ["", ...(items.length === 0 ? [] : [...items, ""]), ...paragraphs].join("\n");
}

/** @throws UsageError for a word that the command does not take; commander's own sentences suggest no other. */
function refuseUnknown(parser: Parser, argument: Command["argument"]): void {
  const { args, registeredArguments } = parser;
  const last = registeredArguments.at(-1);
  const most = last === undefined ? 0 : last.variadic ? Number.POSITIVE_INFINITY : 1;
  if (args.length > most) throw new UsageError(`Unexpected argument: ${args.slice(most).join(" ")}`);
  if (argument?.choices !== undefined) requireKnown(last?.name() ?? "", args, Object.keys(argument.choices));
  for (const option of parser.options) {
    const given: string | readonly string[] = parser.getOptionValue(option.attributeName()) ?? [];
    if (option.argChoices !== undefined) requireKnown(option.long ?? "", [given].flat(), option.argChoices);
  }
}

function requireKnown(title: string, words: readonly string[], names: readonly string[]): void {
  const unknown = words.find((word) => !names.includes(word));
  if (unknown !== undefined) throw unknownName(title, unknown, names);
}

/** commander's words with a capital letter and a full stop. */
export function sentence(words: string): string {
  const text = words.replace(/^error: /, "").replace(/\n\((.*)\)$/s, ". $1");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/[^.?!]$/, "$&.");
}
