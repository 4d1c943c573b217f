/** What is written for a process: the record that its launcher reads and that later runs compare with. */
import { copyFile, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { jsonDigest } from "../../../infra/plan/canonical-json.ts";
import type { ProcessInputs } from "../types.ts";
import { fromRoot, listFiles, orWhenMissing, projectRoot, replaceWhole, writeWhole } from "./files.ts";
import { PROCESS_VARIABLE, STACK_VARIABLE } from "./orphans.ts";
import { fillPlaceholders } from "./placeholders.ts";
import { renderProgram, renderSupervisor } from "./supervisor-conf.ts";
import { launchesFile, recordFile, supervisorLayout } from "./supervisor-layout.ts";

export type Ports = Readonly<Record<string, number>>;

/** The first four are for launch.py. */
export interface ProcessRecord {
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Folder that comes first on PATH, absolute. */
  readonly pathPrefix: string;
  readonly launches: string;
  readonly python: string;
  readonly ports: Ports;
  /** Of the inputs and ports: tells whether what runs is what the state says. */
  readonly digest: string;
}

export function recordDigest(inputs: ProcessInputs, ports: Ports): string {
  return jsonDigest({ inputs, ports });
}

/** The record as last written, whether the process runs or not. */
export async function readRecord(stackDirectory: string, name: string): Promise<ProcessRecord | undefined> {
  const text = await readFile(recordFile(stackDirectory, name), "utf8").catch(orWhenMissing(undefined));
  return text === undefined ? undefined : (JSON.parse(text) as ProcessRecord);
}

/** Names of all processes that have a record, sorted. */
export async function recordedNames(stackDirectory: string): Promise<string[]> {
  const folder = fromRoot(supervisorLayout(stackDirectory).records);
  const entries = await readdir(folder).catch(orWhenMissing([]));
  return entries
    .filter((entry) => entry.endsWith(".json"))
    .map((entry) => entry.slice(0, -5))
    .toSorted();
}

/** Ports of all processes of all stacks of the project but this one, with the process that has each. */
export async function claimedPorts(stackDirectory: string, name: string): Promise<Map<number, string>> {
  const stacks = (await readdir(fromRoot(".stacks")).catch(orWhenMissing([]))).map(
    (stack) => `.stacks/${stack}`,
  );
  const claimed = new Map<number, string>();
  for (const stack of stacks)
    for (const other of await recordedNames(stack)) {
      if (stack === stackDirectory && other === name) continue;
      const record = await readRecord(stack, other);
      for (const port of Object.values(record?.ports ?? {})) claimed.set(port, `${stack}/${other}`);
    }
  return claimed;
}

/** Writes all that supervisord and the program read. The program must not run. */
export async function writeProcess(inputs: ProcessInputs, ports: Ports): Promise<void> {
  const layout = supervisorLayout(inputs.stackDirectory);
  await mkdir(fromRoot(layout.supervisor), { recursive: true, mode: 0o700 });
  await writeFiles(fromRoot(layout.processes, inputs.name), inputs.files);
  await writeWhole(fromRoot(layout.supervisor, "base.conf"), renderSupervisor(inputs.stackDirectory), 0o600);
  await replaceWhole(fromRoot(layout.launcher), (to) => copyFile(join(import.meta.dirname, "launch.py"), to));
  await rm(launchesFile(inputs.stackDirectory, inputs.name), { force: true });
  const record = JSON.stringify(processRecord(inputs, ports));
  await writeWhole(recordFile(inputs.stackDirectory, inputs.name), record, 0o600);
  await writeWhole(
    fromRoot(layout.programConfigurations, `${inputs.name}.conf`),
    renderProgram(inputs),
    0o600,
  );
}

function processRecord(inputs: ProcessInputs, ports: Ports): ProcessRecord {
  const fill = (text: string) => fillPlaceholders(text, { ports, root: projectRoot() });
  const environment = Object.entries(inputs.environment).map(([key, value]) => [key, fill(value)]);
  return {
    argv: inputs.command.map(fill),
    environment: {
      ...Object.fromEntries(environment),
      [STACK_VARIABLE]: fromRoot(inputs.stackDirectory),
      [PROCESS_VARIABLE]: inputs.name,
    },
    pathPrefix: dirname(fromRoot(inputs.python)),
    launches: `${supervisorLayout(inputs.stackDirectory).records}/${inputs.name}.launches`,
    python: inputs.python,
    ports,
    digest: recordDigest(inputs, ports),
  };
}

async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeWhole(join(folder, name), text, 0o600);
  for (const name of await listFiles(folder)) if (files[name] === undefined) await rm(join(folder, name));
}
