/** Requirements of `npm start` on this machine for a stack of `platform: local`. Nothing is changed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory, isUsableRoot, UNUSABLE_ROOT } from "../../components/local/provider/files.ts";
import { portHolder } from "../../components/local/provider/ports.ts";
import { findPython, PythonMissingError } from "../../components/local/provider/python.ts";
import { stackStatus } from "../../components/local/provider/supervisor.ts";
import type { LocalPlan } from "../../infra/plan/cpu-stack.ts";
import { projectRoot } from "../program/stack-file.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { type Finding, isOlder, noShell, problem } from "./finding.ts";
import {
  architectureFindings,
  type DiskNeed,
  diskFindings,
  memoryFindings,
  portFindings,
  type WantedPort,
} from "./host-checks.ts";
import type { HostProbe } from "./host-probe.ts";
import { type MachineReading, readMachine } from "./machine-facts.ts";

/** `cache`: downloads, and builds of them. `stack`: its Python and its state. `data`: documents. */
type LocalFolder = "cache" | "stack" | "data";

export interface LocalReading {
  readonly machine: MachineReading;
  /** `20.19.0`. */
  readonly node: string;
  /** Reason why no installed Python is usable, with the command that helps; null when a Python is usable. */
  readonly pythonProblem: string | null;
  /** Whether the stack runs, so that the ports are its own. */
  readonly isUp: boolean;
  /** Listeners on ports of the stack file: `python3 (pid 4711)`. */
  readonly holders: ReadonlyMap<number, string>;
  /** `isFilled`: it has its contents already. */
  readonly folders: Readonly<Record<LocalFolder, { readonly path: string; readonly isFilled: boolean }>>;
  /** Folder of the project. */
  readonly project: string;
}

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
  const machine = await readMachine(probe, [cache, directory, data]);
  if ("unreachable" in machine) return [noShell("this machine", machine.unreachable)];
  const processes = await stackStatus(relativeDirectory);
  const own = new Set(processes.flatMap(({ ports }) => Object.values(ports)));
  const taken = wantedPorts(plan).filter(({ port }) => machine.listening.has(port) && !own.has(port));
  const holders = await Promise.all(
    taken.map(async ({ port }) => [port, (await portHolder(port)) ?? "another process"] as const),
  );
  return localFindings(plan, {
    machine,
    node: process.versions.node,
    pythonProblem: await pythonProblem(plan.pythonVersion),
    isUp: processes.length > 0,
    holders: new Map(holders),
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

/** `engines` of package.json. */
const NODE = { least: "20.19.0", first: "25" } as const;

/** The wheels of requirements.lock were built for it. */
const LEAST_GLIBC = "2.35";

/** Encoders and one small language model, measured: see docs/measurements.md. */
const MEMORY_MIB = 3 * 1024;

const LARGER_DISK = "move the project to a larger disk";

/** Room and number of files of a new stack, measured by `du` and `find`. */
const NEEDS: Readonly<Record<LocalFolder, Omit<DiskNeed, "space" | "path">>> = {
  cache: {
    what: "downloads",
    gb: 1.2,
    files: 8000,
    setting: "set ENGINE_ROOM_CACHE_DIR to a folder on a larger disk",
  },
  stack: { what: "the stack", gb: 0.8, files: 5000, setting: LARGER_DISK },
  data: { what: "documents", gb: 0.1, files: 100, setting: LARGER_DISK },
};

/** Kept free for logs. */
const RESERVE_GB = 0.5;

export function localFindings(plan: LocalPlan, reading: LocalReading): readonly Finding[] {
  const { machine, node, pythonProblem, isUp, holders, project } = reading;
  const { system, glibc } = machine;
  const found = [
    system === "Linux" &&
      (glibc === null || isOlder(glibc, LEAST_GLIBC)) &&
      problem(
        "glibc",
        `The C library is ${glibc === null ? "no glibc" : `glibc ${glibc}`}.`,
        `Triton's wheel needs glibc ${LEAST_GLIBC}.`,
        "Use Debian 12, Ubuntu 22.04 or anything newer.",
      ),
    (isOlder(node, NODE.least) || !isOlder(node, NODE.first)) &&
      problem(
        "node",
        `This is Node ${node}.`,
        `The project runs on ${NODE.least} and newer, below ${NODE.first}.`,
        "Install Node 22 or 24 (https://nodejs.org).",
      ),
    pythonProblem !== null &&
      problem(
        "python",
        "No Python of this machine can serve.",
        pythonProblem,
        "Run that command, or `npm start -- --yes` as root.",
      ),
    !isUsableRoot(project) &&
      problem("path", `The project is in ${project}.`, UNUSABLE_ROOT.why, UNUSABLE_ROOT.fix),
  ];
  return [
    ...architectureFindings("machine", machine, "Triton's wheel"),
    ...found.filter((one) => one !== false),
    ...portFindings(wantedPorts(plan), holders),
    ...(isUp
      ? []
      : [...memoryFindings(machine, MEMORY_MIB, "The stack", "problem"), ...folderFindings(reading)]),
  ];
}

/** Read-only folders, and file systems that are too full. */
function folderFindings({ machine, folders }: LocalReading): readonly Finding[] {
  const needs = (Object.keys(NEEDS) as LocalFolder[]).map((name) => {
    const space = machine.space.get(folders[name].path);
    return { ...NEEDS[name], ...folders[name], space };
  });
  const closed = needs.flatMap(({ what, path, space, setting = "" }) =>
    space === undefined || space.isWritable
      ? []
      : [
          problem(
            "writable",
            `${path} can't be written, which is for ${what}.`,
            `${space.folder} belongs to another user or is read-only (its file system is that of ${space.mount}).`,
            `Make ${space.folder} writable for this user, or ${setting.replace("larger", "writable")}.`,
          ),
        ],
  );
  const missing = needs.filter(({ isFilled, space }) => !isFilled && space?.isWritable !== false);
  return [...closed, ...diskFindings(missing, RESERVE_GB)];
}

/** Ports that the stack file sets, with their paths: 0 takes a free one. */
function wantedPorts({ gateway, encoders, models, databases }: LocalPlan): readonly WantedPort[] {
  const groups: Readonly<Record<string, object>> = {
    gateway: { port: gateway.port },
    "encoders.ports": encoders.ports,
    ...Object.fromEntries(models.map(({ ports }, index) => [`models[${index}].ports`, ports])),
    ...(databases.kind === "mock" ? { databasePorts: databases.ports } : {}),
  };
  return Object.entries(groups).flatMap(([path, ports]) =>
    Object.entries(ports as Readonly<Record<string, number>>)
      .filter(([, port]) => port > 0)
      .map(([name, port]) => ({ port, wantedBy: `${path}.${name} of the stack file` })),
  );
}
