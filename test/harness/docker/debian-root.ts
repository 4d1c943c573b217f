/** A root file system of Debian from its packages, in place of an image of a registry. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { cacheDirectory } from "../../../components/local/provider/files.ts";
import { run } from "./run.ts";

const SUITE = "bookworm";
const MIRROR = "http://deb.debian.org/debian";
/** Paths that Debian's slim images omit. */
const LEFT_OUT = [
  ...["usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale"],
  ...["var/cache/apt/archives", "var/lib/apt/lists", "var/log"],
];
const DEBOOTSTRAP_TIMEOUT_SECONDS = 900;

/** Path of a tar of it, made once for a suite and a list of packages. */
export async function debianRootArchive(packages: readonly string[]): Promise<string> {
  const key = createHash("sha256").update(JSON.stringify([SUITE, packages, LEFT_OUT, process.arch]));
  const archive = join(cacheDirectory(), "debian-roots", `${SUITE}-${key.digest("hex").slice(0, 16)}.tar`);
  if (existsSync(archive)) return archive;
  const directory = await mkdtemp(join(tmpdir(), "engine-room-debian-"));
  const root = join(directory, "root");
  const include = `--include=${packages.join(",")}`;
  try {
    await run(
      ["debootstrap", "--variant=minbase", include, SUITE, root, MIRROR],
      DEBOOTSTRAP_TIMEOUT_SECONDS,
    );
    for (const path of LEFT_OUT) {
      await rm(join(root, path), { recursive: true });
      await mkdir(join(root, path));
    }
    await mkdir(dirname(archive), { recursive: true });
    const unfinished = `${archive}.${process.pid}.tmp`;
    await run(["tar", "--create", "--file", unfinished, "--directory", root, "."], 300);
    await rename(unfinished, archive);
    return archive;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
