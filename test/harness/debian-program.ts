/**
 * Programs of Debian's packages that are taken out of them and not installed: their packages would start a service, and each
 * needs nothing but the C library. Kept below the folder of downloads, as what is built from Go modules is.
 */
import { readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { lastLines, runCommand } from "../../components/local/provider/commands.ts";
import { cacheDirectory, exists, temporaryFolder } from "../../components/local/provider/files.ts";

const TIMEOUT_SECONDS = 120;

const PACKAGES = {
  promtool: "prometheus",
  "docker-registry": "docker-registry",
} as const;

/** @returns Absolute path of the program; why it is not to be had, where apt has no such package. */
export async function debianProgram(
  program: keyof typeof PACKAGES,
): Promise<{ readonly path: string } | { readonly reason: string }> {
  const target = join(cacheDirectory(), "debian-programs", `${program}-${process.arch}`);
  const path = join(target, "usr/bin", program);
  if (await exists(path)) return { path };
  const folder = await temporaryFolder(target);
  try {
    await unpack(PACKAGES[program], folder, `./usr/bin/${program}`);
    // Where another run was faster, its program stays.
    await rename(folder, target).catch(async (error) => {
      if (!(await exists(path))) throw error;
    });
    return { path };
  } catch (error) {
    return {
      reason: `${program} of Debian's package ${PACKAGES[program]} is not to be had: ${(error as Error).message}`,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function unpack(name: string, folder: string, member: string): Promise<void> {
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
  await run(["apt-get", ...options, "--quiet", "--quiet", "download", name], apt);
  const archive = readdirSync(apt).find((file) => file.endsWith(".deb")) ?? "";
  await run(
    ["sh", "-ec", 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" "$3"', "sh", archive, folder, member],
    apt,
  );
  await rm(apt, { recursive: true });
}

async function run(argv: readonly string[], cwd: string): Promise<void> {
  const { exitCode, stdout, stderr } = await runCommand(argv, {
    cwd,
    environment: process.env,
    timeoutSeconds: TIMEOUT_SECONDS,
  });
  if (exitCode !== 0) throw new Error(`${basename(argv[0] ?? "")}: ${lastLines(stderr || stdout, 1)}`);
}
