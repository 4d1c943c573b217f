/** Names and labels of a stack's objects on a Docker host, where several stacks may be. */
import type { ContainerRole } from "../containers/container.ts";

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
