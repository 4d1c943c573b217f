/** Talks to a stack's supervisord by XML-RPC over its Unix socket: http://supervisord.org/api.html. */
import { readFile, rm } from "node:fs/promises";
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { lastLines, runCommand } from "./commands.ts";
import { fromRoot, hasCode, projectRoot } from "./files.ts";
import { SUPERVISORD } from "./inputs.ts";
import { markOf } from "./orphans.ts";
import { supervisorFile } from "./process-files.ts";

/** States of http://supervisord.org/subprocess.html#process-states. */
export type ProgramState =
  | "STOPPED"
  | "STARTING"
  | "RUNNING"
  | "BACKOFF"
  | "STOPPING"
  | "EXITED"
  | "FATAL"
  | "UNKNOWN";

/** What is used here of the answer of getAllProcessInfo; times are seconds since 1970. */
export interface ProgramInfo {
  readonly name: string;
  readonly statename: ProgramState;
  /** 0 where it does not run. */
  readonly pid: number;
  readonly start: number;
  readonly now: number;
  readonly spawnerr: string;
}

/** http://supervisord.org/api.html and supervisor.xmlrpc.Faults. */
const FAULTS = { BAD_NAME: 10, ALREADY_STARTED: 60, NOT_RUNNING: 70, ALREADY_ADDED: 90, STILL_RUNNING: 91 };
type FaultName = keyof typeof FAULTS;

const RPC_TIMEOUT_SECONDS = 20;
// supervisord kills a program after its own stop time-out, of an hour at most.
const STOP_RPC_TIMEOUT_SECONDS = 3660;
const START_TIMEOUT_SECONDS = 60;

/** All programs of a stack; undefined where no supervisord answers. */
export async function programs(stackDirectory: string): Promise<readonly ProgramInfo[] | undefined> {
  return whereItAnswers(() => call(stackDirectory, "getAllProcessInfo") as Promise<ProgramInfo[]>);
}

/** Absolute path of the interpreter that runs the stack's supervisord; undefined where none answers. */
export async function supervisorInterpreter(stackDirectory: string): Promise<string | undefined> {
  const pid = await whereItAnswers(() => call(stackDirectory, "getPID"));
  if (pid === undefined) return undefined;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return commandLine.split("\0")[0];
}

/**
 * Stops a program, waits for its end and takes it out of supervisord; its files stay.
 *
 * @returns Whether a supervisord answers.
 */
export async function stopProgram(stackDirectory: string, name: string): Promise<boolean> {
  const stop = async () => {
    let removal: FaultName | undefined;
    do {
      await fault(call(stackDirectory, "stopProcess", name), "NOT_RUNNING", "BAD_NAME");
      removal = await fault(call(stackDirectory, "removeProcessGroup", name), "STILL_RUNNING", "BAD_NAME");
      // It was started again in between.
    } while (removal === "STILL_RUNNING");
    return true;
  };
  return (await whereItAnswers(stop)) ?? false;
}

/** Starts a stopped program by its written configuration. */
export async function startProgram(stackDirectory: string, name: string): Promise<void> {
  await call(stackDirectory, "reloadConfig");
  await fault(call(stackDirectory, "addProcessGroup", name), "ALREADY_ADDED");
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
  const result = await runCommand(
    [fromRoot(python), "-I", "-m", "supervisor.supervisord", "-c", configuration],
    {
      cwd: projectRoot(),
      environment: { ...environment, ...markOf(stackDirectory, SUPERVISORD) },
      timeoutSeconds: START_TIMEOUT_SECONDS,
    },
  );
  if (result.exitCode !== 0)
    throw new Error(`supervisord did not start: ${lastLines(result.stderr || result.stdout, 8)}`);
  await call(stackDirectory, "getPID");
}

/** Tells supervisord to end, which stops its programs. A signal would reach it up to a second later. */
export async function shutDownSupervisor(stackDirectory: string): Promise<void> {
  await whereItAnswers(() => call(stackDirectory, "shutdown"));
}

class RpcFault extends Error {
  readonly code: number;

  constructor({ faultCode, faultString }: { readonly faultCode: number; readonly faultString: string }) {
    super(`supervisord refused: ${faultString}.`);
    this.code = faultCode;
  }
}

/** Waits for an answer. @returns Which of the accepted faults it was, if it was a fault. */
async function fault(answer: Promise<unknown>, ...accepted: FaultName[]): Promise<FaultName | undefined> {
  try {
    await answer;
    return undefined;
  } catch (error) {
    const name = error instanceof RpcFault && accepted.find((known) => FAULTS[known] === error.code);
    if (name) return name;
    throw error;
  }
}

/** Undefined where no supervisord listens at the socket, or ends before it has answered. */
async function whereItAnswers<T>(action: () => Promise<T>): Promise<T | undefined> {
  return action().catch((error: unknown) => {
    if (hasCode(error, "ENOENT", "ECONNREFUSED", "ECONNRESET")) return undefined;
    throw error;
  });
}

async function call(
  stackDirectory: string,
  method: string,
  ...params: readonly (string | boolean)[]
): Promise<unknown> {
  const values = params.map((value) =>
    typeof value === "string" ? `<string>${value}</string>` : `<boolean>${Number(value)}</boolean>`,
  );
  const body = `<?xml version="1.0"?><methodCall><methodName>supervisor.${method}</methodName><params>${values.map((value) => `<param><value>${value}</value></param>`).join("")}</params></methodCall>`;
  const timeoutSeconds = method === "stopProcess" ? STOP_RPC_TIMEOUT_SECONDS : RPC_TIMEOUT_SECONDS;
  const answer = await new Promise<string>((resolve, reject) => {
    const options = {
      socketPath: fromRoot(supervisorFile(stackDirectory, "supervisord.sock")),
      path: "/RPC2",
      method: "POST",
      headers: { "content-type": "text/xml", "content-length": Buffer.byteLength(body) },
      agent: false,
      signal: AbortSignal.timeout(timeoutSeconds * 1000),
    };
    request(options, (response) => text(response).then(resolve, reject))
      .on("error", reject)
      .end(body);
  });
  const value = decodeXmlRpc(answer);
  if (answer.includes("<fault>")) throw new RpcFault(value as { faultCode: number; faultString: string });
  return value;
}

const ENTITIES: Readonly<Record<string, string>> = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
const BRACKETS: Readonly<Record<string, string>> = {
  "<struct>": "{",
  "</struct>": "}",
  "<array>": "[",
  "</array>": "]",
};
const XML_TOKENS =
  /<(name|string|int|boolean)>([^<]*)<\/\1>|(<\/member>\s*<member>|<\/value>\s*<value>)|<[^>]*>|\s+/g;

/** The value of an answer: each token of its XML becomes one of JSON, or nothing. http://xmlrpc.com/spec.md */
function decodeXmlRpc(xml: string): unknown {
  const json = xml.replace(
    XML_TOKENS,
    (token, type: string | undefined, content: string, between: string | undefined) => {
      if (between !== undefined) return ",";
      if (type === undefined) return BRACKETS[token] ?? "";
      if (type === "int") return content;
      if (type === "boolean") return String(content === "1");
      const plain = content.replace(/&(?:lt|gt|amp);/g, (entity) => ENTITIES[entity] ?? entity);
      return type === "name" ? `${JSON.stringify(plain)}:` : JSON.stringify(plain);
    },
  );
  return JSON.parse(json);
}
