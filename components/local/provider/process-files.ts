/**
 * Files of the processes of a stack, all in the stack's folder; they are removed with the last process.
 *
 *     supervisor/supervisord.conf  .sock  .pid  .log    mode 0700: who can enter the folder controls the processes
 *     supervisor/conf.d/NAME.conf                       a program as supervisord sees it
 *     supervisor/launch.py
 *     supervisor/programs/NAME.json                     the program that launch.py starts
 *     supervisor/programs/NAME.starts                   one byte for each start of the program since it was configured
 *     processes/NAME/                                   its files
 *     logs/NAME.log                                     rotated ones: NAME.log.1, NAME.log.2, …
 *
 * Command and environment of a program are not in supervisord's configuration, whose format has no line break or " ;" in
 * a value and expands `%`: names and numbers are left there, which need no quoting.
 */
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { jsonDigest } from "../../../infra/plan/plain-data.ts";
import {
  fileBytes,
  fromRoot,
  listFiles,
  orWhenMissing,
  projectRoot,
  removeEmptyUpwards,
  writeWhole,
} from "./files.ts";
import type { Ports, ProcessInputs } from "./inputs.ts";

// A program that ends within this time has failed to start, and is tried again after 1, 2, 3, … seconds.
const START_SECONDS = 10;
const START_RETRIES = 8;

/**
 * Variables of every process of a stack, by which processes of a killed supervisord are found; `name` is `supervisord`
 * for supervisord itself.
 */
export function markOf(stackDirectory: string, name: string): Readonly<Record<string, string>> {
  return { ENGINE_ROOM_STACK: fromRoot(stackDirectory), ENGINE_ROOM_PROCESS: name };
}

/** Path from the project's root, the working folder of supervisord and of every program. */
export function supervisorFile(stackDirectory: string, file: string): string {
  return `${stackDirectory}/supervisor/${file}`;
}

/** Path from the project's root. */
export function logFile(stackDirectory: string, name: string): string {
  return `${stackDirectory}/logs/${name}.log`;
}

/** How often the program was started since it was configured. */
export async function startCount(stackDirectory: string, name: string): Promise<number> {
  return fileBytes(fromRoot(supervisorFile(stackDirectory, `programs/${name}.starts`)));
}

/** The first three are for launch.py; the rest is for later runs. */
interface ProcessRecord {
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Folder that comes first on PATH, absolute. */
  readonly pathPrefix: string;
  readonly ports: Ports;
  /** `recordDigest`: tells whether the state describes the running process. */
  readonly digest: string;
}

export function recordDigest(inputs: ProcessInputs, ports: Ports): string {
  return jsonDigest({ inputs, ports });
}

/** The record as last written, whether the process runs or not. */
export async function readRecord(stackDirectory: string, name: string): Promise<ProcessRecord | undefined> {
  const path = fromRoot(supervisorFile(stackDirectory, `programs/${name}.json`));
  const text = await readFile(path, "utf8").catch(orWhenMissing(undefined));
  return text === undefined ? undefined : (JSON.parse(text) as ProcessRecord);
}

/** Names of all processes that have a record, sorted. */
export async function recordedNames(stackDirectory: string): Promise<string[]> {
  const folder = fromRoot(supervisorFile(stackDirectory, "programs"));
  const entries = await readdir(folder).catch(orWhenMissing([]));
  return entries
    .filter((entry) => entry.endsWith(".json"))
    .map((entry) => entry.slice(0, -5))
    .toSorted();
}

/** Ports of all processes of all stacks of the project but this one, with the process that has each. */
export async function claimedPorts(stackDirectory: string, name: string): Promise<Map<number, string>> {
  const claimed = new Map<number, string>();
  for (const entry of await readdir(fromRoot(".stacks")).catch(orWhenMissing([]))) {
    const stack = `.stacks/${entry}`;
    for (const other of await recordedNames(stack)) {
      if (stack === stackDirectory && other === name) continue;
      const record = await readRecord(stack, other);
      for (const port of Object.values(record?.ports ?? {})) claimed.set(port, `${stack}/${other}`);
    }
  }
  return claimed;
}

/** Fills `{port.NAME}` and `{root}`; anything else in braces is left as it is. */
export function fillPlaceholders(text: string, ports: Ports): string {
  return text.replace(/\{(?:port\.([A-Za-z0-9_-]+)|root)\}/g, (placeholder, port: string | undefined) => {
    if (port === undefined) return projectRoot();
    if (ports[port] === undefined)
      throw new Error(`${placeholder} names a port that requestedPorts does not have.`);
    return String(ports[port]);
  });
}

/** Writes all that supervisord and the program read. The program must not run. */
export async function writeProcess(inputs: ProcessInputs, ports: Ports): Promise<void> {
  const { stackDirectory, name, python } = inputs;
  const own = (file: string) => fromRoot(supervisorFile(stackDirectory, file));
  const write = (path: string, text: string) => writeWhole(path, text, 0o600);
  await mkdir(own(""), { recursive: true, mode: 0o700 });
  // supervisord refuses a program whose log folder does not exist.
  await mkdir(fromRoot(stackDirectory, "logs"), { recursive: true });

  const files = fromRoot(stackDirectory, "processes", name);
  for (const [file, text] of Object.entries(inputs.files)) await write(join(files, file), text);
  for (const file of await listFiles(files))
    if (inputs.files[file] === undefined) await rm(join(files, file));

  await write(own("supervisord.conf"), supervisorConfiguration(stackDirectory));
  await rm(own(`programs/${name}.starts`), { force: true });
  await write(own("launch.py"), await readFile(join(import.meta.dirname, "launch.py"), "utf8"));
  const filled = Object.entries(inputs.environment).map(([key, text]) => [
    key,
    fillPlaceholders(text, ports),
  ]);
  const record: ProcessRecord = {
    argv: inputs.command.map((text) => fillPlaceholders(text, ports)),
    environment: { ...Object.fromEntries(filled), ...markOf(stackDirectory, name) },
    pathPrefix: dirname(fromRoot(python)),
    ports,
    digest: recordDigest(inputs, ports),
  };
  await write(own(`programs/${name}.json`), JSON.stringify(record));
  await write(own(`conf.d/${name}.conf`), programConfiguration(inputs));
}

// The pattern is safe: a project's path has no character that means something in patterns (`isUsableRoot`).
function supervisorConfiguration(stackDirectory: string): string {
  const own = (file: string) => supervisorFile(stackDirectory, file);
  return `[supervisord]
logfile=${own("supervisord.log")}
logfile_maxbytes=1MB
logfile_backups=1
pidfile=${own("supervisord.pid")}
childlogdir=${stackDirectory}/supervisor
nocleanup=true
umask=077

[unix_http_server]
file=${own("supervisord.sock")}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[include]
files=conf.d/*.conf
`;
}

function programConfiguration(inputs: ProcessInputs): string {
  const { stackDirectory, name } = inputs;
  const own = (file: string) => supervisorFile(stackDirectory, file);
  return `[program:${name}]
command=${inputs.python} -I ${own("launch.py")} ${own(`programs/${name}.json`)}
autostart=true
autorestart=true
startsecs=${START_SECONDS}
startretries=${START_RETRIES}
priority=${inputs.priority}
stopsignal=TERM
stopwaitsecs=${inputs.stopTimeoutSeconds}
stopasgroup=true
killasgroup=true
redirect_stderr=true
stdout_logfile=${logFile(stackDirectory, name)}
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=3
`;
}

/** Removes all files of a process. */
export async function removeProcessFiles(stackDirectory: string, name: string): Promise<void> {
  const logs = fromRoot(stackDirectory, "logs");
  const processes = fromRoot(stackDirectory, "processes");
  const isLog = new RegExp(`^${name}\\.log(\\.\\d+)?$`);
  for (const entry of await readdir(logs).catch(orWhenMissing([])))
    if (isLog.test(entry)) await rm(join(logs, entry), { force: true });
  await rm(join(processes, name), { recursive: true, force: true });
  await removeEmptyUpwards(processes);
  for (const file of [`conf.d/${name}.conf`, `programs/${name}.json`, `programs/${name}.starts`])
    await rm(fromRoot(supervisorFile(stackDirectory, file)), { force: true });
}

/** Removes supervisord's own files. */
export async function removeSupervisorFiles(stackDirectory: string): Promise<void> {
  await rm(fromRoot(stackDirectory, "supervisor"), { recursive: true, force: true });
  await removeEmptyUpwards(fromRoot(stackDirectory, "logs"));
}
