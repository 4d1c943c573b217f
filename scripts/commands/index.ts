/** All commands, in the order of the help. They load on demand: the list of commands needs none of them, and no SDK. */
import type { Command } from "./command.ts";

interface CommandEntry {
  /** Heading of the help. */
  readonly group: string;
  /** One line. */
  readonly summary: string;
  load(): Promise<Command>;
}

/** Of `completion` and `help`. */
export const HELP = "Help:";

const own = async (module: Promise<{ readonly command: Command }>) => (await module).command;

type StackCommands = typeof import("./stack.ts");

const ofStack = async (name: keyof StackCommands) => (await import("./stack.ts"))[name];

type Loader = CommandEntry["load"];

/** By heading: a line and the module of each command. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, readonly [summary: string, load: Loader]>>>> = {
  "Bring up and change a stack:": {
    start: ["set this machine up and bring the whole service up on it", () => own(import("./start.ts"))],
    init: ["ask a few questions and write the stack file of a new stack", () => own(import("./init.ts"))],
    plan: ["print what a stack builds, runs and costs; contacts nothing", () => own(import("./plan.ts"))],
    preflight: ["check machine, cluster or account for a stack's requirements", () => ofStack("preflight")],
    preview: ["show what `up` would change, property by property", () => ofStack("preview")],
    up: ["create or update a stack from its file", () => ofStack("up")],
    refresh: ["sync a stack's state with reality", () => ofStack("refresh")],
    down: ["stop and delete a stack; documents stay, except on AWS", () => ofStack("down")],
  },
  "Use a stack:": {
    outputs: ["print endpoint URLs, models, release and cost", () => ofStack("outputs")],
    ask: ["ask a model, and print the answer with its times", () => own(import("./ask.ts"))],
    seed: ["load pictures and captions: a folder, or the samples", () => own(import("./seed.ts"))],
    key: ["make an API key for the gateway", () => own(import("./key.ts"))],
    connect: ["forward the endpoints of a remote stack to this machine", () => own(import("./connect.ts"))],
  },
  "Watch and check a stack:": {
    status: ["show processes, containers or workloads, and their health", () => own(import("./status.ts"))],
    logs: ["print the logs of all services, or of one", () => own(import("./logs.ts"))],
    shell: ["open a shell where a model or another service runs", () => own(import("./shell.ts"))],
    smoke: ["send a real request to every endpoint", () => own(import("./smoke.ts"))],
    verify: [
      "check answers, parity and metrics; on a GPU record the result",
      () => own(import("./verify.ts")),
    ],
    bench: ["measure throughput and latency of encoders and models", () => own(import("./bench.ts"))],
  },
  "Save money:": {
    sleep: ["scale the language-model servers and their machines to zero", () => ofStack("sleep")],
    wake: ["bring back the servers that `sleep` scaled to zero", () => ofStack("wake")],
    expire: ["list expired stacks; --down deletes them", () => own(import("./expire.ts"))],
  },
  "Build and review:": {
    images: ["build, push and lock the images of a stack", () => own(import("./images.ts"))],
    render: ["print the whole resource graph as JSON; contacts nothing", () => own(import("./render.ts"))],
    diff: ["show what merging the working tree would change in a stack", () => own(import("./diff.ts"))],
    ci: ["tasks of the jobs in .github/workflows", () => own(import("./ci.ts"))],
    test: ["set up what the tests need, and run them", () => own(import("./test.ts"))],
  },
  [HELP]: {
    completion: ["print a completion script for bash or zsh", () => own(import("./completion.ts"))],
  },
};

export const COMMANDS: Readonly<Record<string, CommandEntry>> = Object.fromEntries(
  Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(([name, [summary, load]]) => [name, { group, summary, load }]),
  ),
);
