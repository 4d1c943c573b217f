import { spawn } from "node:child_process";
import { UsageError, UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackReference } from "../program/stack-file.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Prints the log of a service.",
  usage: "SERVICE [--lines N] [--follow]",
  details: [
    "--lines N            how many of the last lines (default: 100)",
    "--follow             go on with new lines until Ctrl-C",
  ],
  options: { lines: { type: "string", short: "n", default: "100" }, follow: { type: "boolean", short: "f" } },
  maxPositionals: 1,
  asksCluster: true,
  async run({ stack, positionals, values }) {
    const operations = await operationsOf(stack);
    const readers = await operations.logs();
    const [service] = positionals;
    const reader = readers.get(service ?? "");
    if (reader === undefined) throw noService(stack, operations.logged, [...readers.keys()], service);
    const lines = String(values.lines);
    if (!/^[1-9]\d{0,6}$/.test(lines)) throw new UsageError(`--lines ${lines} is no number of lines.`);
    const { argv, environment } = reader({ lines, follow: values.follow === true });
    const [program, ...args] = argv;
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, { stdio: "inherit", env: { ...process.env, ...environment } });
      child.on("error", reject);
      child.on("close", (code) => resolve(code === 0 || code === null ? EXIT.ok : EXIT.failed));
    });
  },
};

function noService(
  stack: StackReference,
  logged: string,
  names: readonly string[],
  given: string | undefined,
): Error {
  if (names.length > 0)
    return new UsageError(
      `Say which service: ${names.join(", ")}${given === undefined ? "" : ` (not ${given})`}.`,
    );
  requireKnownStack(stack);
  return new UserError(`The stack ${stack.name} has no ${logged}.`);
}
