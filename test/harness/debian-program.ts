/**
 * Programs of Debian's packages, extracted and not installed: a package may start a service. Each needs only the C
 * library and the libraries named here. Kept below the folder of downloads, like builds of Go modules.
 */
import { readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { lastLines, runCommand } from "../../components/local/provider/commands.ts";
import { cacheDirectory, exists, temporaryFolder } from "../../components/local/provider/files.ts";

const TIMEOUT_SECONDS = 120;

interface Source {
  readonly name: string;
  /** Prefix of the packages with its libraries: their names end in a version that differs between releases of Debian. */
  readonly libraries?: string;
}

const PACKAGES = {
  promtool: { name: "prometheus" },
  "docker-registry": { name: "docker-registry" },
  "cmark-gfm": { name: "cmark-gfm", libraries: "libcmark-gfm" },
} as const satisfies Readonly<Record<string, Source>>;

/** @returns Absolute path of the program, its libraries at `../lib`; the reason if apt has no such package. */
export async function debianProgram(
  program: keyof typeof PACKAGES,
): Promise<{ readonly path: string } | { readonly reason: string }> {
  const target = join(cacheDirectory(), "debian-programs", `${program}-${process.arch}`);
  const path = join(target, "usr/bin", program);
  if (await exists(path)) return { path };
  const folder = await temporaryFolder(target);
  try {
    await unpack(PACKAGES[program], folder, `./usr/bin/${program}`);
    // Another run may have finished first; its program stays.
    await rename(folder, target).catch(async (error) => {
      if (!(await exists(path))) throw error;
    });
    return { path };
  } catch (error) {
    return {
      reason: `${program} of Debian's package ${PACKAGES[program].name} is not to be had: ${(error as Error).message}`,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function unpack({ name, libraries }: Source, folder: string, program: string): Promise<void> {
  const apt = join(folder, "apt");
  await mkdir(join(apt, "lists/partial"), { recursive: true });
  await mkdir(join(apt, "cache/archives/partial"), { recursive: true });
  // Lists of its own: those of the system are root's, and may be missing or old.
  const options = [
    ["Dir::State::Lists", join(apt, "lists")],
    ["Dir::Cache", join(apt, "cache")],
    ["Acquire::Retries", "1"],
    ["Acquire::http::Timeout", "20"],
    ["APT::Sandbox::User", ""],
    ["APT::Update::Post-Invoke", ""],
  ].flatMap(([option, value]) => ["-o", `${option}=${value}`]);
  await run(["apt-get", ...options, "--quiet", "--quiet", "update"], apt);
  const depends =
    libraries === undefined ? "" : await run(["apt-cache", ...options, "depends", "--important", name], apt);
  const needed = [...depends.matchAll(/Depends: (\S+)/g)].map(([, found = ""]) => found);
  const names = [name, ...needed.filter((found) => libraries !== undefined && found.startsWith(libraries))];
  await run(["apt-get", ...options, "--quiet", "--quiet", "download", ...names], apt);
  for (const archive of readdirSync(apt).filter((file) => file.endsWith(".deb"))) {
    const member = archive.startsWith(`${name}_`) ? program : "./usr/lib";
    const extract = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" "$3"';
    await run(["sh", "-ec", extract, "sh", archive, folder, member], apt);
  }
  await rm(apt, { recursive: true });
}

async function run(argv: readonly string[], cwd: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runCommand(argv, {
    cwd,
    environment: process.env,
    timeoutSeconds: TIMEOUT_SECONDS,
  });
  if (exitCode !== 0) throw new Error(`${basename(argv[0] ?? "")}: ${lastLines(stderr || stdout, 1)}`);
  return stdout;
}
