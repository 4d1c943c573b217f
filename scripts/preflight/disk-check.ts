/** Whether what a host has yet to get fits on its disks. */
import { type Finding, problem } from "./finding.ts";
import type { MachineReading } from "./machine-reading.ts";

export interface DiskNeed {
  readonly what: string;
  readonly gb: number;
  /** Number of files. @default 0 */
  readonly files?: number;
  /** Folder of the host; null for where Docker keeps images and volumes. */
  readonly path: string | null;
  /** What else helps than to free space: `move … to a larger disk`. @default that of Docker's folders */
  readonly setting?: string;
}

type Space = NonNullable<ReturnType<MachineReading["space"]["get"]>>;

/** Free space of a folder; null stands for Docker's own. undefined where it could not be measured. */
export type HostSpace = (path: string | null) => Space | undefined;

/** What a Docker host keeps for logs and the layers that are being unpacked. */
const DOCKER_RESERVE_GB = 5;
const DOCKER_SETTING =
  "move Docker's data-root or engineStore.path to a larger disk (`docker system df` says what Docker keeps)";

/**
 * One finding for each file system that has too little room, or too few inodes, for all that goes there.
 *
 * @param reserveGB - Kept free on every file system.
 */
export function diskFindings(
  needs: readonly DiskNeed[],
  spaceOf: HostSpace,
  reserveGB: number = DOCKER_RESERVE_GB,
): readonly Finding[] {
  const byMount = new Map<string, { readonly space: Space; readonly needs: DiskNeed[] }>();
  for (const need of needs.filter(({ gb }) => gb > 0)) {
    const space = spaceOf(need.path);
    if (space === undefined) continue;
    const entry = byMount.get(space.mount) ?? { space, needs: [] };
    entry.needs.push(need);
    byMount.set(space.mount, entry);
  }
  return [...byMount.values()].flatMap(({ space: { mount, freeBytes, freeFiles }, needs: there }) => {
    const findings: Finding[] = [];
    const otherwise = [...new Set(there.map(({ setting = DOCKER_SETTING }) => setting))].join(", or ");
    const neededGB = there.reduce((sum, { gb }) => sum + gb, reserveGB);
    const freeGB = freeBytes / 1e9;
    if (freeGB < neededGB) {
      const terms = [...there.map(({ what, gb }) => `${gb.toFixed(1)} ${what}`), `${reserveGB} in reserve`];
      findings.push(
        problem(
          "disk",
          `${mount} has ${freeGB.toFixed(1)} GB free.`,
          `${neededGB.toFixed(1)} GB are needed: ${terms.join(", ")}.`,
          `Free ${(neededGB - freeGB).toFixed(1)} GB there, or ${otherwise}.`,
        ),
      );
    }
    const neededFiles = there.reduce((sum, { files = 0 }) => sum + files, 0);
    if (freeFiles !== null && freeFiles < neededFiles) {
      const terms = there.flatMap(({ what, files = 0 }) => (files === 0 ? [] : [`${files} ${what}`]));
      findings.push(
        problem(
          "inodes",
          `${mount} has ${freeFiles} inodes free, one for each file.`,
          `About ${neededFiles} are needed: ${terms.join(", ")}.`,
          `Make room for ${neededFiles - freeFiles} more files there, or ${otherwise}.`,
        ),
      );
    }
    return findings;
  });
}
