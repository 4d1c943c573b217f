/**
 * Controls the processes of a stack: through its supervisord, by XML-RPC over its Unix socket (http://supervisord.org/api.html), and by
 * signals without a supervisord.
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { request } from "node:http";
import { basename } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { runOrThrow } from "./commands.ts";
import { fromRoot, hasCode, orWhenMissing, projectRoot, removeEmptyUpwards } from "./files.ts";
import { type Ports, type ProcessInputs, SUPERVISORD } from "./inputs.ts";
import { logFile, markOf, readRecord, recordedNames, startCount, supervisorFile } from "./process-files.ts";

/** Part of the answer of getAllProcessInfo; times are seconds since 1970. */
export interface ProgramInfo {
  readonly name: string;
  /** Such as RUNNING: http://supervisord.org/subprocess.html#process-states. */
  readonly statename: string;
  /** 0 if it does not run. */
  readonly pid: number;
  readonly start: number;
  readonly now: number;
  readonly spawnerr: string;
}

const RPC_TIMEOUT_SECONDS = 20;
const STOP_GRACE_SECONDS = 60;
const START_TIMEOUT_SECONDS = 60;
const POLL_MILLISECONDS = 50;

/** All programs of a stack; undefined if no supervisord answers. */
async function programs(stackDirectory: string): Promise<readonly ProgramInfo[] | undefined> {
  const infos: Promise<unknown> = whereItAnswers(() => call(stackDirectory, "getAllProcessInfo"));
  return infos as Promise<ProgramInfo[] | undefined>;
}

/** Undefined if no supervisord answers, or the program is unknown to it. */
export async function programInfo(stackDirectory: string, name: string): Promise<ProgramInfo | undefined> {
  return (await programs(stackDirectory))?.find((program) => program.name === name);
}

interface ProcessStatus {
  readonly name: string;
  /**
   * supervisord's state, but RUNNING from the first second on, which it calls STARTING for a while. UNSUPERVISED if no supervisord
   * answers, so that the process is not restarted.
   */
  readonly state: string;
  /** Absent if it does not run. */
  readonly pid?: number;
  /** Since its last start; absent if it does not run. */
  readonly uptimeSeconds?: number;
  /** How often it was started again since it was configured. */
  readonly restarts: number;
  readonly ports: Ports;
  /** Relative to the project's root. */
  readonly logFile: string;
}

/** All processes of a stack by name; empty for a missing stack. `stack`: its folder, or just its name. */
export async function stackStatus(stack: string): Promise<ProcessStatus[]> {
  const stackDirectory = `.stacks/${basename(stack)}`;
  const infos = await programs(stackDirectory);
  const stateOf = (state = "STOPPED") => (state === "STARTING" ? "RUNNING" : state);
  return Promise.all(
    (await recordedNames(stackDirectory)).map(async (name) => {
      const info = infos?.find((program) => program.name === name);
      return {
        name,
        state: infos === undefined ? "UNSUPERVISED" : stateOf(info?.statename),
        ...(info === undefined || info.pid === 0
          ? {}
          : { pid: info.pid, uptimeSeconds: Math.max(0, info.now - info.start) }),
        restarts: Math.max(0, (await startCount(stackDirectory, name)) - 1),
        ports: (await readRecord(stackDirectory, name))?.ports ?? {},
        logFile: logFile(stackDirectory, name),
      };
    }),
  );
}

/**
 * For the end of `down`, when the state holds nothing any more: ends every process of the stack and removes all files
 * of its folder but `keep` (names in the folder). A killed `up` may have made processes and files that the state does not have.
 */
export async function sweepStack(stack: string, keep: readonly string[]): Promise<void> {
  const stackDirectory = `.stacks/${basename(stack)}`;
  await endOrphans(stackDirectory);
  for (const entry of await readdir(fromRoot(stackDirectory)).catch(orWhenMissing([])))
    if (!keep.includes(entry)) await rm(fromRoot(stackDirectory, entry), { recursive: true, force: true });
  await removeEmptyUpwards(fromRoot(stackDirectory));
}

/**
 * Stops a program, waits for its end and takes it out of supervisord; its files stay.
 *
 * @returns Whether a supervisord answers.
 */
export async function stopProgram({
  stackDirectory,
  name,
  stopTimeoutSeconds,
}: ProcessInputs): Promise<boolean> {
  // An earlier configuration may have given it more time.
  const limitSeconds = stopTimeoutSeconds + STOP_GRACE_SECONDS;
  const end = performance.now() + limitSeconds * 1000;
  const stop = async () => {
    for (;;) {
      await fault(call(stackDirectory, "stopProcess", name, false), "NOT_RUNNING", "BAD_NAME");
      const removal = call(stackDirectory, "removeProcessGroup", name);
      if ((await fault(removal, "STILL_RUNNING", "BAD_NAME")) !== "STILL_RUNNING") return true;
      if (performance.now() > end) throw new Error(`${name} did not stop within ${limitSeconds} s.`);
      await sleep(POLL_MILLISECONDS);
    }
  };
  return (await whereItAnswers(stop)) ?? false;
}

/** Starts a stopped program by its written configuration. */
export async function startProgram(stackDirectory: string, name: string): Promise<void> {
  await call(stackDirectory, "reloadConfig");
  await call(stackDirectory, "addProcessGroup", name);
  await fault(call(stackDirectory, "startProcess", name, false), "ALREADY_STARTED");
}

/** Starts a supervisord, and with it every program that has a configuration. */
export async function startSupervisor(stackDirectory: string, python: string): Promise<void> {
  await rm(fromRoot(supervisorFile(stackDirectory, "supervisord.sock")), { force: true });
  const kept = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
  const environment = Object.fromEntries(
    kept.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
  const configuration = supervisorFile(stackDirectory, "supervisord.conf");
  // It returns when the daemon listens.
  await runOrThrow([fromRoot(python), "-I", "-m", "supervisor.supervisord", "-c", configuration], {
    purpose: "starting supervisord",
    paths: [fromRoot(stackDirectory)],
    cwd: projectRoot(),
    environment: { ...environment, ...markOf(stackDirectory, SUPERVISORD) },
    timeoutSeconds: START_TIMEOUT_SECONDS,
  });
  await call(stackDirectory, "getPID");
}

/** Tells supervisord to end, which stops its programs. A signal would reach it up to a second later. */
export async function shutDownSupervisor(stackDirectory: string): Promise<void> {
  await whereItAnswers(() => call(stackDirectory, "shutdown"));
}

class RpcFault extends Error {
  /** Such as NOT_RUNNING: the names of supervisor.xmlrpc.Faults. */
  readonly fault: string;

  constructor(description: string) {
    super(`supervisord refused: ${description}.`);
    this.fault = description.split(":")[0] ?? "";
  }
}

/** Waits for an answer. @returns Which of the accepted faults it was, if it was a fault. */
async function fault(answer: Promise<unknown>, ...accepted: readonly string[]): Promise<string | undefined> {
  try {
    await answer;
    return undefined;
  } catch (error) {
    if (error instanceof RpcFault && accepted.includes(error.fault)) return error.fault;
    throw error;
  }
}

/** Undefined if no supervisord listens at the socket, or ends before it has answered. */
async function whereItAnswers<T>(action: () => Promise<T>): Promise<T | undefined> {
  return action().catch((error: unknown) => {
    if (hasCode(error, "ENOENT", "ECONNREFUSED", "ECONNRESET")) return undefined;
    throw error;
  });
}

/** @param params - Nothing in them may need an entity of XML. @returns The structs of the answer. */
async function call(
  stackDirectory: string,
  method: string,
  ...params: readonly (string | false)[]
): Promise<ReturnType<typeof decodeStructs>> {
  const values = params.map((value) =>
    value === false ? "<boolean>0</boolean>" : `<string>${value}</string>`,
  );
  const list = values.map((value) => `<param><value>${value}</value></param>`).join("");
  const body = `<methodCall><methodName>supervisor.${method}</methodName><params>${list}</params></methodCall>`;
  const options = {
    socketPath: fromRoot(supervisorFile(stackDirectory, "supervisord.sock")),
    path: "/RPC2",
    method: "POST",
    headers: { "content-type": "text/xml", "content-length": Buffer.byteLength(body) },
    agent: false,
    signal: AbortSignal.timeout(RPC_TIMEOUT_SECONDS * 1000),
  };
  const answer = await new Promise<string>((resolve, reject) => {
    request(options, (response) => text(response).then(resolve, reject))
      .on("error", reject)
      .end(body);
  }).catch((error: unknown) => {
    if (!hasCode(error, "ABORT_ERR")) throw error;
    throw new Error(`supervisord of ${stackDirectory} did not answer within ${RPC_TIMEOUT_SECONDS} s.`);
  });
  const structs = decodeStructs(answer);
  if (answer.includes("<fault>")) throw new RpcFault(String(structs[0]?.faultString));
  return structs;
}

const ENTITIES: Readonly<Record<string, string>> = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
const MEMBER = /<name>([^<]*)<\/name>\s*<value><(string|int)>([^<]*)<\//g;

/** The structs of an answer (http://xmlrpc.com/spec.md): those of supervisord hold only texts and numbers. */
export function decodeStructs(xml: string): Record<string, string | number>[] {
  return xml
    .split("<struct>")
    .slice(1)
    .map((struct) =>
      Object.fromEntries(
        [...struct.matchAll(MEMBER)].map(([, name = "", type, content = ""]) => [
          name,
          type === "int"
            ? Number(content)
            : content.replace(/&(?:lt|gt|amp);/g, (entity) => ENTITIES[entity] ?? entity),
        ]),
      ),
    );
}

/** Signals in order, with the time to wait after each. */
const SIGNALS = [
  ["SIGTERM", 15],
  ["SIGKILL", 5],
] as const;

interface MarkedProcess {
  readonly pid: number;
  readonly name: string;
}

/**
 * Ends processes of a stack that no supervisord stops, and waits until they are gone.
 *
 * @param names - All processes of the stack if it is absent.
 * @returns How many there were.
 */
export async function endOrphans(stackDirectory: string, names?: readonly string[]): Promise<number> {
  let left = await findMarked(stackDirectory, names);
  const count = left.length;
  for (const [signal, seconds] of SIGNALS) {
    const end = performance.now() + seconds * 1000;
    const signalled = new Set<number>();
    while (left.length > 0 && performance.now() < end) {
      for (const { pid } of left.filter((process) => !signalled.has(process.pid))) {
        sendSignal(pid, signal);
        signalled.add(pid);
      }
      await sleep(POLL_MILLISECONDS);
      left = await findMarked(stackDirectory, names);
    }
  }
  if (left.length === 0) return count;
  const who = left.map(({ pid, name }) => `${name} (pid ${pid})`).join(", ");
  throw new Error(`${who} of ${stackDirectory} can't be stopped; stop it and run the command again.`);
}

/** supervisord first: it would start the others again. */
async function findMarked(
  stackDirectory: string,
  names: readonly string[] | undefined,
): Promise<MarkedProcess[]> {
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry)).map(Number);
  const { ENGINE_ROOM_STACK: stack } = markOf(stackDirectory, "");
  const processes = await Promise.all(
    pids.map(async (pid) => {
      const variables = (await environmentOf(pid)).split("\0");
      if (!variables.includes(`ENGINE_ROOM_STACK=${stack}`)) return [];
      const name = variables.find((variable) => variable.startsWith("ENGINE_ROOM_PROCESS="))?.split("=")[1];
      return name === undefined || names?.includes(name) === false ? [] : [{ pid, name }];
    }),
  );
  return processes.flat().toSorted((a, b) => Number(b.name === SUPERVISORD) - Number(a.name === SUPERVISORD));
}

/** Empty for a process that is gone, has ended, or belongs to another user. */
async function environmentOf(pid: number): Promise<string> {
  return readFile(`/proc/${pid}/environ`, "utf8").catch((error: unknown) => {
    if (hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return "";
    throw error;
  });
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}
