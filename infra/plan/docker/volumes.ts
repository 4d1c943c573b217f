/** What outlives the containers of a stack. */
import type { DockerCpuPlan } from "../cpu-stack.ts";
import { DATABASE_SERVERS } from "../database-servers.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import type { ModelSpec } from "../spec.ts";
import { SCRATCH } from "../store-builds.ts";
import { labels, objectName } from "./container.ts";
import type { DockerDatabasesPlan } from "./databases.ts";
import type { DockerMount, DockerVolume } from "./types.ts";

/** Where weights and engines are in every container. */
const STORE = "/store";

/** Volumes of the two kinds of databases differ: neither can read the other's files. */
type VolumeUse = "store" | "scratch" | "mongo" | "vector" | "mock-mongo" | "mock-vector";

export function volumeName(stack: string, use: VolumeUse): string {
  return objectName(stack, use);
}

export function volumes(stack: string, plan: DockerCpuPlan | DockerGpuPlan): readonly DockerVolume[] {
  if (plan.tier === "cpu") return databaseVolumes(stack, plan.databases);
  return [
    ...(plan.host.storePath === null ? [volume(stack, "store", "store", true)] : []),
    // Checkpoints: as large as the weights, and made again where they are missing.
    volume(stack, "scratch", "scratch", false),
    ...databaseVolumes(stack, plan.host.databases),
  ];
}

function databaseVolumes(stack: string, databases: DockerDatabasesPlan | null): readonly DockerVolume[] {
  if (databases === null || databases.kind === "external") return [];
  const uses = databaseVolumeUses(databases.kind);
  const servers = DATABASE_SERVERS[databases.kind];
  return (["mongo", "vector"] as const).map((database) =>
    volume(stack, uses[database], database, true, servers[database].userId),
  );
}

export function databaseVolumeUses(kind: "mock" | "container") {
  return kind === "mock"
    ? ({ mongo: "mock-mongo", vector: "mock-vector" } as const)
    : ({ mongo: "mongo", vector: "vector" } as const);
}

function volume(
  stack: string,
  use: VolumeUse,
  purpose: DockerVolume["purpose"],
  isKept: boolean,
  userId: number | null = null,
): DockerVolume {
  return { name: volumeName(stack, use), purpose, isKept, userId, labels: labels(stack, { role: "volume" }) };
}

/** The engine store: only builds write. */
export function storeMount(stack: string, { host }: DockerGpuPlan, readOnly: boolean): DockerMount {
  const { storePath } = host;
  const source = storePath === null ? { volume: volumeName(stack, "store") } : { hostPath: storePath };
  return { source, path: STORE, readOnly };
}

/** A folder of weights that the user keeps: its tokenizer is read by the server too. */
export function weightsMounts({ engine: { weights } }: ModelSpec): readonly DockerMount[] {
  if (weights.kind !== "folder") return [];
  return [{ source: { hostPath: weights.path }, path: weights.path, readOnly: true }];
}

export function scratchMount(stack: string): DockerMount {
  return { source: { volume: volumeName(stack, "scratch") }, path: SCRATCH, readOnly: false };
}
