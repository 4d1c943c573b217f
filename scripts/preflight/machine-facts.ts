/** Facts about a machine: one script of POSIX sh that reads them, and its parsed output. */
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { type HostProbe, lastLine } from "./host-probe.ts";

/** One GPU, as nvidia-smi has it. */
interface GpuReading {
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
  /** `2.36`; null without glibc. */
  readonly glibc: string | null;
  readonly availableMiB: number | null;
  /** null if nvidia-smi is missing or failed. */
  readonly gpus: readonly GpuReading[] | null;
  /** Output of nvidia-smi if it failed. */
  readonly gpuWords: string;
  /** Whether the container toolkit's hook is on the PATH: Docker finds it there by itself. */
  readonly hasNvidiaHook: boolean;
  /** TCP ports with a listener. */
  readonly listening: ReadonlySet<number>;
  /** By requested path; an unreadable path is missing. */
  readonly space: ReadonlyMap<string, Space>;
}

export interface Space {
  readonly freeBytes: number;
  /** Files that may still be made; null if the file system has no fixed number. */
  readonly freeFiles: number | null;
  /** Where the file system is mounted: two paths may share it. */
  readonly mount: string;
  /** The path, or the nearest folder above it that exists. */
  readonly folder: string;
  readonly isWritable: boolean;
}

const GPU_FIELDS = "index,name,memory.total,memory.used,driver_version,mig.mode.current";

const QUESTIONS = {
  system: "uname -sm",
  glibc: "getconf GNU_LIBC_VERSION 2>/dev/null",
  memory: "grep MemAvailable /proc/meminfo 2>/dev/null",
  gpus: `nvidia-smi --query-gpu=${GPU_FIELDS} --format=csv,noheader,nounits 2>&1 || printf 'exit %s\\n' "$?"`,
  hook: "PATH=$PATH:/usr/bin:/usr/local/bin:/usr/sbin; command -v nvidia-container-runtime-hook",
  listening: "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == \"0A\" { print $2 }'",
} as const;

/**
 * Path, folder, a line of `df -Pk`, a line of `df` with inodes, and `writable`; with tabs between them. On macOS `df -Pi` leaves out the
 * inodes.
 */
const SPACE = [
  "LC_ALL=C; export LC_ALL",
  'space() { p=$1; while [ ! -e "$p" ]; do p=$(dirname "$p"); done',
  '  i=$(df -Pi "$p" 2>/dev/null); case $i in *[Ii]nodes*|*[Ii][Ff]ree*) ;; *) i=$(df -i "$p" 2>/dev/null) ;; esac',
  `  printf '%s\\t' "$1" "$p" "$(df -Pk "$p" 2>/dev/null | tail -n 1)" "$(printf '%s' "$i" | tail -n 1)"`,
  '  test -w "$p" && printf writable; echo; }',
];

/**
 * @param paths - Absolute paths whose free space is measured; of a missing path, in the nearest folder above it. @returns The machine, or
 * the reason of a failure.
 */
export async function readMachine(
  probe: HostProbe,
  paths: readonly string[],
): Promise<MachineReading | { readonly unreachable: string }> {
  const questions = Object.entries(QUESTIONS).map(([name, command]) => `printf '@@${name}\\n'; ${command}`);
  const spaces = paths.map((path) => `space ${shellLine([path])}`);
  const script = [...questions, ...SPACE, "printf '@@space\\n'", ...spaces, "exit 0", ""].join("\n");
  const { exitCode, stdout, stderr } = await probe.shell(script);
  return exitCode === 0 ? parseMachine(stdout) : { unreachable: lastLine(stderr) };
}

function parseMachine(text: string): MachineReading {
  const answers = new Map(
    text.split(/^@@/m).map((section) => {
      const [name = "", ...lines] = section.split("\n");
      return [name, lines.filter((line) => line.trim() !== "")] as const;
    }),
  );
  const answer = (name: keyof typeof QUESTIONS | "space") => answers.get(name) ?? [];
  const [system = "", architecture = ""] = answer("system")[0]?.split(" ") ?? [];
  const [availableKiB] = /\d+/.exec(answer("memory")[0] ?? "") ?? [];
  const gpuLines = answer("gpus").filter((line) => !/^exit \d+$/.test(line));
  const hasGpus = gpuLines.length > 0 && gpuLines.length === answer("gpus").length;
  return {
    system,
    architecture,
    glibc: /^glibc (\d+\.\d+)/.exec(answer("glibc")[0] ?? "")?.[1] ?? null,
    availableMiB: availableKiB === undefined ? null : Math.floor(Number(availableKiB) / 1024),
    gpus: hasGpus ? gpuLines.map(parseGpu) : null,
    gpuWords: hasGpus ? "" : gpuLines.join(" "),
    hasNvidiaHook: answer("hook").length > 0,
    listening: new Set(
      answer("listening").map((address) => Number.parseInt(address.split(":")[1] ?? "", 16)),
    ),
    space: new Map(answer("space").flatMap(parseSpace)),
  };
}

function parseGpu(line: string): GpuReading {
  const [index, name = "", total, used, driver = "", mig] = line.split(",").map((cell) => cell.trim());
  return {
    index: Number(index),
    name,
    memoryMiB: Number(total),
    usedMiB: Number(used),
    driver,
    isPartitioned: mig === "Enabled",
  };
}

/** Blocks, used and free blocks, their share, and the mount, after a device that may have spaces. */
const BLOCKS = /\s\d+\s+-?\d+\s+(?<free>-?\d+)\s+(?:\d+%|-)\s+(?<mount>\S.*)$/;
/** All, used and free inodes. */
const INODES = /\s(?<all>\d+)\s+\d+\s+(?<free>\d+)\s+(?:\d+%|-)\s+\S.*$/;
/** Format of macOS: used and free inodes, after blocks and their share. */
const INODES_BEHIND_BLOCKS = /\s\d+%\s+(?<used>\d+)\s+(?<free>\d+)\s+(?:\d+%|-)\s+\S.*$/;

function parseSpace(line: string): readonly (readonly [path: string, space: Space])[] {
  const [path = "", folder = "", blocks = "", files = "", writable] = line.split("\t");
  const { free, mount } = BLOCKS.exec(blocks)?.groups ?? {};
  if (free === undefined || mount === undefined) return [];
  const inodes = (INODES_BEHIND_BLOCKS.exec(files) ?? INODES.exec(files))?.groups;
  const hasNumber = inodes !== undefined && Number(inodes.all ?? 1) > 0;
  const space = {
    freeBytes: Number(free) * 1024,
    freeFiles: hasNumber ? Number(inodes.free) : null,
    mount,
    folder,
    isWritable: writable === "writable",
  };
  return [[path, space]];
}
