/** Operations of a platform that has nothing to do for them. */
import { existsSync, rmSync } from "node:fs";
import { relative } from "node:path";
import { UsageError } from "../errors.ts";
import { projectRoot, type StackReference } from "../program/stack-file.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import type { Operations, StackSource } from "./operations.ts";

type Optional = Omit<Operations, "preflight" | "status" | "logs" | "logged" | "images">;

export function defaultOperations({ stack, values }: StackSource): Optional {
  const notScaled = (command: string, instead: string) =>
    new UsageError(
      `${command} is for stacks in a Kubernetes cluster or on AWS, and the stack ${stack.name} has \`platform: ${values.platform}\`; ${instead}.`,
    );
  const kept = values.platform === "docker" && values.tier !== "cpu" ? "documents and engines" : "documents";
  return {
    platform: String(values.platform),
    prepare: async () => {},
    forwarding: () => null,
    isBehindSsh: () => false,
    tunnel: () => null,
    sleep: async () => {
      throw notScaled(
        "sleep",
        `\`npx engine-room down --stack ${stack.name}\` ends it and keeps its ${kept}`,
      );
    },
    wake: async () => {
      throw notScaled("wake", `\`npx engine-room start --stack ${stack.name}\` brings it up`);
    },
    isForTryout: false,
    upCommand: "start",
    isRented: false,
    registries: null,
    installPrograms: async () => {},
    requireAccess: async () => {},
    beforeUp: async () => [],
    afterUp: async () => {},
    removeLeftovers: async () => [],
    beforeDown: async () => {},
    afterDown: async (deletesData) => {
      const { data } = stackPaths(stack.name);
      if (!deletesData && existsSync(data)) sayKept(relative(projectRoot, data), stack);
      return deleteDocuments(stack, deletesData);
    },
    hostProbe: () => null,
    cluster: () => null,
  };
}

/** Deletes the documents of this machine, if they are to go. @returns True: nothing is left that costs money. */
export function deleteDocuments({ name }: StackReference, deletesData: boolean): boolean {
  if (deletesData) rmSync(stackPaths(name).data, { recursive: true, force: true });
  return true;
}

export function sayKept(where: string, { name }: StackReference): void {
  process.stderr.write(
    `The documents are kept in ${where}; \`npx engine-room down --stack ${name} --delete-data\` deletes them.\n`,
  );
}

/** `12 s`, `3.5 h`. */
export function formatSeconds(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ];
  const unit = units.find(([size]) => seconds >= size);
  return unit === undefined ? `${Math.floor(seconds)} s` : `${(seconds / unit[0]).toFixed(1)} ${unit[1]}`;
}
