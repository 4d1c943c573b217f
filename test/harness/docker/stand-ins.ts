/** Programs that dockerd finds on its PATH, so that containers of the GPU tier start as planned on a machine of tests. */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * dockerd looks for it when a container asks for GPUs, and runs it at the container's start; that of NVIDIA's toolkit
 * puts devices and driver into the container. With this stand-in a machine without a GPU accepts `--gpus`.
 */
const GPU_HOOK = ["nvidia-container-runtime-hook", "#!/bin/sh\nexit 0\n"] as const;

/** Starts containers without the limit that the machine can't set: unlimited locked memory. */
const RUNC = [
  "runc",
  `#!${process.execPath}
const { spawnSync } = require("node:child_process");
const { readFileSync, writeFileSync } = require("node:fs");
const args = process.argv.slice(2);
const after = (flag) => args[args.indexOf(flag) + 1];
const [file, processOf] = args.includes("create")
  ? [after("--bundle") + "/config.json", (config) => config.process]
  : [after("--process"), (config) => config];
if (args.includes("create") || args.includes("exec")) {
  const config = JSON.parse(readFileSync(file, "utf8"));
  const described = processOf(config);
  described.rlimits = (described.rlimits ?? []).filter(({ type }) => type !== "RLIMIT_MEMLOCK");
  writeFileSync(file, JSON.stringify(config));
}
const { status, signal } = spawnSync("/usr/sbin/runc", args, { stdio: "inherit" });
process.exit(signal === null ? status : 1);
`,
] as const;

/** Writes the stand-ins that this machine needs. @returns The folder for PATH. */
export function standInPrograms(directory: string): string {
  mkdirSync(directory);
  for (const [name, text] of mayLockMemory() ? [GPU_HOOK] : [GPU_HOOK, RUNC])
    writeFileSync(join(directory, name), text, { mode: 0o755 });
  return directory;
}

/** Whether this process may raise limits: in a container even root may lack that right. */
function mayLockMemory(): boolean {
  return spawnSync("prlimit", ["--memlock=unlimited:unlimited", "true"]).status === 0;
}
