import { spawn } from "node:child_process";
import { dockerEndpoints } from "../../infra/plan/docker/endpoints.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { type Forward, forwards, portClaims, remoteEndpoints, sshCommand } from "../connect/forwards.ts";
import { UserError } from "../errors.ts";
import { textTable } from "../plan/text-table.ts";
import { sshDestination } from "../preflight/host-probe.ts";
import { readPlan } from "../program/docker-target.ts";
import { requireOutputs } from "../stack/backend.ts";
import { endpointTable } from "../stack/endpoint-table.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Brings the endpoints of a stack on another machine to this one, through ssh, until Ctrl-C.",
  usage: "[--stack NAME] [--dry-run]",
  details: [
    "--dry-run            print the table and the ssh command, and run nothing",
    "Ports are those of the host where they are free here, so that the other commands find them.",
    "Of a stack whose endpoints are reachable already, it prints them.",
  ],
  options: { "dry-run": { type: "boolean" } },
  async run({ stack, values }) {
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
    process.stdout.write(`${table(all)}\n\n`);
    if (values["dry-run"] === true) {
      process.stdout.write(`${shellLine(argv)}\n`);
      return EXIT.ok;
    }
    process.stdout.write("Ctrl-C ends it.\n");
    return tunnel(argv);
  },
};

function table(all: readonly Forward[]): string {
  const columns = [{ title: "ENDPOINT" }, { title: "HERE" }, { title: "ON THE HOST" }] as const;
  return textTable(
    columns,
    all.map(({ name, localAddress, address }) => [name, localAddress, address]),
  ).join("\n");
}

/** ssh asks for what it needs on the terminal, and gets Ctrl-C itself. */
function tunnel([program = "", ...args]: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: "inherit" });
    let isInterrupted = false;
    const interrupt = () => {
      isInterrupted = true;
      child.kill("SIGTERM");
    };
    process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
    child.on("error", (error) => reject(new UserError(`ssh can't be started: ${error.message}.`)));
    child.on("close", (code) => {
      process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
      if (isInterrupted) return resolve(EXIT.ok);
      reject(new UserError(`ssh ended with exit code ${code}; its lines above say why.`));
    });
  });
}
