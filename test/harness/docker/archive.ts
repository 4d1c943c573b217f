/** Files in memory as a tar archive, as the engine takes them for a container. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { run } from "./run.ts";

/** @param files - Contents by absolute path. All users may read them, as the containers' own user must. */
export async function archiveOf(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const directory = await mkdtemp(join(tmpdir(), "engine-room-files-"));
  const root = join(directory, "root");
  const archive = join(directory, "files.tar");
  try {
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    }
    const paths = Object.keys(files).map((path) => path.slice(1));
    const owner = ["--owner=0", "--group=0", "--mode=0444"];
    // Files without their folders: an archived folder would change the owner of the container's.
    await run(["tar", "--create", "--file", archive, ...owner, "--directory", root, ...paths], 60);
    return await readFile(archive);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
