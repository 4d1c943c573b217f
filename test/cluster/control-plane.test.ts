/** The cluster itself: whatever happens, it leaves no process and no file. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { ApiServer } from "../harness/kubernetes/api-server.ts";
import { type Cluster, startCluster } from "../harness/kubernetes/cluster.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { eventually } from "../harness/stack.ts";

/** 127.0.0.1 as the kernel prints it. */
const LOOPBACK = "0100007F";
/** TCP_LISTEN of the kernel. */
const LISTENING = "0A";
const PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

describeWithCluster("control plane", ({ api, connection, modules, pids: running }) => {
  const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

  test("the API server refuses another token, and clients refuse another certificate", async () => {
    const namespaces = (changes: Partial<typeof connection>) => {
      const other = new ApiServer({ ...connection, ...changes });
      return other.list("v1", "Namespace").finally(() => other.close());
    };
    await expect(namespaces({ token: "wrong" })).rejects.toMatchObject({ status: 401 });
    await expect(namespaces({ certificateAuthority: "" })).rejects.toThrow(/certificate/);
    expect((await api.list("v1", "Namespace")).length).toBeGreaterThan(0);
  });

  test("every program of the control plane listens only on loopback", () => {
    const sockets = Object.values(running).flatMap((pid) => listeningAddresses(pid));
    expect(sockets.length).toBeGreaterThan(PROGRAMS.length);
    expect(new Set(sockets)).toEqual(new Set([LOOPBACK]));
  });

  test.concurrent("a stopped cluster leaves no process and no file", async () => {
    const { pids, directory, stop } = await startCluster(modules);
    expect(Object.keys(pids)).toEqual(PROGRAMS);
    expect(Object.values(pids).every(isAlive)).toBe(true);
    await stop();
    expect([Object.values(pids).filter(isAlive), existsSync(directory)]).toEqual([[], false]);
  });

  test.concurrent("a cluster whose owner is killed leaves no process and no file", async () => {
    const module = join(projectRoot, "test/harness/kubernetes/cluster.ts");
    const script = `import { startCluster } from ${JSON.stringify(module)};
      const { pids, directory } = await startCluster(${JSON.stringify(modules)});
      console.log(JSON.stringify({ pids, directory }));`;
    const owner = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      cwd: projectRoot,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(owner.stdout, "data")) as [Buffer];
    const { pids, directory } = JSON.parse(line.toString()) as Pick<Cluster, "pids" | "directory">;
    expect([Object.values(pids).every(isAlive), existsSync(directory)]).toEqual([true, true]);
    owner.kill("SIGKILL");
    await eventually(async () => {
      const isGone = !Object.values(pids).some(isAlive) && !existsSync(directory);
      return isGone ? true : undefined;
    });
  });

  test("a cluster that fails to start reports the reason, and leaves no file", async () => {
    const broken = mkdtempSync(join(tmpdir(), "engine-room-broken-"));
    vi.stubEnv("TMPDIR", broken);
    try {
      const etcd = join(broken, "etcd");
      writeFileSync(etcd, "#!/bin/sh\necho the disk is full\nexit 3\n");
      chmodSync(etcd, 0o755);
      await expect(startCluster({ ...modules, etcd: broken })).rejects.toThrow(
        "etcd ended with 3; its log ends with: the disk is full",
      );
      expect(readdirSync(broken)).toEqual(["etcd"]);
    } finally {
      vi.unstubAllEnvs();
      rmSync(broken, { recursive: true, force: true });
    }
  });
});

/** Hexadecimal addresses that a process listens on, as /proc/net/tcp has them; those of IPv6 as well. */
function listeningAddresses(pid: number): string[] {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        // It was closed in the meantime.
        return [];
      }
    }),
  );
  return ["tcp", "tcp6"].flatMap((protocol) =>
    readFileSync(`/proc/net/${protocol}`, "utf8")
      .trim()
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode = ""]) => state === LISTENING && inodes.has(inode))
      .map(([, local = ""]) => local.split(":")[0] ?? ""),
  );
}
