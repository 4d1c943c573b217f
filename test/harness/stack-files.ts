/** Stack files as tests need them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";

type Values = Readonly<Record<string, unknown>>;

/** Text of a stack file with these values of the project's configuration. */
export function stackFileText(values: Values): string {
  const entries = Object.entries(values).map(([key, value]) => [`engine-room:${key}`, value]);
  return stringify({ config: Object.fromEntries(entries) });
}

/** Writes one into a folder, over the one before. @returns Its path. */
export function writtenStackFile(folder: string, values: Values): string {
  const file = join(folder, "stack.yaml");
  writeFileSync(file, stackFileText(values));
  return file;
}
