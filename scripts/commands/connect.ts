import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { startPortForwards } from "../connect/connected-stack.ts";
import { type ConnectedPart, type ForwardCommand, isListening } from "../connect/forwards.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { operationsOf } from "../platforms/index.ts";
import type { ForwardedAddress, Forwarding } from "../platforms/operations.ts";
import { requireOutputs } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  argument: {
    name: "[part...]",
    text: "of a cluster or a machine on EC2, what is forwarded besides the gateway",
    choices: {
      triton: "the servers of encoders and models",
      databases: "MongoDB and the vector database",
      grafana: "the dashboards",
    } satisfies Record<ConnectedPart, string>,
  },
  options: { "--dry-run": "print the addresses and the commands, and run nothing" },
  notes: [
    "Runs until Ctrl-C. A Docker host is reached through ssh, with all endpoints; local ports are those of the host where they are free, so that the other commands find them. A cluster is reached by kubectl port-forward, and lost connections are opened again; the machine of a stack on EC2 by sessions of Systems Manager. smoke, ask, seed, bench and verify forward what they need by themselves.",
    "Where the endpoints are reachable already, it prints them.",
  ],
  asksCluster: true,
  async run({ stack, values, positionals }) {
    const isDryRun = values.dryRun === true;
    const operations = await operationsOf(stack);
    const forwarding = await operations.forwarding(positionals);
    if (forwarding !== null) return connect(forwarding, isDryRun);
    const tunnelled = await operations.tunnel();
    if (tunnelled === null) {
      const outputs = await requireOutputs(stack);
      process.stdout.write(`Nothing has to be forwarded.\n\n${endpointTable(outputs)}`);
      return EXIT.ok;
    }
    const { argv, addresses } = tunnelled;
    const text = `${table(addresses, "ON THE HOST")}\n\n`;
    if (isDryRun) {
      process.stdout.write(`${text}${shellLine(argv)}\n`);
      return EXIT.ok;
    }
    return tunnel(
      argv,
      addresses.map(({ localPort }) => localPort),
      `${text}${END}`,
    );
  },
});

async function connect(forwarding: Forwarding, isDryRun: boolean): Promise<number> {
  const commands = await forwarding.commands();
  const text = `${table(forwarding.addresses, forwarding.where)}\n\n`;
  if (!isDryRun) return forwardUntilInterrupted(commands, text);
  process.stdout.write(`${text}${commands.map(({ argv }) => `${shellLine(argv)}\n`).join("")}`);
  return EXIT.ok;
}

const END = "Ctrl-C ends it.\n";

/** @param text - Said when all of them lead there. */
async function forwardUntilInterrupted(commands: readonly ForwardCommand[], text: string): Promise<number> {
  const interrupted = new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => resolve());
  });
  const forwarder = await startPortForwards(commands, (line) => process.stderr.write(`${line}\n`));
  process.stdout.write(`${text}${END}`);
  await interrupted;
  await forwarder.stop();
  return EXIT.ok;
}

function table(all: readonly ForwardedAddress[], where: string): string {
  const columns = [{ title: "ENDPOINT" }, { title: "HERE" }, { title: where }] as const;
  return textTable(
    columns,
    all.map(({ name, localAddress, address }) => [name, localAddress, address]),
  ).join("\n");
}

/** Between two looks whether ssh has its ports. */
const LOOK_MILLISECONDS = 200;

/**
 * ssh asks for what it needs on the terminal, and gets Ctrl-C itself. It listens when it is logged in, and says nothing then.
 *
 * @param text - Said when it has all ports.
 */
function tunnel(
  [program = "", ...args]: readonly string[],
  ports: readonly number[],
  text: string,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: "inherit" });
    const ended = new AbortController();
    const opened = async () => {
      while (!(await Promise.all(ports.map(isListening))).every(Boolean))
        await sleep(LOOK_MILLISECONDS, undefined, { signal: ended.signal });
      if (!ended.signal.aborted) process.stdout.write(text);
    };
    void opened().catch(() => {});
    let isInterrupted = false;
    const interrupt = () => {
      isInterrupted = true;
      child.kill("SIGTERM");
    };
    process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
    child.on("error", (error) => reject(new UserError(`ssh can't be started: ${error.message}.`)));
    child.on("close", (code) => {
      ended.abort();
      process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
      if (isInterrupted) return resolve(EXIT.ok);
      reject(new UserError(`ssh ended with exit code ${code}; its lines above say why.`));
    });
  });
}
