/** Stack files as tests need them. */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { CONFIG_NAMESPACE } from "../../infra/problems.ts";
import { projectRoot, stackNames } from "../../scripts/program/stack-file.ts";

type Values = Readonly<Record<string, unknown>>;

/** Text of a stack file with these values of the project's configuration. */
export function stackFileText(values: Values): string {
  const entries = Object.entries(values).map(([key, value]) => [`engine-room:${key}`, value]);
  return stringify({ config: Object.fromEntries(entries) });
}

/** Writes a stack file into a folder, over an earlier one. @returns Its path. */
export function writtenStackFile(folder: string, values: Values): string {
  const file = join(folder, "stack.yaml");
  writeFileSync(file, stackFileText(values));
  return file;
}

/** Values of one of the project's own stack files. @param file - Relative to the project. */
export function projectStackValues(file: string): Values {
  const { config } = parse(readFileSync(join(projectRoot, file), "utf8")) as { readonly config: object };
  const prefix = `${CONFIG_NAMESPACE}:`;
  const values = Object.entries(config).map(([key, value]) => [key.slice(prefix.length), value]);
  return Object.fromEntries(values);
}

/** The project's own stack files, relative to it. */
export const projectStackFiles: readonly string[] = [
  ...stackNames().map((name) => `Pulumi.${name}.yaml`),
  ...readdirSync(join(projectRoot, "examples"))
    .filter((file) => file.endsWith(".yaml"))
    .map((file) => `examples/${file}`),
];
