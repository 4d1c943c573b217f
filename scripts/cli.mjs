#!/usr/bin/env node
// Entry of `npx engine-room`, `npm start` and `npm test`. It runs before packages are installed, so it uses only Node: it checks Node,
// installs the npm packages of the lock file if they are missing or old, then hands over to the TypeScript of scripts/commands/.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** An installation takes a minute or two. Process ids are used again, in containers soon: an older lock is not believed. */
const INSTALL_LOCK_SECONDS = 600;

/** Codes of npm when it gets no answer. */
const UNREACHABLE = /^(?:ENOTFOUND|EAI_AGAIN|ECONN\w+|E\w*TIMEDOUT|ERR_SOCKET_TIMEOUT|E(?:HOST|NET)UNREACH)$/;

// When a reader such as `head` has enough, this program ends quietly, as SIGPIPE ends other programs.
process.stdout.on("error", (error) => process.exit(error.code === "EPIPE" ? 141 : 1));
checkNode();
installPackages();
// Workflows call it before they have credentials, which scripts of packages could read.
if (process.argv[2] === "install") process.exit(0);
const { importSource } = await import("../loader/import-source.mjs");
const { main } = await importSource("scripts/commands/main.ts").catch((error) => {
  if (error instanceof SyntaxError) fail(error.message);
  throw error;
});
process.exitCode = await main(process.argv.slice(2));

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const supported = (major === 20 && minor >= 19) || (major > 20 && major < 25);
  if (supported) return;
  fail(`Node 20.19 to 24 is needed; this is ${process.versions.node}. Install Node 22 or 24 and try again.`);
}

function installPackages() {
  const modules = join(root, "node_modules");
  const stamp = join(modules, ".engine-room-lock");
  const lock = readFileSync(join(root, "package-lock.json"));
  const wanted = createHash("sha256").update(lock).digest("hex");
  const isDone = () => existsSync(stamp) && readFileSync(stamp, "utf8") === wanted;
  if (isDone()) return;
  const release = takeInstallLock();
  if (!isDone()) {
    if (!isInstalled(JSON.parse(lock).packages ?? {}, join(modules, ".package-lock.json"))) runNpm();
    linkCommand(join(modules, ".bin"));
    writeFileSync(stamp, wanted);
  }
  release();
}

/** Waits for another process that installs: two would remove each other's files. The lock of an ended process is removed. */
function takeInstallLock() {
  const file = join(root, ".install-lock");
  const own = `${file}.${process.pid}`;
  const release = () => rmSync(file, { force: true });
  for (let isTold = false; ; isTold = true) {
    try {
      // Linked when it is written, so that no other process reads it empty.
      writeFileSync(own, String(process.pid));
      linkSync(own, file);
      process.once("exit", release);
      return release;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    } finally {
      rmSync(own, { force: true });
    }
    if (isHeld(file)) {
      if (!isTold) process.stderr.write("Waiting for another process that installs npm packages …\n");
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    } else release();
  }
}

function isHeld(file) {
  try {
    const pid = Number(readFileSync(file, "utf8"));
    const ageSeconds = (Date.now() - statSync(file).mtimeMs) / 1000;
    return pid > 0 && pid !== process.pid && ageSeconds < INSTALL_LOCK_SECONDS && process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Whether npm's own list of installed packages has those of the lock file, except for other platforms' packages. */
function isInstalled(locked, listFile) {
  if (!existsSync(listFile)) return false;
  const { packages: installed } = JSON.parse(readFileSync(listFile, "utf8"));
  const isSame = (one, other) => ["version", "resolved", "integrity"].every((key) => one[key] === other[key]);
  const isForHere = ({ os, cpu, libc }) =>
    os?.includes(process.platform) && cpu?.includes(process.arch) && libc === undefined;
  return (
    Object.keys(installed).every((path) => path in locked) &&
    Object.entries(locked).every(([path, entry]) => {
      if (path === "") return true;
      if (path in installed) return isSame(installed[path], entry);
      return entry.optional === true && !isForHere(entry);
    })
  );
}

function runNpm() {
  const started = performance.now();
  process.stderr.write("Installing npm packages of the lock file …\n");
  const npm = spawnSync("npm", ["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    stdio: ["ignore", 2, "pipe"],
    encoding: "utf8",
    maxBuffer: 64 * 2 ** 20,
  });
  if (npm.error) fail(`npm can't be started (${npm.error.message}); it comes with Node.`);
  if (npm.status !== 0) fail(npmFailure(npm.stderr, npm.status));
  process.stderr.write(`Installed npm packages in ${((performance.now() - started) / 1000).toFixed(1)} s\n`);
}

/** npm's own error lines without the traces of its code; for an unreachable registry, one sentence instead. */
function npmFailure(output, status) {
  const lines = output.split("\n").filter((line) => /^npm (?:error|ERR!)/.test(line));
  const [, code] = /^npm \S+ code (\S+)$/m.exec(output) ?? [];
  const [, address = "of package-lock.json"] = /request to (https?:\/\/[^/\s]+)/.exec(output) ?? [];
  if (UNREACHABLE.test(code ?? ""))
    return `The npm registry ${address} can't be reached (${code}). Check the network and its proxy, and try again.`;
  const told = lines.filter((line) => !/^npm \S+ (?:\s*at |errno |A complete log)|^npm \S+ *$/.test(line));
  return [...told, `\`npm ci\` failed with exit code ${status}.`].join("\n");
}

/** `npx engine-room` finds it there at once; npm creates links only for the commands of other packages. */
function linkCommand(folder) {
  const link = join(folder, "engine-room");
  mkdirSync(folder, { recursive: true });
  rmSync(link, { force: true });
  symlinkSync("../../scripts/cli.mjs", link);
}

function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
