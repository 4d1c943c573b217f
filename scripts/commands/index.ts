/** All commands, in the order of the help. They load on demand: the list of commands needs none of them, and no SDK. */
import type { Command } from "./command.ts";

interface CommandEntry {
  /** Heading of the help. */
  readonly group: string;
  /** One line. */
  readonly summary: string;
  load(): Promise<{ readonly command: Command }>;
}

const CHANGE = "Bring up and change a stack:";
const USE = "Use a stack:";
const WATCH = "Watch and check a stack:";
const SAVE = "Save money:";
const PROJECT = "Build and review:";

/** Of `completion` and `help`. */
export const HELP = "Help:";

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  start: {
    group: CHANGE,
    summary: "set this machine up and bring the whole service up on it",
    load: () => import("./start.ts"),
  },
  init: {
    group: CHANGE,
    summary: "write the stack file of a new stack, by a few questions",
    load: () => import("./init.ts"),
  },
  plan: {
    group: CHANGE,
    summary: "print what a stack builds, runs and costs; contacts nothing",
    load: () => import("./plan.ts"),
  },
  preflight: {
    group: CHANGE,
    summary: "check machine, cluster or account for what a stack needs",
    load: () => import("./preflight.ts"),
  },
  preview: {
    group: CHANGE,
    summary: "show what `up` would change, property by property",
    load: () => import("./preview.ts"),
  },
  up: {
    group: CHANGE,
    summary: "bring a stack to what its file says",
    load: () => import("./up.ts"),
  },
  refresh: {
    group: CHANGE,
    summary: "sync a stack's state with reality",
    load: () => import("./refresh.ts"),
  },
  down: {
    group: CHANGE,
    summary: "stop and delete a stack, but for its documents",
    load: () => import("./down.ts"),
  },
  outputs: {
    group: USE,
    summary: "print endpoint URLs, models, release and cost",
    load: () => import("./outputs.ts"),
  },
  ask: {
    group: USE,
    summary: "ask a model, and print the answer with its times",
    load: () => import("./ask.ts"),
  },
  seed: {
    group: USE,
    summary: "load pictures and captions: a folder, or the samples",
    load: () => import("./seed.ts"),
  },
  key: {
    group: USE,
    summary: "make an API key for the gateway",
    load: () => import("./key.ts"),
  },
  connect: {
    group: USE,
    summary: "forward the endpoints of a remote stack to this machine",
    load: () => import("./connect.ts"),
  },
  status: {
    group: WATCH,
    summary: "show processes, containers or workloads, and their health",
    load: () => import("./status.ts"),
  },
  logs: {
    group: WATCH,
    summary: "print the logs of all services, or of one",
    load: () => import("./logs.ts"),
  },
  smoke: {
    group: WATCH,
    summary: "send a real request to every endpoint",
    load: () => import("./smoke.ts"),
  },
  verify: {
    group: WATCH,
    summary: "check answers, parity and metrics; on a GPU record the result",
    load: () => import("./verify.ts"),
  },
  bench: {
    group: WATCH,
    summary: "measure throughput, latency, batching and the gateway's cost",
    load: () => import("./bench.ts"),
  },
  sleep: {
    group: SAVE,
    summary: "scale the language-model servers and their machines to zero",
    load: () => import("./sleep.ts"),
  },
  wake: {
    group: SAVE,
    summary: "bring back the servers that `sleep` scaled to zero",
    load: () => import("./wake.ts"),
  },
  expire: {
    group: SAVE,
    summary: "list expired stacks; --down deletes them",
    load: () => import("./expire.ts"),
  },
  images: {
    group: PROJECT,
    summary: "build, push and lock the images of a stack",
    load: () => import("./images.ts"),
  },
  render: {
    group: PROJECT,
    summary: "print the whole resource graph as JSON; contacts nothing",
    load: () => import("./render.ts"),
  },
  diff: {
    group: PROJECT,
    summary: "show what merging the working tree would change in a stack",
    load: () => import("./diff.ts"),
  },
  ci: {
    group: PROJECT,
    summary: "tasks of the jobs in .github/workflows",
    load: () => import("./ci.ts"),
  },
  test: {
    group: PROJECT,
    summary: "set up what the tests need, and run them",
    load: () => import("./test.ts"),
  },
  completion: {
    group: HELP,
    summary: "print a completion script for bash or zsh",
    load: () => import("./completion.ts"),
  },
};
