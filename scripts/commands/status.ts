import { stackStatus } from "../../components/local/provider/status.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { stackInstance, terminalSession } from "../aws/instance.ts";
import { clusterName, clusterProbe } from "../cluster/kubectl.ts";
import {
  isServing as servesInCluster,
  type WorkloadStatus,
  workloadStatuses,
} from "../cluster/workload-states.ts";
import { stackContainers } from "../docker-host/containers.ts";
import { isServing, type ServiceStatus, serviceStatuses } from "../docker-host/service-states.ts";
import { hostProbe } from "../preflight/host-probe.ts";
import { readClusterTarget } from "../program/cluster-target.ts";
import { readDockerTarget } from "../program/docker-target.ts";
import { isOnInstance, readInstanceTarget } from "../program/instance-target.ts";
import type { StackReference } from "../program/stack-file.ts";
import { isInCluster, isOnDocker } from "../program/stack-platform.ts";
import { requireKnownStack, stackPaths } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

/** What there is to say of a stack's processes, containers or workloads. */
interface Report {
  readonly services: readonly object[];
  readonly isHealthy: boolean;
  /** For people. */
  readonly text: string;
}

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
    const { services, isHealthy, text } = await reportOf(stack);
    process.stdout.write(values.json === true ? `${JSON.stringify(services, null, 2)}\n` : text);
    return isHealthy ? EXIT.ok : EXIT.failed;
  },
};

function reportOf(stack: StackReference): Promise<Report> {
  if (isOnDocker(stack)) return onDocker(stack);
  if (isOnInstance(stack)) return onInstance(stack);
  return isInCluster(stack) ? inCluster(stack) : onThisMachine(stack);
}

/** Of the machine alone: what runs on it says only who is on it. */
async function onInstance(reference: StackReference): Promise<Report> {
  const { context } = readInstanceTarget(reference);
  const { region, stack } = context;
  const machine = await stackInstance(context);
  if (machine === null) {
    const text = `The stack ${stack} has no machine in ${region}; \`npm run up -- --stack ${stack}\` makes it.\n`;
    return { services: [], isHealthy: false, text };
  }
  const { id, type, state } = machine;
  const isRunning = state === "running";
  const units = terminalSession(region, id, "systemctl list-units --all --no-pager 'engine-room*'");
  const next = isRunning
    ? `What runs on it:\n${shellLine(units)}`
    : `\`npm run wake -- --stack ${stack}\` starts it.`;
  return {
    services: [{ name: "machine", id, type, state }],
    isHealthy: isRunning,
    text: `machine ${id} ${type} in ${region}: ${state}\n${next}\n`,
  };
}

async function inCluster(reference: StackReference): Promise<Report> {
  const { name, stack } = readClusterTarget(reference);
  const services = await workloadStatuses(stack, clusterProbe(stack.context));
  const up = `\`npm run up -- --stack ${name}\``;
  if (services.every(({ state }) => state === "MISSING")) {
    const where = `the namespace ${stack.namespace.name} of ${clusterName(stack.context)}`;
    return {
      services: [],
      isHealthy: false,
      text: `The stack ${name} has nothing in ${where}; ${up} brings it up.\n`,
    };
  }
  const isHealthy = servesInCluster(services);
  const lines = workloadLines(services);
  const sleeping = services.filter(({ state }) => state === "SLEEPING").length;
  if (sleeping > 0)
    lines.push(
      `${sleeping === 1 ? "1 server sleeps" : `${sleeping} servers sleep`}; \`npm run wake -- --stack ${name}\` brings ${sleeping === 1 ? "it" : "them"} back.`,
    );
  if (!isHealthy)
    lines.push(
      `Not all of them are as the stack file wants them; \`npm run logs\` says more, and ${up} makes what is missing.`,
    );
  return { services, isHealthy, text: `${lines.join("\n")}\n` };
}

function workloadLines(services: readonly WorkloadStatus[]): string[] {
  const width = Math.max(...services.map(({ name }) => name.length));
  return services.map(({ name, kind, state, pods, restarts, why }) => {
    const life = [
      ...(pods === null ? [] : [`${pods.ready} of ${pods.wanted} ready`]),
      ...(restarts === 0 ? [] : [`${restarts} restarts`]),
    ];
    const columns = [
      name.padEnd(width),
      state.padEnd("UNPLANNED".length),
      kind.padEnd("StatefulSet".length),
      life.join(", ").padEnd(28),
      why ?? "",
    ];
    return columns.join(" ").trimEnd();
  });
}

async function onThisMachine(reference: StackReference): Promise<Report> {
  const { name: stack } = reference;
  const services = await stackStatus(stackPaths(stack).relativeDirectory);
  const isHealthy = services.length > 0 && services.every((process) => process.state === "RUNNING");
  const lines = services.map(({ name, state, pid, uptimeSeconds, ports, logFile }) => {
    const where = Object.entries(ports).map(([port, number]) => `${port} ${number}`);
    const life = pid === undefined ? "" : `pid ${pid}, up ${formatSeconds(uptimeSeconds ?? 0)}`;
    return `${name.padEnd(16)} ${state.padEnd(9)} ${life.padEnd(28)} ${where.join(", ")}\n${"".padEnd(17)}${logFile}`;
  });
  if (services.length === 0) {
    requireKnownStack(reference);
    lines.push(`The stack ${stack} has no processes; \`npm start -- --stack ${stack}\` brings it up.`);
  } else if (!isHealthy) lines.push("Not all of them run under supervisord; `npm start` mends that.");
  return { services, isHealthy, text: `${lines.join("\n")}\n` };
}

async function onDocker(reference: StackReference): Promise<Report> {
  const { name: stack, plan, stack: planned } = readDockerTarget(reference);
  const found = await stackContainers(stack, hostProbe(plan.host.uri));
  const start = `\`npm start -- --stack ${stack}\``;
  if (found.length === 0) {
    const text = `The stack ${stack} has no containers at ${plan.host.uri}; ${start} brings it up.\n`;
    return { services: [], isHealthy: false, text };
  }
  const services = serviceStatuses(stack, planned, found, Date.now());
  const isHealthy = isServing(services);
  const lines = containerLines(services);
  if (!isHealthy) lines.push(`Not all of them are as the stack file wants them; ${start} mends that.`);
  return { services, isHealthy, text: `${lines.join("\n")}\n` };
}

function containerLines(services: readonly ServiceStatus[]): string[] {
  const widths = (["name", "container"] as const).map((key) =>
    Math.max(...services.map((one) => one[key].length)),
  );
  return services.map(({ name, container, state, uptimeSeconds, exitCode, restarts, ports }) => {
    const life = [
      ...(uptimeSeconds === undefined ? [] : [`up ${formatSeconds(uptimeSeconds)}`]),
      ...(exitCode === undefined ? [] : [`exit code ${exitCode}`]),
      ...(restarts === 0 ? [] : [`${restarts} restarts`]),
    ];
    const columns = [
      name.padEnd(widths[0] ?? 0),
      state.padEnd("UNPLANNED".length),
      life.join(", ").padEnd(24),
      container.padEnd(widths[1] ?? 0),
      Object.values(ports).join(", "),
    ];
    return columns.join(" ").trimEnd();
  });
}

function formatSeconds(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ];
  const unit = units.find(([size]) => seconds >= size);
  return unit === undefined ? `${Math.floor(seconds)} s` : `${(seconds / unit[0]).toFixed(1)} ${unit[1]}`;
}
