/** All requests of commands to a host: to its Docker engine, and by scripts that only read. */
import { spawn } from "node:child_process";

export interface ProbeAnswer {
  /** null when the program is missing, or did not answer in time. */
  readonly exitCode: number | null;
  readonly stdout: string;
  /** With the reason if `exitCode` is null. */
  readonly stderr: string;
}

/** Last line of a failed program's output, with its reason; may be empty. */
export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}

export interface HostProbe {
  /** As the stack file has it; null for this machine without Docker. */
  readonly uri: string | null;
  /** Runs this machine's Docker CLI with the host's engine. */
  docker(args: readonly string[]): Promise<ProbeAnswer>;
  /** Runs a script of POSIX sh on the host. It must change nothing. */
  shell(script: string): Promise<ProbeAnswer>;
}

/** `ssh://user@host:port` as words of ssh; undefined for a URI of another scheme. */
export function sshDestination(uri: string): readonly string[] | undefined {
  if (!uri.startsWith("ssh://")) return undefined;
  const { username, hostname, port } = new URL(uri);
  const host = hostname.replace(/^\[|\]$/g, "");
  return [...(port === "" ? [] : ["-p", port]), `${decodeURIComponent(username)}@${host}`];
}

/** A question takes milliseconds on this machine, and a second or two over ssh. */
const TIMEOUT_MILLISECONDS = 30_000;

/** ssh never asks for a password, and an unreachable host is an error after 10 s. */
const SSH_OPTIONS = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"] as const;

/** @param uri - `unix:///PATH`, `ssh://USER@HOST`, or null for this machine. */
export function hostProbe(uri: string | null): HostProbe {
  const destination = uri === null ? undefined : sshDestination(uri);
  return {
    uri,
    docker: (args) => probeProgram(["docker", ...args], "", uri === null ? {} : { DOCKER_HOST: uri }),
    shell: (script) =>
      probeProgram(
        destination === undefined ? ["sh", "-s"] : ["ssh", ...SSH_OPTIONS, ...destination, "sh", "-s"],
        script,
      ),
  };
}

/** Runs a program with an input. Never throws: a missing program is an answer too. */
export function probeProgram(
  [program = "", ...args]: readonly string[],
  input: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      env: { ...process.env, LC_ALL: "C", ...environment },
      stdio: ["pipe", "pipe", "pipe"],
    });
    const text = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (data: string) => {
        text[name] += data;
      });
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      text.stderr += `${program} did not answer within ${TIMEOUT_MILLISECONDS / 1000} s`;
    }, TIMEOUT_MILLISECONDS);
    child.on("error", (error) => {
      clearTimeout(timer);
      resolve({ exitCode: null, stdout: "", stderr: error.message });
    });
    child.on("close", (exitCode) => {
      clearTimeout(timer);
      resolve({ exitCode, ...text });
    });
    // A program that ends without reading closes the pipe; its exit code says the rest.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}
