/** Runs one command, and turns whatever goes wrong into a sentence and an exit code. */
import { CommanderError, type Command as Parser } from "commander";
import { ConfigError } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";
import { stackReference, withStackLines } from "../program/stack-file.ts";
import { forTerminal } from "../terminal-text.ts";
import { type Command, type DescribedCommand, EXIT } from "./command.ts";
import { COMMANDS } from "./index.ts";
import { describe, type ParsedLine, rootParser, sentence } from "./parser.ts";

/** @returns The exit code: 0 done, 1 failed, 2 the command line is wrong. */
export async function main(argv: readonly string[]): Promise<number> {
  const words = argv.filter((word) => !word.startsWith("-"));
  const name = (words[0] === "help" ? words[1] : words[0]) ?? "";
  const root = rootParser();
  let exitCode: number = EXIT.ok;
  try {
    const parser = root.commands.find((command) => command.name() === name);
    const entry = COMMANDS[name];
    if (parser !== undefined && entry !== undefined) {
      const { command } = await entry.load();
      describe(parser, command, async (line) => {
        exitCode = await runCommand(command, line);
      });
      refuseOptionsThatNpmTook(parser, argv);
    }
    await root.parseAsync(argv.length === 0 ? ["--help"] : [...argv], { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    return report(Object.hasOwn(COMMANDS, name) ? `${name} ` : "", error);
  }
}

async function runCommand(command: Command, { values, positionals }: ParsedLine): Promise<number> {
  const { stack: name = "local", configFile } = values as Readonly<Record<string, string | undefined>>;
  const stack = stackReference(command.takesNoStack === true ? "local" : name, configFile);
  if (command.asksCluster === true) {
    const { operationsOf } = await import("../platforms/index.ts");
    await (await operationsOf(stack)).prepare();
  }
  return command.run({ values, positionals, stack, describedCommands }).catch((error: unknown) => {
    throw withStackLines(error, stack);
  });
}

function describedCommands(): Promise<readonly DescribedCommand[]> {
  const parsers = new Map(rootParser().commands.map((parser) => [parser.name(), parser]));
  return Promise.all(
    Object.entries(COMMANDS).map(async ([name, { load }]) => {
      const parser = parsers.get(name) as Parser;
      const { command } = await load();
      describe(parser, command, async () => {});
      return { parser, command };
    }),
  );
}

/** npm keeps an option of `npm start`, `npm test` or `npm run` for itself where `--` is missing. */
function refuseOptionsThatNpmTook({ options }: Parser, args: readonly string[]): void {
  if (!process.env.npm_lifecycle_script?.startsWith("node scripts/cli.mjs ")) return;
  const lost = options.find((option) => {
    const taken = process.env[`npm_config_${option.name().replace(/^no-/, "").replaceAll("-", "_")}`];
    const isTaken = option.negate ? taken === "" : (taken ?? "") !== "";
    return isTaken && !args.some((arg) => arg === option.long || arg.startsWith(`${option.long}=`));
  });
  if (lost !== undefined)
    throw new UsageError(`npm took ${lost.long} for itself; write \`--\` before the options.`);
}

/** @param command - Name and a space; empty where the command is unknown. */
function report(command: string, error: unknown): number {
  if (error instanceof CommanderError || error instanceof UsageError) {
    const words = error instanceof CommanderError ? sentence(error.message) : error.message;
    printError(`${words}\n\`npx engine-room ${command}--help\` shows what it takes.`);
    return EXIT.usage;
  }
  const isForPeople = error instanceof ConfigError || error instanceof UserError;
  const text =
    isForPeople || process.env.DEBUG === undefined ? (error as Error).message : (error as Error).stack;
  if (isForPeople) printError(text ?? "");
  else process.stderr.write(`${text}\n`);
  return EXIT.failed;
}

function printError(text: string): void {
  process.stderr.write(`${forTerminal(text, process.stderr)}\n`);
}
