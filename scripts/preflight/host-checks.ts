/** Checks for both this machine and a Docker host: architecture, ports, memory, disks. */
import { type Finding, problem, warning } from "./finding.ts";
import type { MachineReading, Space } from "./machine-facts.ts";

/**
 * @param kind - Owner of the architecture: `machine`, `Docker engine`.
 * @param of - Product for it: `Triton's wheel`.
 */
export function architectureFindings(
  kind: string,
  { system, architecture }: Pick<MachineReading, "system" | "architecture">,
  of: string,
): readonly Finding[] {
  const isKnown = ["x86_64", "amd64", "aarch64", "arm64"].includes(architecture);
  if (system.toLowerCase() === "linux" && isKnown) return [];
  return [
    problem(
      "architecture",
      `The ${kind} is ${system} on ${architecture}.`,
      `${of} is made for Linux on x86_64 and aarch64.`,
      "Use such a machine; `platform: docker` reaches one behind ssh.",
    ),
  ];
}

/** A port that the stack file asks for. */
export interface WantedPort {
  readonly port: number;
  /** `gateway.port of the stack file`, `The container room-gateway`. */
  readonly wantedBy: string;
}

/** @param holders - Listeners: `python3 (pid 4711)`; a port without a holder may be used. */
export function portFindings(
  wanted: readonly WantedPort[],
  holders: ReadonlyMap<number, string>,
): readonly Finding[] {
  return wanted
    .filter(({ port }) => holders.has(port))
    .map(({ port, wantedBy }) =>
      problem(
        "ports",
        `Port ${port} is taken by ${holders.get(port)}.`,
        `${wantedBy} asks for it.`,
        "Stop that program, or choose another port (gateway.port, models[].ports, encoders.ports, databasePorts).",
      ),
    );
}

/** @param what - User of the memory: `The stack`. */
export function memoryFindings(
  { availableMiB }: MachineReading,
  neededMiB: number,
  what: string,
  severity: Finding["severity"],
): readonly Finding[] {
  if (availableMiB === null || availableMiB >= neededMiB) return [];
  return [
    (severity === "problem" ? problem : warning)(
      "memory",
      `${availableMiB} MiB of memory are free.`,
      `${what} takes about ${neededMiB} MiB.`,
      "Stop other programs, or use a machine with more memory.",
    ),
  ];
}

/** Data that is still to be stored. */
export interface DiskNeed {
  readonly what: string;
  /** Folder that is filled. */
  readonly path: string;
  readonly gb: number;
  /** Number of files. @default 0 */
  readonly files?: number;
  /** Space of that folder; undefined when it could not be measured. */
  readonly space: Space | undefined;
  /** Advice other than to free space: `move … to a larger disk`. @default that of Docker's folders */
  readonly setting?: string;
}

/** Reserve of a Docker host for logs and layers that are being unpacked. */
const DOCKER_RESERVE_GB = 5;
const DOCKER_SETTING =
  "move Docker's data-root or engineStore.path to a larger disk (`docker system df` says what Docker keeps)";

/**
 * One finding for each file system with too little room or too few inodes for its folders, and a warning for each folder that could not be
 * measured.
 *
 * @param reserveGB - Kept free on every file system.
 */
export function diskFindings(
  needs: readonly DiskNeed[],
  reserveGB: number = DOCKER_RESERVE_GB,
): readonly Finding[] {
  const mounts = new Map(needs.flatMap(({ space }) => (space === undefined ? [] : [[space.mount, space]])));
  const unmeasured = new Set(
    needs.flatMap(({ path, gb, space }) => (space === undefined && gb > 0 ? [path] : [])),
  );
  const unknown = [...unmeasured].map((path) => {
    const own = needs.filter((need) => need.path === path && need.gb > 0);
    return warning(
      "disk",
      `The free space of ${path} can't be measured.`,
      `\`df -Pk\` does not answer there, and ${own.map(({ what, gb }) => `${gb.toFixed(1)} GB of ${what}`).join(", ")} are needed.`,
      "Check the free space of the disk yourself, and continue if it is enough.",
    );
  });
  const full = [...mounts.values()].flatMap(({ mount, freeBytes, freeFiles }) => {
    const own = needs.filter(({ space, gb }) => space?.mount === mount && gb > 0);
    if (own.length === 0) return [];
    const otherwise = [...new Set(own.map(({ setting = DOCKER_SETTING }) => setting))].join(", or ");
    const neededGB = own.reduce((sum, { gb }) => sum + gb, reserveGB);
    const freeGB = freeBytes / 1e9;
    const terms = own.map(({ what, gb }) => `${gb.toFixed(1)} ${what}`).join(", ");
    const tooLittle = problem(
      "disk",
      `${mount} has ${freeGB.toFixed(1)} GB free.`,
      `${neededGB.toFixed(1)} GB are needed: ${terms}, ${reserveGB} in reserve.`,
      `Free ${(neededGB - freeGB).toFixed(1)} GB there, or ${otherwise}.`,
    );
    const neededFiles = own.reduce((sum, { files = 0 }) => sum + files, 0);
    const withoutInodes = problem(
      "inodes",
      `${mount} has ${freeFiles} inodes free, one for each file.`,
      `About ${neededFiles} are needed for ${own.map(({ what }) => what).join(", ")}.`,
      `Delete ${neededFiles - (freeFiles ?? 0)} files there, or ${otherwise}.`,
    );
    return [
      ...(freeGB < neededGB ? [tooLittle] : []),
      ...(freeFiles !== null && freeFiles < neededFiles ? [withoutInodes] : []),
    ];
  });
  return [...full, ...unknown];
}
