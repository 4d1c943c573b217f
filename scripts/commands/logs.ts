import { spawn } from "node:child_process";
import { join } from "node:path";
import { stackStatus } from "../../components/local/provider/status.ts";
import { requireInstance, terminalSession } from "../aws/instance.ts";
import { kubectlCommand } from "../cluster/kubectl.ts";
import { logTargets } from "../cluster/workload-states.ts";
import { stackContainers } from "../docker-host/containers.ts";
import { serviceName, serviceStatuses } from "../docker-host/service-states.ts";
import { UsageError, UserError } from "../errors.ts";
import { hostProbe } from "../preflight/host-probe.ts";
import { readClusterTarget } from "../program/cluster-target.ts";
import { readDockerTarget } from "../program/docker-target.ts";
import { isOnInstance, readInstanceTarget } from "../program/instance-target.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { isInCluster, isOnDocker } from "../program/stack-platform.ts";
import { requireKnownStack, stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

interface LogOptions {
  readonly lines: string;
  readonly follow: boolean;
}

/** A program that prints a log, with its arguments. */
interface LogReader {
  readonly argv: readonly [string, ...string[]];
  readonly environment?: NodeJS.ProcessEnv;
}

export const command: Command = {
  summary: "Prints the log of a service.",
  usage: "SERVICE [--lines N] [--follow]",
  details: [
    "--lines N            how many of the last lines (default: 100)",
    "--follow             go on with new lines until Ctrl-C",
  ],
  options: { lines: { type: "string", short: "n", default: "100" }, follow: { type: "boolean", short: "f" } },
  maxPositionals: 1,
  asksCluster: true,
  async run({ stack, positionals, values }) {
    const readers = await readersOf(stack);
    const [service] = positionals;
    const reader = readers.get(service ?? "");
    if (reader === undefined) throw noService(stack, [...readers.keys()], service);
    const lines = String(values.lines);
    if (!/^[1-9]\d{0,6}$/.test(lines)) throw new UsageError(`--lines ${lines} is no number of lines.`);
    const { argv, environment } = reader({ lines, follow: values.follow === true });
    const [program, ...args] = argv;
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, { stdio: "inherit", env: { ...process.env, ...environment } });
      child.on("error", reject);
      child.on("close", (code) => resolve(code === 0 || code === null ? EXIT.ok : EXIT.failed));
    });
  },
};

/** By service. */
type LogReaders = ReadonlyMap<string, (options: LogOptions) => LogReader>;

function readersOf(stack: StackReference): LogReaders | Promise<LogReaders> {
  if (isOnDocker(stack)) return onDocker(stack);
  if (isOnInstance(stack)) return onInstance(stack);
  return isInCluster(stack) ? inCluster(stack) : onThisMachine(stack);
}

/** Those that the stack file wants: kubectl says it where one is not there. */
function inCluster(reference: StackReference): LogReaders {
  const { stack } = readClusterTarget(reference);
  const { context, namespace } = stack;
  return new Map(
    [...logTargets(stack)].map(([service, target]) => [
      service,
      ({ lines, follow }) => ({
        argv: [
          ...kubectlCommand(context),
          ...[
            "logs",
            "--namespace",
            namespace.name,
            "--tail",
            lines,
            ...(follow ? ["--follow"] : []),
            ...target,
          ],
        ],
      }),
    ]),
  );
}

async function onThisMachine({ name }: StackReference): Promise<LogReaders> {
  const processes = await stackStatus(stackPaths(name).relativeDirectory);
  return new Map(
    processes.map(({ name: service, logFile }) => [
      service,
      ({ lines, follow }) => ({
        argv: ["tail", "-n", lines, ...(follow ? ["-F"] : []), join(projectRoot, logFile)],
      }),
    ]),
  );
}

async function onDocker(reference: StackReference): Promise<LogReaders> {
  const { name: stack, plan, stack: planned } = readDockerTarget(reference);
  const { uri } = plan.host;
  const found = await stackContainers(stack, hostProbe(uri));
  const services = serviceStatuses(stack, planned, found, Date.now());
  return new Map(
    services
      .filter(({ state }) => state !== "MISSING")
      .map(({ name: service, container }) => [
        service,
        ({ lines, follow }) => ({
          argv: ["docker", "logs", "--tail", lines, ...(follow ? ["--follow"] : []), container],
          environment: { DOCKER_HOST: uri },
        }),
      ]),
  );
}

/**
 * Those that the stack file wants: Docker says it where the machine has none of one. A session is that of `ssm-user`, whom the agent
 * puts among the sudoers; an account whose sessions run as somebody else must let that one do the same.
 * https://github.com/aws/amazon-ssm-agent/releases/tag/2.3.68.0
 */
async function onInstance(reference: StackReference): Promise<LogReaders> {
  const { stack, context } = readInstanceTarget(reference);
  const id = await requireInstance(context);
  return new Map(
    stack.containers.map(({ name }) => [
      serviceName(reference.name, name),
      ({ lines, follow }) => ({
        argv: terminalSession(
          context.region,
          id,
          `sudo docker logs --tail ${lines}${follow ? " --follow" : ""} ${name}`,
        ),
      }),
    ]),
  );
}

function noService(stack: StackReference, names: readonly string[], given: string | undefined): Error {
  if (names.length > 0)
    return new UsageError(
      `Say which service: ${names.join(", ")}${given === undefined ? "" : ` (not ${given})`}.`,
    );
  requireKnownStack(stack);
  return new UserError(`The stack ${stack.name} has no ${isOnDocker(stack) ? "containers" : "processes"}.`);
}
