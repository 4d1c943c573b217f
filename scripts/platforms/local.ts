/** Stacks on this machine: processes under supervisord. */
import { delimiter, join } from "node:path";
import { readRecord } from "../../components/local/provider/process-files.ts";
import { stackStatus } from "../../components/local/provider/supervisor.ts";
import { UserError } from "../errors.ts";
import { duration } from "../plan/text-table.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { requireKnownStack, stackPaths } from "../stack/stack-paths.ts";
import {
  defaultOperations,
  type Operations,
  type Preflight,
  type ServiceProgram,
  type StackSource,
  type StatusReport,
  statusReport,
} from "./operations.ts";

export function operations(source: StackSource): Operations {
  const { stack } = source;
  return {
    ...defaultOperations(source),
    isForTryout: true,
    logged: "processes",
    preflight: () => preflight(stack),
    status: () => status(stack),
    async logs({ lines, follow }) {
      const processes = await stackStatus(stackPaths(stack.name).relativeDirectory);
      return new Map(
        processes.map(({ name, logFile }) => [
          name,
          { argv: ["tail", "-n", lines, ...(follow ? ["-F"] : []), join(projectRoot, logFile)] },
        ]),
      );
    },
    /** As launch.py starts the process, with the rest of the caller's own environment. */
    async shells() {
      const { relativeDirectory } = stackPaths(stack.name);
      const processes = await stackStatus(relativeDirectory);
      const shells = processes.map(async ({ name }): Promise<[string, ServiceProgram]> => {
        const { environment = {}, pathPrefix = "" } = (await readRecord(relativeDirectory, name)) ?? {};
        const PATH = `${pathPrefix}${delimiter}${process.env.PATH}`;
        return [name, { argv: [process.env.SHELL ?? "/bin/sh"], environment: { PATH, ...environment } }];
      });
      return new Map(await Promise.all(shells));
    },
    async genaiPerf(request) {
      const { localRun } = await import("../bench/genai-perf-local.ts");
      return localRun(await planOf(stack), request);
    },
    images: () => null,
    async installPrograms(install) {
      const { host, findings } = await preflight(stack);
      const isMissingPython = findings.some(({ check }) => check === "python");
      const left = findings.filter(
        ({ severity, check }) => severity === "problem" && !(install && check === "python"),
      );
      const { findingsReport } = await import("../preflight/finding.ts");
      if (left.length > 0) throw new UserError(findingsReport(host, left).trimEnd());
      if (!isMissingPython) return;
      const { ensureSystemPackages } = await import("../setup/system-packages.ts");
      await ensureSystemPackages({ install });
    },
  };
}

/** Loaded here, because `status`, `logs` and `down` need neither the plan of GPUs nor the checks of machines. */
async function preflight(stack: StackReference): Promise<Preflight> {
  const { hostProbe } = await import("../preflight/host-probe.ts");
  const { localPreflight } = await import("../preflight/local.ts");
  const findings = await localPreflight(await planOf(stack), stack.name, hostProbe(null));
  return { host: "this machine", findings };
}

async function planOf(stack: StackReference) {
  const { readPlan } = await import("../program/targets.ts");
  const plan = readPlan(stack);
  if (plan.platform !== "local") throw new Error(`${stack.name} is not a local stack.`);
  return plan;
}

async function status(stack: StackReference): Promise<StatusReport> {
  const services = await stackStatus(stackPaths(stack.name).relativeDirectory);
  if (services.length === 0) requireKnownStack(stack);
  const isHealthy = services.length > 0 && services.every(({ state }) => state === "RUNNING");
  const rows = services.map(({ name, state, pid, uptimeSeconds = 0, ports, logFile }) => [
    name,
    state,
    pid === undefined ? "" : `pid ${pid}, up ${duration(uptimeSeconds)}`,
    Object.entries(ports)
      .map(([port, number]) => `${port} ${number}`)
      .join(", "),
    logFile,
  ]);
  const start = `\`npx engine-room start --stack ${stack.name}\``;
  return statusReport(services, isHealthy, rows, [
    services.length === 0 && `The stack ${stack.name} has no processes; ${start} brings it up.`,
    services.length > 0 && !isHealthy && `Not all of them run under supervisord; ${start} fixes that.`,
  ]);
}
