#!/usr/bin/env node
// A kubectl that forwards ports of named Services to ports of this machine, prints objects of files, and refuses all else.
// FAKE_CLUSTER is a folder: targets.json has a port by `NAMESPACE/SERVICE:PORT`, SERVICE.pids gets a line a start,
// answers.json has what is printed by arguments, stdin.N what was applied, calls the arguments of each call; where there is a
// file says, every call fails with its words.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";

const folder = process.env.FAKE_CLUSTER ?? "";
const args = process.argv.slice(2);

function fail(words) {
  process.stderr.write(`error: ${words}\n`);
  process.exit(1);
}

function take(flag) {
  if (args[0] !== flag) fail(`expected ${flag}, got ${args[0]}`);
  args.shift();
  return args.shift();
}

const json = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));

appendFileSync(join(folder, "calls"), `${JSON.stringify(args)}\n`);
if (take("--context") !== "fake") fail("context was not found for specified context");

if (existsSync(join(folder, "says"))) say(readFileSync(join(folder, "says"), "utf8"));
else if (args.includes("port-forward")) forward();
else answer();

function say(words) {
  process.stderr.write(`${words}\n`);
  process.exitCode = 1;
}

function forward() {
  const namespace = take("--namespace");
  if (args.shift() !== "port-forward") fail("unknown command");
  if (take("--address") !== "127.0.0.1") fail("only loopback is expected");
  const service = /^service\/([a-z0-9-]+)$/.exec(args.shift() ?? "")?.[1] ?? fail("no service");
  if (args.length === 0) fail("at least 1 PORT is required for port-forward");
  const targets = json("targets.json");
  for (const pair of args) {
    const [, local, remote] = /^(\d+):(\d+)$/.exec(pair) ?? fail(`invalid port ${pair}`);
    const target = targets[`${namespace}/${service}:${remote}`];
    if (target === undefined)
      fail(`Error from server (NotFound): services "${service}" does not have a service port ${remote}`);
    createServer((socket) => {
      const other = connect(target, "127.0.0.1");
      socket.pipe(other).pipe(socket);
      for (const end of [socket, other]) end.on("error", () => {});
    }).listen(Number(local), "127.0.0.1", () => {
      process.stdout.write(`Forwarding from 127.0.0.1:${local} -> ${remote}\n`);
    });
  }
  appendFileSync(join(folder, `${service}.pids`), `${process.pid}\n`);
}

function answer() {
  if (args.includes("-") && args.includes("--filename")) {
    let index = 0;
    while (existsSync(join(folder, `stdin.${index}`))) index += 1;
    writeFileSync(join(folder, `stdin.${index}`), readFileSync(0, "utf8"));
  }
  const answers = json("answers.json");
  const text = args.filter((arg) => !arg.startsWith("--request-timeout")).join(" ");
  const found = Object.keys(answers).find((key) => text.startsWith(key));
  if (found === undefined) fail(`nobody expects kubectl ${text}`);
  process.stdout.write(typeof answers[found] === "string" ? answers[found] : JSON.stringify(answers[found]));
}
