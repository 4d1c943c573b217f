/** Runs one command, and turns any error into a sentence and an exit code. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CommanderError, Command as Parser } from "commander";
import { ConfigError } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";
import { projectRoot, stackReference, withStackLines } from "../program/stack-file.ts";
import { forTerminal, highlighted, styled } from "../terminal-text.ts";
import {
  type Command,
  type DescribedCommand,
  describe,
  EXIT,
  helpColumns,
  type ParsedLine,
  printResult,
  sentence,
} from "./command.ts";
import { COMMANDS, HELP } from "./index.ts";

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
    .configureOutput({ outputError: () => {}, getOutHelpWidth: helpColumns })
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

/** @returns Exit code: 0 done, 1 failed, 2 the command line is wrong. */
export async function main(argv: readonly string[]): Promise<number> {
  const words = argv.filter((word) => !word.startsWith("-"));
  const name = (words[0] === "help" ? words[1] : words[0]) ?? "";
  const root = rootParser();
  let exitCode: number = EXIT.ok;
  try {
    const parser = root.commands.find((command) => command.name() === name);
    const entry = COMMANDS[name];
    if (parser !== undefined && entry !== undefined) {
      const command = await entry.load();
      describe(parser, command, async (line) => {
        exitCode = await runCommand(command, line);
      });
      refuseOptionsThatNpmTook(parser, argv);
    }
    const isHelpOfUnknown = words[0] === "help" && name !== "" && parser === undefined;
    const line = argv.length === 0 ? ["--help"] : isHelpOfUnknown ? [name] : [...argv];
    await root.parseAsync(line, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    return report(Object.hasOwn(COMMANDS, name) ? `${name} ` : "", error);
  }
}

async function runCommand(command: Command, { values, positionals }: ParsedLine): Promise<number> {
  const { stack: name = "local", configFile } = values as Readonly<Record<string, string | undefined>>;
  const isJson = "json" in values;
  const stack = stackReference(command.takesNoStack === true ? "local" : name, configFile);
  const { asksCluster = false } = command;
  if (typeof asksCluster === "function" ? asksCluster(values) : asksCluster) {
    const { operationsOf } = await import("../platforms/index.ts");
    await (await operationsOf(stack)).prepare();
  }
  const out = isJson ? process.stderr : process.stdout;
  const result = await command
    .run({ values, positionals, stack, out, describedCommands })
    .catch((error: unknown) => {
      throw command.takesNoStack === true ? error : withStackLines(error, stack);
    });
  if (typeof result === "number") return result;
  printResult(result, isJson);
  return result.exitCode ?? (result.isOk === false ? EXIT.failed : EXIT.ok);
}

function describedCommands(): Promise<readonly DescribedCommand[]> {
  const parsers = rootParser().commands.filter((parser) => parser.name() in COMMANDS);
  return Promise.all(
    parsers.map(async (parser) => {
      const command = (await COMMANDS[parser.name()]?.load()) as Command;
      describe(parser, command, async () => {});
      return { parser, command };
    }),
  );
}

/** npm keeps an option of `npm start`, `npm test` or `npm run` for itself if `--` is missing. */
function refuseOptionsThatNpmTook({ options }: Parser, args: readonly string[]): void {
  if (!process.env.npm_lifecycle_script?.startsWith("node scripts/cli.mjs ")) return;
  const lost = options.find((option) => {
    const { long, negate } = option;
    const taken = process.env[`npm_config_${option.name().replace(/^no-/, "").replaceAll("-", "_")}`];
    const isTaken = negate ? taken === "" : (taken ?? "") !== "";
    return isTaken && !args.some((arg) => arg === long || arg.startsWith(`${long}=`));
  });
  if (lost !== undefined)
    throw new UsageError(`npm took ${lost.long} for itself; write \`--\` before the options.`);
}

/** @param command - Name and a space; empty if the command is unknown. */
function report(command: string, error: unknown): number {
  const isUsage = error instanceof CommanderError || error instanceof UsageError;
  const { message, stack } = error as Error;
  const isForPeople = isUsage || error instanceof ConfigError || error instanceof UserError;
  const text = error instanceof CommanderError ? sentence(message) : message;
  const usage = isUsage ? `\n\`npx engine-room ${command}--help\` prints the usage.` : "";
  process.stderr.write(
    isForPeople
      ? `${forTerminal(highlighted(`${text}${usage}`, process.stderr), process.stderr)}\n`
      : `${process.env.DEBUG === undefined ? message : stack}\n`,
  );
  return isUsage ? EXIT.usage : EXIT.failed;
}
