/** Who listens on a TCP port, as far as /proc tells the calling user. */
import { readdir, readFile, readlink } from "node:fs/promises";

/** As in `python3 (pid 4711)`, or the user's number where only that can be seen; undefined where nobody listens. */
export async function portHolder(port: number): Promise<string | undefined> {
  const listeners = [
    ...(await listening("/proc/net/tcp", port)),
    ...(await listening("/proc/net/tcp6", port)),
  ];
  const first = listeners[0];
  if (first === undefined) return undefined;
  const inodes = new Set(listeners.map((listener) => `socket:[${listener.inode}]`));
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name)))
    if (await hasSocket(pid, inodes)) return `${await programName(pid)} (pid ${pid})`;
  return `a process of user ${first.uid}`;
}

interface Listener {
  readonly inode: string;
  readonly uid: string;
}

const LISTEN_STATE = "0A";

/** Lines of proc_pid_net(5): sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode … */
async function listening(table: string, port: number): Promise<Listener[]> {
  const text = await readFile(table, "utf8").catch(() => "");
  return text.split("\n").flatMap((line) => {
    const [, local, , state, , , , uid, , inode] = line.trim().split(/\s+/);
    const localPort = Number.parseInt(local?.split(":")[1] ?? "", 16);
    if (state !== LISTEN_STATE || localPort !== port || uid === undefined || inode === undefined) return [];
    return [{ inode, uid }];
  });
}

async function hasSocket(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const links = await Promise.all(
    descriptors.map((descriptor) => readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => "")),
  );
  return links.some((link) => inodes.has(link));
}

async function programName(pid: string): Promise<string> {
  return (await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "a process")).trim();
}
