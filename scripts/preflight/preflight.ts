/** Asks this machine all that a stack of `platform: local` needs. Nothing is changed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory } from "../../components/local/provider/files.ts";
import { portHolder } from "../../components/local/provider/ports.ts";
import { findPython, PythonMissingError } from "../../components/local/provider/python.ts";
import { stackStatus } from "../../components/local/provider/supervisor.ts";
import type { LocalPlan } from "../../infra/plan/cpu-stack.ts";
import { projectRoot } from "../program/stack-file.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { type Finding, noShell } from "./finding.ts";
import type { HostProbe } from "./host-probe.ts";
import { chosenPorts, localFindings } from "./local-checks.ts";
import { readMachine } from "./machine-reading.ts";

/** @param stack - Its name: the ports of a stack that runs are its own. */
export async function localPreflight(
  plan: LocalPlan,
  stack: string,
  probe: HostProbe,
): Promise<readonly Finding[]> {
  const { relativeDirectory, directory, data } = stackPaths(stack);
  const cache = cacheDirectory();
  const folders = {
    cache: { path: cache, isFilled: existsSync(join(cache, "uv")) },
    stack: { path: directory, isFilled: existsSync(join(directory, "python")) },
    data: { path: data, isFilled: plan.databases.kind === "external" || existsSync(data) },
  };
  const machine = await readMachine(
    probe,
    Object.values(folders).map(({ path }) => path),
  );
  if ("unreachable" in machine) return [noShell("this machine", machine.unreachable)];
  const processes = await stackStatus(relativeDirectory);
  const { listening } = machine;
  const taken = chosenPorts(plan).flatMap(([, port]) => (listening.has(port) ? [port] : []));
  return localFindings(plan, {
    machine,
    node: process.versions.node,
    pythonProblem: await pythonProblem(plan.pythonVersion),
    isUp: processes.length > 0,
    holders: new Map(await Promise.all(taken.map(async (port) => [port, await portHolder(port)] as const))),
    folders,
    project: projectRoot,
  });
}

async function pythonProblem(wanted: string | undefined): Promise<string | null> {
  try {
    await findPython(wanted);
    return null;
  } catch (error) {
    if (error instanceof PythonMissingError) return error.message;
    throw error;
  }
}
