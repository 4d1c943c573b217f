/** Hosts that can only be read: output of Docker's CLI and of the script on them. */
import type { HostProbe, ProbeAnswer } from "../../../scripts/preflight/host-probe.ts";

export interface FakeHost {
  readonly uri?: string;
  /** Fields of `docker info`. */
  readonly info?: Readonly<Record<string, unknown>>;
  /** Answer to every call of Docker. */
  readonly dockerFails?: Partial<ProbeAnswer>;
  /** Running containers: name, stack, ports of the host. */
  readonly containers?: readonly (readonly [string, string, readonly number[]])[];
  /** Lines of `docker image ls`: repository, tag, digest. */
  readonly images?: readonly (readonly [string, string, string])[];
  /** Lines of `nvidia-smi`; null when it is missing. */
  readonly gpus?: readonly string[] | null;
  readonly hook?: boolean;
  readonly system?: string;
  readonly glibc?: string;
  readonly memoryAvailableKiB?: number;
  readonly listening?: readonly number[];
  /** Free GB by folder, by default 1000. Folders of one mount have one figure. */
  readonly freeGB?: Readonly<Record<string, number>>;
  /** Free inodes by folder, by default a million. */
  readonly freeFiles?: Readonly<Record<string, number>>;
  /** Folder for which `df` prints nothing. */
  readonly unmeasured?: string;
  /** Read-only file system. */
  readonly readOnly?: string;
  readonly shellFails?: string;
}

export const A10G = "0, NVIDIA A10G, 23028, 0, 575.57.08, [N/A]";

const ok = (stdout: string): ProbeAnswer => ({ exitCode: 0, stdout, stderr: "" });
const lines = (all: readonly string[] = []) => all.map((line) => `${line}\n`).join("");

/** A host without findings, with changed fields. */
export function fakeProbe(host: FakeHost = {}): HostProbe {
  return {
    uri: host.uri ?? null,
    docker: async ([command, ...words]) => {
      if (host.dockerFails !== undefined) return { exitCode: 1, stdout: "", stderr: "", ...host.dockerFails };
      if (command === "info")
        return ok(
          JSON.stringify({
            ServerVersion: "28.2.2",
            OSType: "linux",
            Architecture: "x86_64",
            DockerRootDir: "/var/lib/docker",
            Runtimes: { "io.containerd.runc.v2": {}, nvidia: {}, runc: {} },
            ...host.info,
          }),
        );
      const filter = (text: string) => words.find((word) => word.startsWith(text))?.slice(text.length) ?? "";
      if (command === "ps" && words.includes("--quiet"))
        return ok(
          lines(
            host.containers
              ?.filter(([, stack]) => stack === filter("label=engine-room.stack="))
              .map(([name]) => name),
          ),
        );
      if (command === "ps")
        return ok(
          lines(
            host.containers
              ?.filter(([, , ports]) => ports.includes(Number(filter("publish="))))
              .map(([name, stack]) => `${stack}\t${name}`),
          ),
        );
      if (command === "image" && words[0] === "ls")
        return ok(
          lines(host.images?.flatMap(([name, tag, digest]) => [`${name}:${tag}`, `${name}@${digest}`])),
        );
      throw new Error(`docker ${command} changes something, or nobody expects it`);
    },
    shell: async (script) =>
      host.shellFails === undefined
        ? ok(machineText(host, pathsOf(script)))
        : { exitCode: 255, stdout: "", stderr: host.shellFails },
  };
}

/** Output of the script, in its sections. */
function machineText(host: FakeHost, paths: readonly string[]): string {
  const gpus = host.gpus === undefined ? [A10G] : host.gpus;
  return [
    "@@system",
    host.system ?? "Linux x86_64",
    "@@glibc",
    host.glibc ?? "glibc 2.36",
    "@@memory",
    `MemAvailable:   ${host.memoryAvailableKiB ?? 64 * 2 ** 20} kB`,
    "@@gpus",
    ...(gpus ?? ["sh: 5: nvidia-smi: not found", "exit 127"]),
    "@@hook",
    ...(host.hook === true ? ["/usr/bin/nvidia-container-runtime-hook"] : []),
    "@@listening",
    ...(host.listening ?? []).map((port) => `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`),
    "@@space",
    ...paths.flatMap((path) => {
      const mounts = [...Object.keys({ ...host.freeGB, ...host.freeFiles }), host.readOnly ?? "/"];
      const mount = mounts.find((one) => path.startsWith(one)) ?? "/";
      const freeKiB = Math.round(((host.freeGB?.[mount] ?? 1000) * 1e9) / 1024);
      const freeFiles = host.freeFiles?.[mount] ?? 1_000_000;
      const isMeasured = host.unmeasured === undefined || !path.startsWith(host.unmeasured);
      const df = [
        `/dev/sda1 2000000000 1000 ${freeKiB} 1% ${mount}`,
        `/dev/sda1 2000000 1000 ${freeFiles} 1% ${mount}`,
      ];
      const space = [path, path, ...(isMeasured ? df : ["", ""])];
      return [[...space, host.readOnly === mount ? "" : "writable"].join("\t")];
    }),
    "",
  ].join("\n");
}

function pathsOf(script: string): string[] {
  return [...script.matchAll(/^space (\S+)$/gm)].map(([, path = ""]) => path);
}
