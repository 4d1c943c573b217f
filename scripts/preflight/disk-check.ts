/** Whether what a host has yet to get fits on its disks. */
import type { Finding } from "./finding.ts";
import type { MachineReading } from "./machine-reading.ts";

export interface DiskNeed {
  readonly what: string;
  readonly gb: number;
  /** Folder of the host; null for where Docker keeps images and volumes. */
  readonly path: string | null;
}

type Space = NonNullable<ReturnType<MachineReading["space"]["get"]>>;

/** Free space of a folder; null stands for Docker's own. undefined where it could not be measured. */
export type HostSpace = (path: string | null) => Space | undefined;

/** What every disk keeps for logs and the layers that are being unpacked. */
const RESERVE_GB = 5;

/** One finding for each file system that is too full for all that goes there. */
export function diskFindings(needs: readonly DiskNeed[], spaceOf: HostSpace): readonly Finding[] {
  const byMount = new Map<string, { readonly space: Space; readonly needs: DiskNeed[] }>();
  for (const need of needs.filter(({ gb }) => gb > 0)) {
    const space = spaceOf(need.path);
    if (space === undefined) continue;
    const entry = byMount.get(space.mount) ?? { space, needs: [] };
    entry.needs.push(need);
    byMount.set(space.mount, entry);
  }
  return [...byMount.values()].flatMap(({ space, needs: there }): Finding[] => {
    const neededGB = there.reduce((sum, { gb }) => sum + gb, RESERVE_GB);
    const freeGB = space.freeBytes / 1e9;
    if (freeGB >= neededGB) return [];
    const terms = [...there.map(({ what, gb }) => `${gb.toFixed(1)} ${what}`), `${RESERVE_GB} in reserve`];
    return [
      {
        severity: "problem",
        check: "disk",
        what: `${space.mount} has ${freeGB.toFixed(1)} GB free.`,
        why: `${neededGB.toFixed(1)} GB are needed: ${terms.join(", ")}.`,
        fix: `Free ${(neededGB - freeGB).toFixed(1)} GB (\`docker system df\` says what Docker keeps), or move Docker's data-root or engineStore.path to a larger disk.`,
      },
    ];
  });
}
