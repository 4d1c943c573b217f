/** The Pulumi CLI of this machine: its path, the backend of its login, and calls that only print. */
import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { errorWords, UserError } from "../errors.ts";
import { projectRoot } from "../program/stack-file.ts";

/** The backend of `pulumi login --local`: files in `~/.pulumi`. */
const LOCAL_BACKEND = "file://~";

/** A distant bucket answers in seconds. */
const TIMEOUT_MILLISECONDS = 120_000;
const MAX_OUTPUT_BYTES = 64 * 2 ** 20;

type Environment = NodeJS.ProcessEnv;

/** Absolute path of a program on PATH; undefined when it is missing. */
export function findProgram(name: string, { PATH = "" }: Environment = process.env): string | undefined {
  return (
    PATH.split(delimiter)
      // `npm run` and `npx` put node_modules/.bin first; the npm package `pulumi` there is a downloader, not the CLI.
      .filter((directory) => directory !== "" && !directory.endsWith(join("node_modules", ".bin")))
      .map((directory) => join(directory, name))
      .find(isExecutable)
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Address of the backend that the CLI uses, in its own order: `s3://bucket/folder`, `file:///folder`, `https://api.pulumi.com`. Read here,
 * because `pulumi whoami` asks Pulumi Cloud, and asks for a missing login.
 *
 * @param root - Folder of Pulumi.yaml.
 * @returns null without a login.
 */
export function loginUrl(environment: Environment = process.env, root: string = projectRoot): string | null {
  const project = parse(readFileSync(join(root, "Pulumi.yaml"), "utf8")) as { backend?: { url?: string } };
  const { PULUMI_BACKEND_URL, PULUMI_ACCESS_TOKEN, PULUMI_API = "https://api.pulumi.com" } = environment;
  const token = PULUMI_ACCESS_TOKEN ? PULUMI_API : null;
  return PULUMI_BACKEND_URL || project.backend?.url || storedLogin(environment) || token;
}

function storedLogin({ PULUMI_CREDENTIALS_PATH, PULUMI_HOME }: Environment): string | undefined {
  // Found as by the CLI, which ignores HOME.
  const folder = PULUMI_CREDENTIALS_PATH ?? PULUMI_HOME ?? join(userInfo().homedir, ".pulumi");
  try {
    return (JSON.parse(readFileSync(join(folder, "credentials.json"), "utf8")) as { current?: string })
      .current;
  } catch {
    return undefined;
  }
}

/** The backend whose stacks the commands work on. */
export function backendUrl(): string {
  return loginUrl() ?? LOCAL_BACKEND;
}

/** Beginning of a sentence; the running stack may be in another backend. */
export function noSuchStack(name: string): string {
  return `The backend ${backendUrl()} has no stack ${name}`;
}

/** Environment of a CLI that works on a backend. */
export function pulumiEnvironment(url: string): Record<string, string> {
  const { PULUMI_CONFIG_PASSPHRASE, PULUMI_CONFIG_PASSPHRASE_FILE } = process.env;
  return {
    PULUMI_BACKEND_URL: url,
    PULUMI_SKIP_UPDATE_CHECK: "true",
    // A stack file without `encryptionsalt` or `secretsprovider` uses the stack's own.
    PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER: "true",
    // A user with secrets in a stack file has set a passphrase, or has a backend that requires none.
    ...((PULUMI_CONFIG_PASSPHRASE ?? PULUMI_CONFIG_PASSPHRASE_FILE) === undefined
      ? { PULUMI_CONFIG_PASSPHRASE: "" }
      : {}),
  };
}

/** The CLI refused or failed; the message has its words. */
export class PulumiError extends UserError {
  override readonly name = "PulumiError";
  /** Earlier output, which has the CLI's words with `--json`. */
  readonly stdout: string;

  constructor(message: string, stdout = "") {
    super(message);
    this.stdout = stdout;
  }
}

/** Rejection of `execFile`; `killed` without a code after a timeout. */
interface ExecFileFailure {
  readonly stderr?: string;
  readonly stdout?: string;
  readonly code?: number | string | null;
  readonly killed?: boolean;
}

/**
 * Runs the CLI without questions, and without showing its output.
 *
 * @param executable - Path of the CLI.
 * @param url - Address of the backend.
 * @param cwd - Folder of Pulumi.yaml.
 * @param timeout - In milliseconds.
 * @returns Its standard output.
 * @throws PulumiError with its words if it fails.
 */
export async function runPulumi(
  executable: string,
  command: readonly string[],
  url: string,
  cwd: string = projectRoot,
  timeout: number = TIMEOUT_MILLISECONDS,
): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(executable, [...command, "--non-interactive"], {
      cwd,
      env: { ...process.env, ...pulumiEnvironment(url) },
      timeout,
      maxBuffer: MAX_OUTPUT_BYTES,
    });
    return stdout;
  } catch (error) {
    // Its own words, which are missing when it could not be started, or did not end.
    const { stderr = "", stdout = "", code, killed } = error as ExecFileFailure;
    const isLate = killed === true && code === null;
    const words = [isLate ? `it did not end within ${timeout / 1_000} seconds.` : "", stderr.trim()]
      .filter((part) => part !== "")
      .join("\n");
    const ending = typeof code === "number" ? `it ended with exit code ${code}.` : errorWords(error);
    throw new PulumiError(
      `\`pulumi ${command.slice(0, 2).join(" ")}\` failed: ${passphraseAdvice(words || ending)}`,
      stdout,
    );
  }
}

/** The CLI's words, with advice about a wrong passphrase. */
export function passphraseAdvice(words: string): string {
  if (!/incorrect passphrase|passphrase must be set/.test(words)) return words;
  return `${words}\nThe secrets of the stack are encrypted with another passphrase: set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE to it.`;
}
