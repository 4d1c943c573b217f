import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { startPortForwards } from "../connect/connected-stack.ts";
import { type ConnectedPart, type ForwardCommand, isListening } from "../connect/forwards.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { operationsOf } from "../platforms/index.ts";
import { requireOutputs } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { defineCommand, EXIT, printResult } from "./command.ts";

export const command = defineCommand({
  argument: {
    name: "[part...]",
    text: "for a cluster or a machine on EC2: endpoints to forward in addition to the gateway",
    choices: {
      triton: "the servers of encoders and models",
      databases: "MongoDB and the vector database",
      grafana: "the dashboards",
    } satisfies Record<ConnectedPart, string>,
  },
  options: {
    "--dry-run": "print the addresses and the commands without running them",
    "--json":
      "print JSON once the addresses answer: {addresses, commands}; an address has name, localAddress, address; a command is the list of its words",
  },
  notes: [
    "Runs until Ctrl-C. A Docker host is reached through ssh, with all endpoints; local ports are those of the host if they are free, so that the other commands find them. A cluster is reached by kubectl port-forward, and lost connections are opened again; the machine of a stack on EC2 by sessions of Systems Manager. smoke, ask, seed, bench and verify forward what they need by themselves.",
    "If the endpoints are reachable already, it prints them.",
  ],
  asksCluster: true,
  async run({ stack, values, positionals }) {
    const operations = await operationsOf(stack);
    const forwarding = await operations.forwarding(positionals);
    const tunnelled = forwarding === null ? await operations.tunnel() : null;
    const { addresses } = forwarding ?? tunnelled ?? { addresses: [] };
    const forwards = (await forwarding?.commands()) ?? [];
    const commands = tunnelled === null ? forwards.map(({ argv }) => argv) : [tunnelled.argv];
    const json = {
      addresses: addresses.map(({ name, localAddress, address }) => ({ name, localAddress, address })),
      commands,
    };
    if (addresses.length === 0)
      return {
        json,
        text: `Nothing has to be forwarded.\n\n${endpointTable(await requireOutputs(stack))}`,
      };
    const rows = json.addresses.map(({ name, localAddress, address }) => [name, localAddress, address]);
    const table = textTable(["ENDPOINT", "HERE", forwarding?.where ?? "ON THE HOST"], rows).join("\n");
    if (values.dryRun === true)
      return { json, text: `${table}\n\n${commands.map((argv) => `${shellLine(argv)}\n`).join("")}` };
    const announce = () => printResult({ json, text: `${table}\n\nCtrl-C ends it.\n` }, values.json);
    await (tunnelled === null
      ? forwardUntilInterrupted(forwards, announce)
      : tunnel(
          tunnelled.argv,
          tunnelled.addresses.map(({ localPort }) => localPort),
          announce,
        ));
    return EXIT.ok;
  },
});

/** @param announce - Called when all ports are forwarded. */
async function forwardUntilInterrupted(
  commands: readonly ForwardCommand[],
  announce: () => void,
): Promise<void> {
  const interrupted = Promise.race(["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => once(process, signal)));
  const forwarder = await startPortForwards(commands, (line) => process.stderr.write(`${line}\n`));
  announce();
  await interrupted;
  await forwarder.stop();
}

/** Interval of the checks for ssh's ports. */
const LOOK_MILLISECONDS = 200;

/**
 * ssh prompts on the terminal, and gets Ctrl-C itself. It listens once it is logged in, without a message.
 *
 * @param announce - Called when it has all ports.
 */
async function tunnel(
  [program = "", ...args]: readonly string[],
  ports: readonly number[],
  announce: () => void,
): Promise<void> {
  // Standard output has only the table, or the JSON.
  const child = spawn(program, args, { stdio: ["inherit", process.stderr, "inherit"] });
  const ended = new AbortController();
  const opened = async () => {
    while (!(await Promise.all(ports.map(isListening))).every(Boolean))
      await sleep(LOOK_MILLISECONDS, undefined, { signal: ended.signal });
    if (!ended.signal.aborted) announce();
  };
  void opened().catch(() => {});
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
    child.kill("SIGTERM");
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    const [code] = await once(child, "close");
    if (!isInterrupted)
      throw new UserError(`ssh ended with exit code ${code}; the lines above give the reason.`);
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`ssh can't be started: ${(error as Error).message}.`);
  } finally {
    ended.abort();
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
  }
}
