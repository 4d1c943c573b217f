/** Asks a host or a cluster all that a stack needs, and judges the answers. Nothing there changes. */
import { cacheDirectory } from "../../components/local/provider/files.ts";
import { findPython, PythonMissingError } from "../../components/local/provider/python.ts";
import { stackStatus } from "../../components/local/provider/supervisor.ts";
import type { LocalPlan } from "../../infra/plan/cpu-stack.ts";
import type { ClusterProbe } from "../cluster/kubectl.ts";
import type { AskRegistry } from "../images/registry.ts";
import type { ClusterTarget } from "../program/cluster-target.ts";
import type { DockerTarget } from "../program/docker-target.ts";
import { projectRoot } from "../program/stack-file.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { clusterChecks, clusterQuestions } from "./cluster-checks.ts";
import { readImages } from "./cluster-images.ts";
import { readCluster } from "./cluster-reading.ts";
import { dockerFindings, engineFinding } from "./docker-checks.ts";
import { dockerNeeds } from "./docker-needs.ts";
import { readDocker } from "./docker-reading.ts";
import type { CheckResult, Finding } from "./finding.ts";
import type { HostProbe } from "./host-probe.ts";
import { localFindings } from "./local-checks.ts";
import { readMachine } from "./machine-reading.ts";

/** @returns What is wrong; where the engine gives no answer, that alone. */
export async function dockerPreflight(target: DockerTarget, probe: HostProbe): Promise<readonly Finding[]> {
  const { uri } = target.plan.host;
  const engine = await readDocker(probe);
  if (engine.kind !== "engine") return [engineFinding(uri, engine)];
  const needs = dockerNeeds(target, engine.images);
  const paths = [engine.rootDirectory, ...needs.disk.flatMap(({ path }) => (path === null ? [] : [path]))];
  const machine = await readMachine(probe, [...new Set(paths)]);
  if ("unreachable" in machine) return [noShell(uri, machine.unreachable)];
  return dockerFindings(needs, { uri, engine, machine });
}

/** @returns All that was looked at, with what is wrong; where the API server gives no answer, that alone. */
export async function clusterPreflight(
  target: ClusterTarget,
  probe: ClusterProbe,
  ask: AskRegistry,
): Promise<readonly CheckResult[]> {
  const [reading, images] = await Promise.all([
    readCluster(probe, clusterQuestions(target)),
    readImages(target.stack.images, ask),
  ]);
  if ("severity" in reading) return [{ looksAt: "API server", findings: [reading] }];
  return clusterChecks(target, { ...reading, images });
}

/** @param stack - Its name: the ports of a stack that runs are its own. */
export async function localPreflight(
  plan: LocalPlan,
  stack: string,
  probe: HostProbe,
): Promise<readonly Finding[]> {
  const cache = cacheDirectory();
  const machine = await readMachine(probe, [cache, projectRoot]);
  if ("unreachable" in machine) return [noShell("this machine", machine.unreachable)];
  const processes = await stackStatus(stackPaths(stack).relativeDirectory);
  return localFindings(plan, {
    machine,
    node: process.versions.node,
    pythonProblem: await pythonProblem(plan.pythonVersion),
    isUp: processes.length > 0,
    cache,
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

function noShell(host: string, words: string): Finding {
  return {
    severity: "problem",
    check: "shell",
    what: `No command can be run on ${host}.`,
    why: words === "" ? "The shell ended with an error." : words,
    fix: "Try `ssh -o BatchMode=yes` to it, which must work without a password.",
  };
}
