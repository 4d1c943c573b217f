import { stackStatus } from "../../components/local/provider/status.ts";
import { stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Shows the processes of the stack: state, pid, how long they run, ports, log file.",
  usage: "[--stack NAME] [--json]",
  details: [
    "--json         the same as JSON",
    "Exit code 1 when a process is not running, or none is there.",
  ],
  options: { json: { type: "boolean" } },
  async run({ stack, values }) {
    const processes = await stackStatus(stackPaths(stack.name).relativeDirectory);
    const healthy = processes.length > 0 && processes.every((process) => process.state === "RUNNING");
    if (values.json === true) {
      process.stdout.write(`${JSON.stringify(processes, null, 2)}\n`);
    } else if (processes.length === 0) {
      process.stdout.write(
        `The stack ${stack.name} has no processes; \`npm start -- --stack ${stack.name}\` brings it up.\n`,
      );
    } else {
      for (const { name, state, pid, uptimeSeconds, ports, logFile } of processes) {
        const where = Object.entries(ports)
          .map(([port, number]) => `${port} ${number}`)
          .join(", ");
        const life = pid === undefined ? "" : `pid ${pid}, up ${formatSeconds(uptimeSeconds ?? 0)}`;
        process.stdout.write(
          `${name.padEnd(16)} ${state.padEnd(9)} ${life.padEnd(28)} ${where}\n${"".padEnd(17)}${logFile}\n`,
        );
      }
    }
    if (values.json !== true && processes.length > 0 && !healthy) {
      process.stdout.write("Not all of them run under supervisord; `npm start` mends that.\n");
    }
    return healthy ? EXIT.ok : EXIT.failed;
  },
};

function formatSeconds(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ];
  const unit = units.find(([size]) => seconds >= size);
  return unit === undefined ? `${Math.floor(seconds)} s` : `${(seconds / unit[0]).toFixed(1)} ${unit[1]}`;
}
