import { operationsOf } from "../platforms/index.ts";
import { forTerminal, highlighted } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: { "--json": "print the services as one JSON list" },
  notes: [
    "State, uptime, ports and log file of each. Of a stack on EC2 it is the machine's own state, with the command that lists what runs on it.",
    "Exit code 1 when a service that should run does not, or there is none.",
  ],
  asksCluster: true,
  async run({ stack, values }) {
    const { services, isHealthy, text } = await (await operationsOf(stack)).status();
    process.stdout.write(
      values.json === true
        ? `${JSON.stringify(services, null, 2)}\n`
        : forTerminal(highlighted(text), process.stdout),
    );
    return isHealthy ? EXIT.ok : EXIT.failed;
  },
});
