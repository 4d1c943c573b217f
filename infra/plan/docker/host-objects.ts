/** Objects of a stack on a Docker host, where several stacks may be: their names, labels and ports, and the volumes. */
import type { ContainerRole } from "../containers/container.ts";
import { databaseContainers } from "../containers/databases.ts";
import type { DockerCpuPlan } from "../cpu-stack.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import type { TritonPorts } from "../repository/launch.ts";
import type { DockerDatabasesPlan } from "./host.ts";

export type DockerPlan = DockerCpuPlan | DockerGpuPlan;

/** Ports on the host of each model's Triton, in the order of the stack file, and of the encoders' Triton, if any. */
export function tritonPorts(plan: DockerPlan): {
  readonly models: readonly TritonPorts[];
  readonly encoders: TritonPorts | null;
} {
  return plan.tier === "cpu"
    ? { models: plan.models.map(({ ports }) => ports), encoders: plan.encoders.ports }
    : { models: plan.host.modelPorts, encoders: plan.host.encoderPorts };
}

/** null for a stack without encoders, since documents are found by their vectors. */
export function databasesOf(plan: DockerPlan): DockerDatabasesPlan | null {
  return plan.tier === "cpu" ? plan.databases : plan.host.databases;
}

/** Name of a network, volume or container on the host. */
export function objectName(stack: string, name: string): string {
  return `${stack}-${name}`;
}

interface Labelled {
  readonly role?: ContainerRole | "volume";
  readonly model?: string | null;
  /** Content address of the files that a container builds or serves. */
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

export function volumes(stack: string, plan: DockerPlan): readonly DockerVolume[] {
  const common = { labels: labels(stack, { role: "volume" }), userId: null };
  const databases = databasesOf(plan);
  return [
    ...(plan.tier === "gpu" && plan.host.storePath === null
      ? [{ ...common, name: objectName(stack, "store"), purpose: "store" as const, isKept: true }]
      : []),
    // Checkpoints: as large as the weights, and made again if they are missing.
    ...(plan.tier === "gpu"
      ? [{ ...common, name: objectName(stack, "scratch"), purpose: "scratch" as const, isKept: false }]
      : []),
    ...(databases === null || databases.kind === "external"
      ? []
      : databaseContainers(databases.kind).map(({ name, userId }): DockerVolume => {
          const purpose = name === "mongo" ? "mongo" : "vector";
          return {
            ...common,
            // The two kinds of databases can't read each other's files.
            name: objectName(stack, databases.kind === "mock" ? `mock-${purpose}` : purpose),
            purpose,
            isKept: true,
            userId,
          };
        })),
  ];
}
