#!/usr/bin/env node
// Entry of `npx engine-room`, `npm start` and `npm test`. It runs before anything is installed, so it uses Node alone: it checks Node, installs the
// npm packages of the lock file where they are missing or old, then hands over to the TypeScript of scripts/commands/.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

// A reader that has seen enough, such as `head`, ends this as SIGPIPE ends other programs: quietly.
process.stdout.on("error", (error) => process.exit(error.code === "EPIPE" ? 141 : 1));
checkNode();
installPackages();
// Of workflows, before there are credentials: packages have scripts of their own.
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
  fail(`This needs Node 20.19 to 24; here is ${process.versions.node}. Install Node 22 or 24 and try again.`);
}

function installPackages() {
  const stamp = join(root, "node_modules", ".engine-room-lock");
  const wanted = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  const started = performance.now();
  process.stderr.write("Installing npm packages of the lock file …\n");
  const npm = spawnSync("npm", ["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    stdio: ["ignore", 2, 2],
  });
  if (npm.error) fail(`npm can't be started (${npm.error.message}); it comes with Node.`);
  if (npm.status !== 0) fail(`\`npm ci\` ended with exit code ${npm.status}; its last lines above say why.`);
  writeFileSync(stamp, wanted);
  process.stderr.write(`Installed npm packages in ${((performance.now() - started) / 1000).toFixed(1)} s\n`);
}

function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
