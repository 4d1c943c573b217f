/** Parses the command line, runs one command, and turns whatever goes wrong into a sentence and an exit code. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { ConfigError } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";
import { projectRoot, stackReference } from "../program/stack-file.ts";
import { forTerminal } from "../terminal-text.ts";
import { type Command, type CommandContext, EXIT } from "./command.ts";
import { helpText, usageText } from "./help.ts";

/** Names of the commands: package.json has each as a script, and `./<name>.ts` exports it. */
function commandNames(): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  return Object.entries(scripts).flatMap(([name, line]) =>
    line === `node scripts/cli.mjs ${name}` ? [name] : [],
  );
}

const helpOption = { help: { type: "boolean", short: "h" } } as const;
const DEFAULT_STACK = "local";
const stackOptions = {
  stack: { type: "string", short: "s", default: DEFAULT_STACK },
  "config-file": { type: "string" },
} as const;

/** All that a command takes, but for its help. */
function optionsOf({ takesNoStack, options }: Command): NonNullable<ParseArgsConfig["options"]> {
  return { ...(takesNoStack === true ? {} : stackOptions), ...options };
}

/** @returns The exit code: 0 done, 1 failed, 2 the command line is wrong. */
export async function main(argv: readonly string[]): Promise<number> {
  const [name = "", ...rest] = argv;
  const names = commandNames();
  if (!names.includes(name)) return unknownCommand(name, names);
  // Commands load on demand, so that `--help` does not load the SDK.
  const { command } = (await import(/* @vite-ignore */ `./${name}.ts`)) as { readonly command: Command };
  try {
    refuseOptionsThatNpmTook(command, rest);
    const { values: given, positionals } = parseArgs({
      args: [...rest],
      options: { ...helpOption, ...optionsOf(command) },
      allowPositionals: (command.maxPositionals ?? 0) > 0,
    });
    const values = given as CommandContext["values"];
    if (values.help === true) {
      process.stdout.write(helpText(name, command, process.stdout.columns));
      return EXIT.ok;
    }
    if (positionals.length > (command.maxPositionals ?? 0))
      throw new UsageError(`Unexpected argument: ${positionals.join(" ")}`);
    const { stack: stackName = DEFAULT_STACK, "config-file": configFile } = values;
    const stack = stackReference(String(stackName), configFile as string | undefined);
    if (command.asksCluster === true) {
      const { operationsOf } = await import("../platforms/index.ts");
      await (await operationsOf(stack)).prepare();
    }
    return await command.run({ values, positionals, stack });
  } catch (error) {
    return report(name, command, error);
  }
}

/** Options that npm has as well, which people set in its own files. */
const OF_NPM_TOO: ReadonlySet<string> = new Set(["registry", "only"]);

/** npm keeps an option for itself where `--` is missing, and hands on the value that stood behind it, if it had one. */
function refuseOptionsThatNpmTook(command: Command, args: readonly string[]): void {
  const lost = Object.keys(optionsOf(command)).find((option) => {
    if (OF_NPM_TOO.has(option)) return false;
    const taken = process.env[`npm_config_${option.replaceAll("-", "_")}`] ?? "";
    return taken !== "" && !args.some((arg) => arg === `--${option}` || arg.startsWith(`--${option}=`));
  });
  if (lost === undefined) return;
  throw new UsageError(`npm took --${lost} for itself; write \`--\` before the options.`);
}

function report(name: string, command: Command, error: unknown): number {
  if (isUsageError(error)) {
    printError(`${error.message}\nUsage: ${usageText(name, command)}`);
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

function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true;
  return (
    error instanceof TypeError && String((error as NodeJS.ErrnoException).code).startsWith("ERR_PARSE_ARGS")
  );
}

function unknownCommand(name: string, names: readonly string[]): number {
  printError(`Unknown command ${JSON.stringify(name)}. Commands: ${names.join(", ")}.`);
  return EXIT.usage;
}
