/** Stacks on this machine: processes under supervisord. */
import { join } from "node:path";
import { stackStatus } from "../../components/local/provider/supervisor.ts";
import { UserError } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";
import { requireKnownStack, stackPaths } from "../stack/stack-paths.ts";
import { defaultOperations, formatSeconds } from "./defaults.ts";
import type { Operations, Preflight, StackSource, StatusReport } from "./operations.ts";

export function operations(source: StackSource): Operations {
  const { stack } = source;
  const { relativeDirectory } = stackPaths(stack.name);
  return {
    ...defaultOperations(source),
    isForTryout: true,
    logged: "processes",
    preflight: () => preflight(source),
    status: () => status(source),
    async logs() {
      const processes = await stackStatus(relativeDirectory);
      return new Map(
        processes.map(({ name, logFile }) => [
          name,
          ({ lines, follow }) => ({
            argv: ["tail", "-n", lines, ...(follow ? ["-F"] : []), join(projectRoot, logFile)],
          }),
        ]),
      );
    },
    images: () => null,
    async installPrograms(install) {
      const { host, findings } = await preflight(source);
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

/** `status`, `logs` and `down` load neither the plan of GPUs nor what looks at machines. */
async function preflight({ stack }: StackSource): Promise<Preflight> {
  const { hostProbe } = await import("../preflight/host-probe.ts");
  const { localPreflight } = await import("../preflight/local.ts");
  const { readPlan } = await import("../program/targets.ts");
  const plan = readPlan(stack);
  if (plan.platform !== "local") throw new Error(`${stack.name} is not a local stack.`);
  return { host: "this machine", findings: await localPreflight(plan, stack.name, hostProbe(null)) };
}

async function status({ stack }: StackSource): Promise<StatusReport> {
  const services = await stackStatus(stackPaths(stack.name).relativeDirectory);
  const isHealthy = services.length > 0 && services.every(({ state }) => state === "RUNNING");
  const lines = services.map(({ name, state, pid, uptimeSeconds, ports, logFile }) => {
    const where = Object.entries(ports).map(([port, number]) => `${port} ${number}`);
    const life = pid === undefined ? "" : `pid ${pid}, up ${formatSeconds(uptimeSeconds ?? 0)}`;
    return `${name.padEnd(16)} ${state.padEnd(9)} ${life.padEnd(28)} ${where.join(", ")}\n${"".padEnd(17)}${logFile}`;
  });
  if (services.length === 0) {
    requireKnownStack(stack);
    lines.push(
      `The stack ${stack.name} has no processes; \`npx engine-room start --stack ${stack.name}\` brings it up.`,
    );
  } else if (!isHealthy) lines.push("Not all of them run under supervisord; `npm start` mends that.");
  return { services, isHealthy, text: `${lines.join("\n")}\n` };
}
