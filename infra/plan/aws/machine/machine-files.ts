/** Programs and units of the machine: files beside this one, which shellcheck and systemd-analyze read as they are. */
import { readFileSync } from "node:fs";

type MachineFileName =
  | "engine-room.format-databases.service"
  | "engine-room.service"
  | "engine-room.sh"
  | "format-databases.sh"
  | "srv-databases.mount"
  | "task.sh"
  | "user-data.sh";

const texts = new Map<MachineFileName, string>();

/** Text of a file, read once. */
export function machineFile(name: MachineFileName): string {
  const known = texts.get(name);
  if (known !== undefined) return known;
  const text = readFileSync(new URL(name, import.meta.url), "utf8");
  texts.set(name, text);
  return text;
}

/** `NAME='value'` for a shell, one a line. */
export function shellVariables(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}='${String(value).replaceAll("'", "'\\''")}'\n`)
    .join("");
}
