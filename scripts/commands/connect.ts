import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { dockerEndpoints } from "../../infra/plan/docker/endpoints.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import {
  CONNECTED_PARTS,
  type ConnectedPart,
  type ForwardCommand,
  forwardCommands,
  serviceFailure,
} from "../connect/cluster-forwards.ts";
import { clusterForwards } from "../connect/connected-stack.ts";
import { forwards, isListening, portClaims, remoteEndpoints, sshCommand } from "../connect/forwards.ts";
import { instanceCommands, instanceFailure, instanceForwards } from "../connect/instance-forwards.ts";
import { type ForwardFailure, startPortForwards } from "../connect/port-forwarder.ts";
import { UsageError, UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { sshDestination } from "../preflight/host-probe.ts";
import { readClusterTarget } from "../program/cluster-target.ts";
import { readPlan } from "../program/docker-target.ts";
import { isOnInstance, readInstanceTarget } from "../program/instance-target.ts";
import type { StackReference } from "../program/stack-file.ts";
import { isInCluster } from "../program/stack-platform.ts";
import { requireOutputs } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Brings the endpoints of a stack on another machine or in a cluster to this one, until Ctrl-C.",
  usage: "[triton] [databases] [grafana] [--dry-run]",
  details: [
    "--dry-run            print the table and the commands, and run nothing",
    "A Docker host is reached through ssh, with all endpoints; ports are those of the host where they are free here, so that the other commands find them. A cluster is reached by kubectl port-forward: the gateway, and what is named; what is lost comes back. So is the machine of a stack on EC2, through sessions of Systems Manager. smoke, ask, seed, bench and verify forward what they need of both by themselves.",
    "Of a stack whose endpoints are reachable already, it prints them.",
  ],
  options: { "dry-run": { type: "boolean" } },
  maxPositionals: CONNECTED_PARTS.length,
  asksCluster: true,
  async run({ stack, values, positionals }) {
    const parts = positionals.map(connectedPart);
    if (isInCluster(stack)) return connectCluster(stack, parts, values["dry-run"] === true);
    if (isOnInstance(stack)) return connectInstance(stack, parts, values["dry-run"] === true);
    const plan = readPlan(stack);
    const destination = plan.platform === "docker" ? sshDestination(plan.host.uri) : undefined;
    if (plan.platform !== "docker" || destination === undefined) {
      const outputs = await requireOutputs(stack);
      process.stdout.write(`Nothing has to be forwarded.\n\n${endpointTable(outputs)}`);
      return EXIT.ok;
    }
    // The plan knows them: whoever brought the stack up may have its state on another machine.
    const all = await forwards(remoteEndpoints(dockerEndpoints(plan)), portClaims());
    const argv = sshCommand(destination, all);
    const text = `${table(all)}\n\n`;
    if (values["dry-run"] === true) {
      process.stdout.write(`${text}${shellLine(argv)}\n`);
      return EXIT.ok;
    }
    return tunnel(
      argv,
      all.map(({ localPort }) => localPort),
      `${text}${END}`,
    );
  },
};

function connectedPart(word: string): ConnectedPart {
  const part = CONNECTED_PARTS.find((one) => one === word);
  if (part === undefined)
    throw new UsageError(
      `There is no part ${JSON.stringify(word)}; there are ${CONNECTED_PARTS.join(", ")}.`,
    );
  return part;
}

async function connectCluster(
  stack: StackReference,
  parts: readonly ConnectedPart[],
  isDryRun: boolean,
): Promise<number> {
  const target = readClusterTarget(stack);
  const all = await clusterForwards(target, parts);
  const commands = forwardCommands(target.stack.context, all);
  const text = `${table(all, "IN THE CLUSTER")}\n\n`;
  if (isDryRun) return printCommands(text, commands);
  return forwardUntilInterrupted(commands, text, serviceFailure(target.stack.context));
}

/** The machine has no open port: each of these goes through a session of Systems Manager. */
async function connectInstance(
  stack: StackReference,
  parts: readonly ConnectedPart[],
  isDryRun: boolean,
): Promise<number> {
  const target = readInstanceTarget(stack);
  const all = await instanceForwards(target, parts);
  const commands = await instanceCommands(target, all);
  const text = `${table(all, "ON THE MACHINE")}\n\n`;
  if (isDryRun) return printCommands(text, commands);
  return forwardUntilInterrupted(commands, text, instanceFailure);
}

function printCommands(text: string, commands: readonly ForwardCommand[]): number {
  process.stdout.write(`${text}${commands.map(({ argv }) => `${shellLine(argv)}\n`).join("")}`);
  return EXIT.ok;
}

const END = "Ctrl-C ends it.\n";

/** @param text - Said when all of them lead there. */
async function forwardUntilInterrupted(
  commands: readonly ForwardCommand[],
  text: string,
  failure: ForwardFailure,
): Promise<number> {
  const interrupted = new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => resolve());
  });
  const forwarder = await startPortForwards(commands, (line) => process.stderr.write(`${line}\n`), failure);
  process.stdout.write(`${text}${END}`);
  await interrupted;
  await forwarder.stop();
  return EXIT.ok;
}

function table(
  all: readonly { readonly name: string; readonly localAddress: string; readonly address: string }[],
  where = "ON THE HOST",
): string {
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
