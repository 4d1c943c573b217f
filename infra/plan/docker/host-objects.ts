/** Names and labels of a stack's objects on a Docker host, where several stacks may be, and its volumes. */
import type { ContainerRole } from "../containers/container.ts";
import { databaseContainers } from "../containers/databases.ts";
import type { DockerCpuPlan } from "../cpu-stack.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import type { DockerDatabasesPlan } from "./host.ts";

/** Name of a network, volume or container on the host. */
export function objectName(stack: string, name: string): string {
  return `${stack}-${name}`;
}

interface Labelled {
  readonly role?: ContainerRole | "volume";
  readonly model?: string | null;
  /** Content address of what a container makes or serves. */
  readonly key?: string | null;
}

/** In the shape of @pulumi/docker. */
export interface DockerLabel {
  readonly label: string;
  readonly value: string;
}

/** Labels of an object, sorted: `docker ps --filter label=engine-room.stack=NAME` finds it. */
export function labels(stack: string, { role, model, key }: Labelled = {}): DockerLabel[] {
  const values = {
    "engine-room.key": key,
    "engine-room.model": model,
    "engine-room.role": role,
    "engine-room.stack": stack,
  };
  return Object.entries(values).flatMap(([label, value]) =>
    typeof value === "string" ? [{ label, value }] : [],
  );
}

export interface DockerVolume {
  /** Name of the volume on the host. */
  readonly name: string;
  readonly purpose: "store" | "mongo" | "vector" | "scratch";
  readonly labels: DockerLabel[];
  /** Whether `down` leaves it: weights and engines take hours to make, documents can't be made again. */
  readonly isKept: boolean;
  /** Number of the user and the group whose data they are; null: as the image has the folder. */
  readonly userId: number | null;
}

/** Volumes of the two kinds of databases differ: neither can read the other's files. */
type VolumeUse = "store" | "scratch" | "mongo" | "vector" | "mock-mongo" | "mock-vector";

export function volumeName(stack: string, use: VolumeUse): string {
  return objectName(stack, use);
}

export function volumes(stack: string, plan: DockerCpuPlan | DockerGpuPlan): readonly DockerVolume[] {
  const common = { labels: labels(stack, { role: "volume" }), userId: null };
  const name = (use: VolumeUse) => volumeName(stack, use);
  if (plan.tier === "cpu") return databaseVolumes(stack, plan.databases);
  return [
    ...(plan.host.storePath === null
      ? [{ ...common, name: name("store"), purpose: "store" as const, isKept: true }]
      : []),
    // Checkpoints: as large as the weights, and made again where they are missing.
    { ...common, name: name("scratch"), purpose: "scratch", isKept: false },
    ...databaseVolumes(stack, plan.host.databases),
  ];
}

function databaseVolumes(stack: string, databases: DockerDatabasesPlan | null): readonly DockerVolume[] {
  if (databases === null || databases.kind === "external") return [];
  const { kind } = databases;
  return databaseContainers(kind).map(({ name, userId }) => {
    const purpose = name === "mongo" ? "mongo" : "vector";
    return {
      name: volumeName(stack, kind === "mock" ? `mock-${purpose}` : purpose),
      purpose,
      labels: labels(stack, { role: "volume" }),
      isKept: true,
      userId,
    };
  });
}
