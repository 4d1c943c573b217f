/** The Node that the services' image is based on, from the registry of packages. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { cacheDirectory } from "../../../components/local/provider/files.ts";
import { run } from "./run.ts";

/** The node that runs the tests may be older than 22.18, the first that takes TypeScript as it is. */
const VERSION = "24.21.0";

/** Integrity of the packages `node-linux-<architecture>`, which hold the project's own builds. */
const INTEGRITY: Readonly<Partial<Record<NodeJS.Architecture, string>>> = {
  x64: "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  arm64: "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
};

/** Path of the program, downloaded once. */
export async function nodeBinary(): Promise<string> {
  const target = join(cacheDirectory(), "node-for-images", `${VERSION}-${process.arch}`, "node");
  if (existsSync(target)) return target;
  const integrity = INTEGRITY[process.arch];
  if (integrity === undefined) throw new Error(`There is no Node ${VERSION} for Linux on ${process.arch}.`);
  const directory = await mkdtemp(join(tmpdir(), "engine-room-node-"));
  try {
    const packageName = `node-linux-${process.arch}`;
    await run(["npm", "pack", "--silent", `${packageName}@${VERSION}`], 300, { cwd: directory });
    const archive = join(directory, `${packageName}-${VERSION}.tgz`);
    const sha512 = createHash("sha512")
      .update(await readFile(archive))
      .digest("base64");
    if (`sha512-${sha512}` !== integrity)
      throw new Error(`${packageName}@${VERSION} has sha512-${sha512} instead of ${integrity}.`);
    const extract = ["tar", "--extract", "--file", archive, "--directory", directory, "package/bin/node"];
    await run(extract, 60);
    await mkdir(dirname(target), { recursive: true });
    const unfinished = `${target}.${process.pid}.tmp`;
    await run(["cp", join(directory, "package/bin/node"), unfinished], 60);
    await rename(unfinished, target);
    return target;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
