/** What a machine says of itself: one script of POSIX sh that reads, and its parsed answer. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { type HostProbe, lastLine } from "./host-probe.ts";

/** One GPU, as nvidia-smi has it. */
export interface GpuReading {
  readonly index: number;
  /** `NVIDIA A10G`. */
  readonly name: string;
  readonly memoryMiB: number;
  readonly usedMiB: number;
  /** `575.57.08`. */
  readonly driver: string;
  readonly isPartitioned: boolean;
}

export interface MachineReading {
  /** `Linux`. */
  readonly system: string;
  /** `x86_64`. */
  readonly architecture: string;
  /** `2.36`; null where it is no glibc. */
  readonly glibc: string | null;
  readonly availableMiB: number | null;
  /** null where nvidia-smi is missing or failed. */
  readonly gpus: readonly GpuReading[] | null;
  /** What nvidia-smi said where it failed. */
  readonly gpuWords: string;
  /** Whether the container toolkit's hook is on the PATH: Docker finds it there by itself. */
  readonly hasNvidiaHook: boolean;
  /** TCP ports that somebody listens on. */
  readonly listening: ReadonlySet<number>;
  /** By the paths that were asked for. */
  readonly space: ReadonlyMap<string, Space>;
  /** Of /proc/sys, with points. */
  readonly limits: ReadonlyMap<string, number>;
}

interface Space {
  readonly freeBytes: number;
  /** Files that may still be made; null where the file system has no fixed number. */
  readonly freeFiles: number | null;
  /** Where the file system is mounted: two paths may share it. */
  readonly mount: string;
  /** The path, or the nearest folder above it that exists. */
  readonly folder: string;
  readonly isWritable: boolean;
}

const LIMITS = ["fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "vm.max_map_count"] as const;
const GPU_FIELDS = "index,name,memory.total,memory.used,driver_version,mig.mode.current";

/**
 * @param paths - Absolute, to measure the free space of; where one is missing, of the nearest folder above it.
 * @returns The machine, or the words with which it could not be asked.
 */
export async function readMachine(
  probe: HostProbe,
  paths: readonly string[],
): Promise<MachineReading | { readonly unreachable: string }> {
  const { exitCode, stdout, stderr } = await probe.shell(script(paths));
  if (exitCode !== 0) return { unreachable: lastLine(stderr) };
  return parseMachine(stdout);
}

function script(paths: readonly string[]): string {
  return [
    "section() { printf '@@%s\\n' \"$1\"; }",
    "section system; uname -sm",
    "section glibc; getconf GNU_LIBC_VERSION 2>/dev/null",
    "section memory; grep MemAvailable /proc/meminfo 2>/dev/null",
    `section gpus; nvidia-smi --query-gpu=${GPU_FIELDS} --format=csv,noheader,nounits 2>&1 || printf 'exit %s\\n' "$?"`,
    "section hook; PATH=$PATH:/usr/bin:/usr/local/bin:/usr/sbin; command -v nvidia-container-runtime-hook",
    "section listening; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == \"0A\" { print $2 }'",
    "section limits",
    ...LIMITS.map(
      (name) => `printf '${name} '; cat /proc/sys/${name.replaceAll(".", "/")} 2>/dev/null || echo`,
    ),
    "section space",
    'space() { p=$1; while [ ! -e "$p" ]; do p=$(dirname "$p"); done',
    '  printf \'=%s\\n@%s\\n\' "$1" "$p"; df -Pk "$p" | tail -n 1; df -Pi "$p" 2>/dev/null | tail -n 1; test -w "$p" && echo writable; }',
    ...paths.map((path) => `space ${shellLine([path])}`),
    "exit 0",
    "",
  ].join("\n");
}

function parseMachine(text: string): MachineReading {
  const sections = new Map<string, string[]>();
  let current: string[] = [];
  for (const line of text.split("\n")) {
    const [, name] = /^@@(\w+)$/.exec(line) ?? [];
    if (name !== undefined) {
      current = [];
      sections.set(name, current);
    } else if (line.trim() !== "") current.push(line.trim());
  }
  const section = (name: string) => sections.get(name) ?? [];
  const [system = "", architecture = ""] = section("system")[0]?.split(" ") ?? [];
  const [availableKiB] = /\d+/.exec(section("memory")[0] ?? "") ?? [];
  return {
    system,
    architecture,
    glibc: /^glibc (\d+\.\d+)/.exec(section("glibc")[0] ?? "")?.[1] ?? null,
    availableMiB: availableKiB === undefined ? null : Math.floor(Number(availableKiB) / 1024),
    ...parseGpus(section("gpus")),
    hasNvidiaHook: section("hook").length > 0,
    listening: new Set(
      section("listening").map((address) => Number.parseInt(address.split(":").at(-1) ?? "", 16)),
    ),
    space: parseSpace(section("space")),
    limits: new Map(
      section("limits").flatMap((line): [string, number][] => {
        const [name = "", value] = line.split(/\s+/);
        return value === undefined ? [] : [[name, Number(value)]];
      }),
    ),
  };
}

function parseGpus(lines: readonly string[]): Pick<MachineReading, "gpus" | "gpuWords"> {
  const hasFailed = lines.length === 0 || lines.some((line) => /^exit \d+$/.test(line));
  if (hasFailed) return { gpus: null, gpuWords: lines.filter((line) => !/^exit \d+$/.test(line)).join(" ") };
  const gpus = lines.map((line): GpuReading => {
    const [index, name = "", total, used, driver = "", mig] = line.split(",").map((cell) => cell.trim());
    return {
      index: Number(index),
      name,
      memoryMiB: Number(total),
      usedMiB: Number(used),
      driver,
      isPartitioned: mig === "Enabled",
    };
  });
  return { gpus, gpuWords: "" };
}

/** For each path: itself, the folder that was looked at, a line of `df -Pk`, one of `df -Pi`, and whether it can be written. */
function parseSpace(lines: readonly string[]): ReadonlyMap<string, Space> {
  const space = new Map<string, Space>();
  lines.forEach((line, index) => {
    if (!line.startsWith("=")) return;
    const next = lines.findIndex((other, place) => place > index && other.startsWith("="));
    const [folder = "", blocks = "", files = "", last] = lines.slice(index + 1, next < 0 ? undefined : next);
    const [, , , , availableKiB, mount] = dfColumns(blocks);
    const [, , totalFiles, , freeFiles] = dfColumns(files);
    if (availableKiB !== undefined && mount !== undefined)
      space.set(line.slice(1), {
        freeBytes: Number(availableKiB) * 1024,
        freeFiles: Number(totalFiles ?? 0) > 0 ? Number(freeFiles) : null,
        mount,
        folder: folder.slice(1),
        isWritable: last === "writable",
      });
  });
  return space;
}

/** The whole line, then device, total, used, available and mount. */
function dfColumns(line: string): readonly (string | undefined)[] {
  return /^(.*?)\s+(\d+)\s+(\d+)\s+(\d+)\s+(?:\d+%|-)\s+(.*)$/.exec(line) ?? [];
}
