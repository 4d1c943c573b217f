import { clearScreenDown, cursorTo } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError, UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { forTerminal, highlighted } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "-w, --watch": "show it again and again until Ctrl-C",
    "--interval <seconds>": { text: "time between two reports of --watch, 1 to 3600", default: "2" },
    "--json": "print the services as one JSON list; with --watch a line for each report",
  },
  notes: [
    "State, uptime, ports and log file of each. For a stack on EC2: the state of the machine, and the command that lists its containers.",
    "--watch draws over what it showed before on a terminal, and elsewhere prints one report below the other, each with its time.",
    "Exit code 1 if a service that should run does not, or if the stack has no services; 0 when Ctrl-C ends --watch.",
  ],
  asksCluster: true,
  async run({ stack, values: { watch, interval, json } }) {
    if (!/^[1-9]\d{0,3}$/.test(interval) || Number(interval) > 3600)
      throw new UsageError(`--interval must be a number of seconds from 1 to 3600; it is ${interval}.`);
    const operations = await operationsOf(stack);
    const look = async () => {
      const { services, isHealthy, text } = await operations.status();
      return { json: services, text: forTerminal(highlighted(text), process.stdout), isOk: isHealthy };
    };
    if (watch !== true) return look();
    const until = `stack ${stack.name}, every ${interval} s until Ctrl-C`;
    await untilInterrupted(Number(interval), async () => {
      const { json: services, text } = await look();
      if (json === true) return void process.stdout.write(`${JSON.stringify(services)}\n`);
      if (process.stdout.isTTY) {
        cursorTo(process.stdout, 0, 0);
        clearScreenDown(process.stdout);
      }
      process.stdout.write(`${new Date().toISOString().slice(0, 19)}Z  ${until}\n${text}`);
    });
    return EXIT.ok;
  },
});

/**
 * @throws Errors of the first request. Later requests may fail for a while: that is reported, and the next request
 *   follows.
 */
async function untilInterrupted(seconds: number, look: () => Promise<void>): Promise<void> {
  const interrupted = new AbortController();
  const { signal } = interrupted;
  const interrupt = () => interrupted.abort();
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    for (let looks = 0; !signal.aborted; looks += 1) {
      await look().catch((error: unknown) => {
        // Ctrl-C also ends the programs that it calls.
        if (signal.aborted) return;
        if (looks === 0 || !(error instanceof UserError)) throw error;
        process.stderr.write(`${error.message}\n`);
      });
      await sleep(seconds * 1000, undefined, { signal }).catch(() => {});
    }
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
  }
}
