import { spawn } from "node:child_process";
import { once } from "node:events";
import { UsageError, UserError, unknownName } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { projectRoot } from "../program/stack-file.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  argument: { name: "[service]", text: "a model, or what else `npx engine-room status` names" },
  notes: [
    "In its container on a Docker host, in a pod of it in a cluster, and on EC2 through a session of Systems Manager. For a stack on this machine it is your own shell, with the environment and the folder of the process.",
    "Input from a pipe is run: `echo nvidia-smi | npx engine-room shell llava`; a session on EC2 requires a terminal. The exit code is that of the shell.",
  ],
  asksCluster: true,
  async run({ stack, positionals: [service] }) {
    const operations = await operationsOf(stack);
    const shells = await operations.shells();
    const names = [...shells.keys()];
    if (names.length === 0) {
      requireKnownStack(stack);
      throw new UserError(
        `The stack ${stack.name} has no ${operations.logged}; \`npx engine-room ${operations.upCommand} --stack ${stack.name}\` brings it up.`,
      );
    }
    if (service === undefined)
      throw new UsageError(`Missing service: npx engine-room shell NAME. The stack has ${names.join(", ")}.`);
    const shell = shells.get(service);
    if (shell === undefined) throw unknownName("service", service, names);
    const [program, ...args] = shell.argv;
    const env = { ...process.env, ...shell.environment };
    const child = spawn(program, args, { stdio: "inherit", cwd: projectRoot, env });
    // Ctrl-C is for programs in the shell.
    const ignore = () => {};
    process.on("SIGINT", ignore);
    try {
      const [code] = (await once(child, "close")) as [number | null];
      return code ?? 1;
    } catch (error) {
      throw new UserError(`${program} can't be started: ${(error as Error).message}.`);
    } finally {
      process.off("SIGINT", ignore);
    }
  },
});
