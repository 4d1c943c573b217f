import { spawn } from "node:child_process";
import { join } from "node:path";
import { stackStatus } from "../../components/local/provider/status.ts";
import { UsageError, UserError } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";
import { stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Prints the log of a service.",
  usage: "SERVICE [--stack NAME] [--lines N] [--follow]",
  details: [
    "--lines N      how many of the last lines (default: 100)",
    "--follow       go on with new lines until Ctrl-C",
  ],
  options: { lines: { type: "string", short: "n", default: "100" }, follow: { type: "boolean", short: "f" } },
  maxPositionals: 1,
  async run({ stack, positionals, values }) {
    const processes = await stackStatus(stackPaths(stack.name).relativeDirectory);
    const [service] = positionals;
    const found = processes.find((process) => process.name === service);
    const names = processes.map((process) => process.name).join(", ");
    if (found === undefined) {
      throw new UserError(
        names === ""
          ? `The stack ${stack.name} has no processes.`
          : `Say which service: ${names}${service === undefined ? "" : ` (not ${service})`}.`,
      );
    }
    if (!/^[1-9]\d{0,6}$/.test(String(values.lines)))
      throw new UsageError(`--lines ${values.lines} is no number of lines.`);
    const args = [
      "-n",
      String(values.lines),
      ...(values.follow === true ? ["-F"] : []),
      join(projectRoot, found.logFile),
    ];
    return new Promise((resolve, reject) => {
      const tail = spawn("tail", args, { stdio: "inherit" });
      tail.on("error", reject);
      tail.on("close", (code) => resolve(code === 0 || code === null ? EXIT.ok : EXIT.failed));
    });
  },
};
