/** What `npm start` needs of this machine for a stack of `platform: local`. */
import { isUsableRoot, UNUSABLE_ROOT } from "../../components/local/provider/files.ts";
import type { LocalPlan } from "../../infra/plan/cpu-stack.ts";
import { type DiskNeed, diskFindings } from "./disk-check.ts";
import { type Finding, isOlder, problem } from "./finding.ts";
import type { MachineReading } from "./machine-reading.ts";

export interface LocalReading {
  readonly machine: MachineReading;
  /** `20.19.0`. */
  readonly node: string;
  /** Why no Python can serve, with the command that helps; null where one can. */
  readonly pythonProblem: string | null;
  /** Whether the stack runs: its ports are then its own. */
  readonly isUp: boolean;
  /** Who listens on ports of the stack file: `python3 (pid 4711)`. */
  readonly holders: ReadonlyMap<number, string>;
  readonly folders: Readonly<Record<LocalFolder, FolderReading>>;
  /** Folder of the project. */
  readonly project: string;
}

/** `cache`: downloads, and what is built of them. `stack`: its Python and its state. `data`: documents. */
type LocalFolder = "cache" | "stack" | "data";

interface FolderReading {
  readonly path: string;
  /** Whether it has what it needs already. */
  readonly isFilled: boolean;
}

/** `engines` of package.json. */
const NODE = { least: "20.19.0", first: "25" } as const;

/** What the wheels of requirements.lock were built for. */
const LEAST_GLIBC = "2.35";

/** Encoders and one small language model, measured: see docs/measurements.md. */
const MEMORY_MIB = 3 * 1024;

/** Room and number of files of a new stack, by `du` and `find` of a stack of its own. */
const NEEDS: Readonly<Record<LocalFolder, Required<Omit<DiskNeed, "path">>>> = {
  cache: {
    what: "downloads",
    gb: 1.2,
    files: 8000,
    setting: "set ENGINE_ROOM_CACHE_DIR to a folder on a larger disk",
  },
  stack: { what: "the stack", gb: 0.8, files: 5000, setting: "move the project to a larger disk" },
  data: { what: "documents", gb: 0.1, files: 100, setting: "move the project to a larger disk" },
};

/** Kept free for logs. */
const RESERVE_GB = 0.5;

export function localFindings(plan: LocalPlan, reading: LocalReading): readonly Finding[] {
  const { machine, node, pythonProblem, isUp, project } = reading;
  const found: (Finding | false)[] = [
    (machine.system !== "Linux" || !["x86_64", "aarch64"].includes(machine.architecture)) &&
      problem(
        "machine",
        `This machine is ${machine.system} on ${machine.architecture}.`,
        "Triton's wheel is made for Linux on x86_64 and aarch64.",
        "Use such a machine, or `platform: docker` with one behind ssh.",
      ),
    machine.system === "Linux" &&
      (machine.glibc === null || isOlder(machine.glibc, LEAST_GLIBC)) &&
      problem(
        "glibc",
        `The C library is ${machine.glibc === null ? "no glibc" : `glibc ${machine.glibc}`}.`,
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
    !isUp &&
      machine.availableMiB !== null &&
      machine.availableMiB < MEMORY_MIB &&
      problem(
        "memory",
        `${machine.availableMiB} MiB of memory are free.`,
        `The stack takes about ${MEMORY_MIB} MiB.`,
        "End other programs, or use a machine with more memory.",
      ),
  ];
  return [
    ...found.filter((one) => one !== false),
    ...(isUp ? [] : [...portFindings(plan, reading), ...folderFindings(reading)]),
  ];
}

/** Folders that can't be written, and file systems that are too full. */
function folderFindings({ machine, folders }: LocalReading): readonly Finding[] {
  const entries = (Object.keys(NEEDS) as LocalFolder[]).map((name) => ({ ...NEEDS[name], ...folders[name] }));
  const isClosed = ({ path }: FolderReading) => machine.space.get(path)?.isWritable === false;
  const closed = entries.filter(isClosed).map(({ what, path, setting }) => {
    const { folder = path, mount = "/" } = machine.space.get(path) ?? {};
    return problem(
      "writable",
      `${path} can't be written, which is for ${what}.`,
      `${folder} belongs to another user or is read-only (its file system is that of ${mount}).`,
      `Make ${folder} writable for this user, or ${setting.replace(/(on|to) a larger disk/, "$1 a writable disk")}.`,
    );
  });
  const missing = entries.filter((entry) => !entry.isFilled && !isClosed(entry));
  const full = diskFindings(missing, (path) => machine.space.get(path ?? ""), RESERVE_GB);
  return [...closed, ...full];
}

function portFindings(plan: LocalPlan, { machine, holders }: LocalReading): readonly Finding[] {
  return chosenPorts(plan)
    .filter(([, port]) => machine.listening.has(port))
    .map(([path, port]) =>
      problem(
        "ports",
        `Port ${port} is taken by ${holders.get(port) ?? "another process"}.`,
        `${path} of the stack file asks for it.`,
        "End that program, choose another port, or remove the key: a free port is taken then.",
      ),
    );
}

/** Ports that the stack file sets, with their paths: 0 takes a free one. */
export function chosenPorts({ gateway, encoders, models, databases }: LocalPlan): [string, number][] {
  const below = (path: string, ports: object): [string, number][] =>
    Object.entries(ports).map(([name, port]) => [`${path}.${name}`, port as number]);
  const all: [string, number][] = [
    ["gateway.port", gateway.port],
    ...below("encoders.ports", encoders.ports),
    ...models.flatMap(({ ports }, index) => below(`models[${index}].ports`, ports)),
    ...(databases.kind === "mock" ? below("databasePorts", databases.ports) : []),
  ];
  return all.filter(([, port]) => port > 0);
}
