import { operationsOf } from "../platforms/index.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Shows the processes, containers or workloads of the stack: state, how long they run, ports, log file.",
  usage: "[--json]",
  details: [
    "--json               the same as JSON",
    "Of a stack on EC2 it is the machine's own state, with the command that lists what runs on it.",
    "Exit code 1 when one that should run does not, or none is there.",
  ],
  options: { json: { type: "boolean" } },
  asksCluster: true,
  async run({ stack, values }) {
    const { services, isHealthy, text } = await (await operationsOf(stack)).status();
    process.stdout.write(values.json === true ? `${JSON.stringify(services, null, 2)}\n` : text);
    return isHealthy ? EXIT.ok : EXIT.failed;
  },
};
