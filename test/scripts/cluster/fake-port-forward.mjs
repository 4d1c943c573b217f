#!/usr/bin/env node
// `kubectl port-forward` to ports of this machine. FAKE_CLUSTER is a folder: targets.json has a port by
// `NAMESPACE/SERVICE:PORT`, SERVICE.pids gets a line a start.
import { appendFileSync, readFileSync } from "node:fs";
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

take("--context");
forward();

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
