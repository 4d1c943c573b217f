/** A Docker engine of the tests' own: Debian's dockerd on a socket and in a folder that no one else uses. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../../components/local/provider/commands.ts";
import { missingPrograms } from "../../../scripts/setup/system-packages.ts";
import { eventually } from "../stack.ts";
import { DockerApi } from "./api.ts";
import { standInPrograms } from "./stand-ins.ts";

const START_TIMEOUT_SECONDS = 60;
const STOP_TIMEOUT_SECONDS = 60;

export interface Engine {
  readonly socketPath: string;
  /** For whatever belongs to the tests; goes with the engine. */
  readonly directory: string;
  /** Removes containers, images and volumes with everything else. */
  stop(): Promise<void>;
}

/** The engine, or the reason why it can't start. */
export async function startEngine(): Promise<Engine | { readonly reason: string }> {
  const reason = await whyNot();
  if (reason !== undefined) return { reason };
  await removeAbandonedFolders();
  // Both programs make sockets of long names below it, and those may have 107 bytes.
  const directory = mkdtempSync(join(tmpdir(), `${FOLDER_PREFIX}${process.pid}-`));
  const restoreForwarding = allowForwarding();
  const dockerd = spawnEngine(directory);
  const stop = async () => {
    await end(dockerd);
    await removeFolder(directory);
    restoreForwarding();
  };
  const socketPath = socketIn(directory);
  try {
    await eventually(async () => {
      if (dockerd.exitCode !== null) return "ended" as const;
      await new DockerApi(socketPath).ping();
      return "answers" as const;
    }, START_TIMEOUT_SECONDS);
    if (dockerd.exitCode === null) return { socketPath, directory, stop };
    throw new Error(`dockerd ended with exit code ${dockerd.exitCode}`);
  } catch (error) {
    const log = readFileSync(logIn(directory), "utf8").trim().split("\n").slice(-3).join(" | ");
    await stop();
    return { reason: `${(error as Error).message}; its log ends with: ${log}` };
  }
}

const FOLDER_PREFIX = "engine-room-docker-";
const socketIn = (directory: string) => join(directory, "docker.sock");
const pidFileIn = (directory: string) => join(directory, "docker.pid");
const logIn = (directory: string) => join(directory, "dockerd.log");

async function whyNot(): Promise<string | undefined> {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "an engine takes Linux and root";
  const missing = missingPrograms("docker").map(({ path }) => path);
  if (missing.length > 0)
    return `${missing.join(", ")} not found; as root, --yes (or CI=true) installs what is missing`;
  const others = await otherContainers();
  return others === 0
    ? undefined
    : `another Docker engine of this machine has ${others} containers, and a second one would rewrite their firewall rules`;
}

/** Number of containers of this machine's own engine, if it has one. */
async function otherContainers(): Promise<number> {
  try {
    return (await new DockerApi("/var/run/docker.sock").containers()).length;
  } catch {
    return 0;
  }
}

/**
 * Turns forwarding on before dockerd does, which would then drop all traffic that it does not itself forward, for good.
 *
 * @returns A function that restores the setting.
 */
function allowForwarding(): () => void {
  const file = "/proc/sys/net/ipv4/ip_forward";
  const before = readFileSync(file, "utf8");
  if (before.trim() === "1") return () => {};
  writeFileSync(file, "1");
  return () => writeFileSync(file, before);
}

function spawnEngine(directory: string): ChildProcess {
  const programs = standInPrograms(join(directory, "bin"));
  const log = openSync(logIn(directory), "a");
  const dockerd = [
    ...["dockerd", "--host", `unix://${socketIn(directory)}`, "--pidfile", pidFileIn(directory)],
    ...["--data-root", join(directory, "data"), "--exec-root", join(directory, "exec")],
    // Packets larger than the machine's own MTU would be lost.
    ...["--mtu", `${mtuOfDefaultRoute()}`],
  ];
  try {
    // It stops, and its containers with it, even when this process is killed.
    return spawn("setpriv", ["--pdeathsig", "TERM", "--", ...dockerd], {
      stdio: ["ignore", log, log],
      env: { ...process.env, PATH: `${programs}:/usr/sbin:/usr/bin:${process.env.PATH}` },
    });
  } finally {
    closeSync(log);
  }
}

function mtuOfDefaultRoute(): number {
  const routes = readFileSync("/proc/net/route", "utf8").trim().split("\n").slice(1);
  const name = routes.map((line) => line.split("\t")).find((fields) => fields[1] === "00000000")?.[0];
  const file = `/sys/class/net/${name}/mtu`;
  return existsSync(file) ? Number(readFileSync(file, "utf8")) : 1500;
}

async function end(engine: ChildProcess): Promise<void> {
  if (engine.exitCode !== null || engine.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => engine.once("exit", () => resolve()));
  const timer = setTimeout(() => engine.kill("SIGKILL"), STOP_TIMEOUT_SECONDS * 1000);
  engine.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

/** Removes an engine's folder, and file systems that a killed engine has left mounted in it. */
async function removeFolder(directory: string): Promise<void> {
  const mounts = readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .flatMap((line) => line.split(" ")[1] ?? [])
    .filter((path) => path.startsWith(`${directory}/`));
  for (const mount of mounts.toReversed())
    await runCommand(["umount", "--lazy", mount], { cwd: "/", timeoutSeconds: 20 });
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
}

/** Folders of killed test processes. Their engines were told to stop, and remove their pid files. */
async function removeAbandonedFolders(): Promise<void> {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(FOLDER_PREFIX))) {
    const owner = Number.parseInt(name.slice(FOLDER_PREFIX.length), 10);
    const directory = join(tmpdir(), name);
    if (isAlive(owner) || isAlive(enginePid(directory))) continue;
    await removeFolder(directory);
  }
}

function enginePid(directory: string): number {
  const file = pidFileIn(directory);
  return existsSync(file) ? Number(readFileSync(file, "utf8")) : Number.NaN;
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}
