/** Time that models and whole stacks add to a preview, against previews of a program that registers nothing. */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parse, stringify } from "yaml";
import { CONFIG_NAMESPACE } from "../../infra/problems.ts";
import { median } from "../../scripts/bench/load.ts";
import { UserError } from "../../scripts/errors.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { tell } from "../harness/progress.ts";
import { stackFiles } from "./plan.ts";

/** Program that registers nothing, stack of one model, stack of all. */
const SUBJECTS = ["empty", "one", "all"] as const;
type Subject = (typeof SUBJECTS)[number];

/** Cost of a preview, from start to exit. */
interface PreviewCost {
  readonly wallSeconds: number;
  /** User and system time of all its processes; null if the system does not say. */
  readonly cpuSeconds: number | null;
}

/** Each subject once, close together: other work of the machine disturbs them alike. */
export type PreviewRound = Readonly<Record<Subject, PreviewCost>>;

/** A program that registers nothing, and a stack of the project. */
type StackRound = Readonly<Record<"empty" | "stack", PreviewCost>>;

/** Medians over the rounds. */
interface StackSeconds {
  readonly emptySeconds: number;
  readonly stackSeconds: number;
  /** Stack divided by empty program of the same round. */
  readonly ratio: number;
}

interface StackPreviewFigures {
  readonly stack: string;
  readonly rounds: number;
  readonly wall: StackSeconds;
  readonly cpu: StackSeconds | null;
}

/** Medians over the rounds. */
interface PreviewFigures {
  readonly emptySeconds: number;
  readonly stackSeconds: number;
  /** Stack less empty program, divided by the models; includes code that is loaded once. */
  readonly millisecondsPerModel: number;
  /** Stack less stack of one model, divided by the other models. */
  readonly millisecondsPerFurtherModel: number;
}

interface ModelPreviewFigures {
  readonly models: number;
  readonly rounds: number;
  readonly wall: PreviewFigures;
  readonly cpu: PreviewFigures | null;
}

const MODELS = 50;
const ROUNDS = 9;
const STACK = "bench";
/** The discard port, where nothing listens: a refused connection is the quickest sign that there is no cluster. */
const NO_CLUSTER = "http://127.0.0.1:9";
const CHILD = ["loader/run.mjs", "test/bench/render-child.ts"];

/** Under the SDK's own monitor in one process, as `npx engine-room render` has it. Needs no CLI, plugin or cluster. */
export function measureModelRender(): ModelPreviewFigures {
  return inScratchFolder((folder) => {
    const files = writeStackFiles(folder);
    const rounds = measureRounds(SUBJECTS, (subject) => {
      const program = subject === "empty" ? "empty" : "program";
      run(process.execPath, [...CHILD, program, files[subject]], projectRoot, process.env);
    });
    return modelPreviewFigures(MODELS, rounds);
  });
}

/** Renders a stack of the project in the same way, from start to the complete graph. */
export function measureStackRender(stack: string): StackPreviewFigures {
  const { configFile } = stackReference(stack);
  const rounds = measureRounds(["empty", "stack"], (subject) => {
    const program = subject === "empty" ? "empty" : "program";
    run(process.execPath, [...CHILD, program, configFile], projectRoot, process.env);
  });
  return stackPreviewFigures(stack, rounds);
}

/** Figures of rounds of a stack. */
export function stackPreviewFigures(stack: string, rounds: readonly StackRound[]): StackPreviewFigures {
  const seconds = (pairs: readonly (readonly [empty: number, stack: number])[]): StackSeconds => ({
    emptySeconds: median(pairs.map(([empty]) => empty)),
    stackSeconds: median(pairs.map(([, whole]) => whole)),
    ratio: median(pairs.map(([empty, whole]) => whole / empty)),
  });
  const cpu = rounds.flatMap(({ empty, stack: whole }) =>
    empty.cpuSeconds === null || whole.cpuSeconds === null
      ? []
      : [[empty.cpuSeconds, whole.cpuSeconds] as const],
  );
  return {
    stack,
    rounds: rounds.length,
    wall: seconds(rounds.map(({ empty, stack: whole }) => [empty.wallSeconds, whole.wallSeconds])),
    cpu: cpu.length === 0 ? null : seconds(cpu),
  };
}

/** One line for people. */
export function stackPreviewText({ stack, rounds, wall, cpu }: StackPreviewFigures): string {
  const text = ({ stackSeconds, emptySeconds, ratio }: StackSeconds) =>
    `${stackSeconds.toFixed(2)} against ${emptySeconds.toFixed(2)} s of an empty program, ratio ${ratio.toFixed(2)}`;
  return `graph of ${stack}, in one process, ${rounds} rounds: ${text(wall)}${cpu === null ? "" : `; CPU time ${text(cpu)}`}`;
}

/**
 * Measures `pulumi preview`, with its own state and no cluster: the kubernetes provider then checks every object without
 * a server, and the engine plans to create each.
 *
 * @param executable - The Pulumi CLI.
 * @throws UserError with the CLI's last words if a preview fails, as without the kubernetes plugin.
 */
export function measureModelPreview(executable: string): ModelPreviewFigures {
  return inScratchFolder((folder) => {
    const environment = pulumiEnvironment(folder);
    const emptyProject = writeEmptyProject(folder);
    run(executable, ["stack", "init", STACK, "--non-interactive"], emptyProject, environment);
    const { encryptionsalt } = parse(readFileSync(join(emptyProject, `Pulumi.${STACK}.yaml`), "utf8"));
    const files = writeStackFiles(folder, { encryptionsalt });
    const rounds = measureRounds(SUBJECTS, (subject) => {
      const args = ["preview", "--non-interactive", "--stack", STACK, "--config-file", files[subject]];
      run(executable, args, subject === "empty" ? emptyProject : projectRoot, environment);
    });
    return modelPreviewFigures(MODELS, rounds);
  });
}

/** Figures of rounds with `models` models. */
export function modelPreviewFigures(models: number, rounds: readonly PreviewRound[]): ModelPreviewFigures {
  const cpu = rounds.flatMap((round) => {
    const [empty, one, all] = SUBJECTS.map((subject) => round[subject].cpuSeconds);
    return empty == null || one == null || all == null ? [] : [{ empty, one, all }];
  });
  const wall = rounds.map(({ empty, one, all }) => ({
    empty: empty.wallSeconds,
    one: one.wallSeconds,
    all: all.wallSeconds,
  }));
  return {
    models,
    rounds: rounds.length,
    wall: figures(models, wall),
    cpu: cpu.length === 0 ? null : figures(models, cpu),
  };
}

function figures(models: number, rounds: readonly Readonly<Record<Subject, number>>[]): PreviewFigures {
  return {
    emptySeconds: median(rounds.map(({ empty }) => empty)),
    stackSeconds: median(rounds.map(({ all }) => all)),
    millisecondsPerModel: (1000 * median(rounds.map(({ all, empty }) => all - empty))) / models,
    millisecondsPerFurtherModel: (1000 * median(rounds.map(({ all, one }) => all - one))) / (models - 1),
  };
}

/** Two lines for people. @param way - How the previews were made. */
export function modelPreviewText(way: string, { models, rounds, wall, cpu }: ModelPreviewFigures): string {
  const line = (kind: string, of: PreviewFigures) =>
    `${kind} ${of.stackSeconds.toFixed(2)} against ${of.emptySeconds.toFixed(2)} s of an empty program, ` +
    `${of.millisecondsPerModel.toFixed(1)} ms a model; ${of.millisecondsPerFurtherModel.toFixed(1)} ms for each after the first`;
  return [
    `preview of ${models} models in a cluster, ${way}, ${rounds} rounds: ${line("", wall).trim()}`,
    ...(cpu === null ? [] : [line("  of it CPU time:", cpu)]),
  ].join("\n");
}

/** One round more than is counted: the first one finds nothing in the machine's caches. */
function measureRounds<Name extends string>(
  subjects: readonly Name[],
  preview: (subject: Name) => void,
): readonly Readonly<Record<Name, PreviewCost>>[] {
  const rounds = Array.from({ length: ROUNDS + 1 }, (_, index) => {
    // Each round starts with another subject.
    const order = subjects.map((_subject, place) => subjects[(place + index) % subjects.length] as Name);
    const round = order.map((subject) => [subject, costOf(() => preview(subject))] as const);
    const shown = round.map(([subject, { wallSeconds }]) => `${subject} ${wallSeconds.toFixed(2)} s`);
    tell(`${index === 0 ? "warm-up" : `round ${index} of ${ROUNDS}`}: ${shown.join(", ")}`);
    return Object.fromEntries(round) as Readonly<Record<Name, PreviewCost>>;
  });
  return rounds.slice(1);
}

function costOf(work: () => void): PreviewCost {
  const cpuBefore = childrenCpuSeconds();
  const started = performance.now();
  work();
  const wallSeconds = (performance.now() - started) / 1000;
  const cpuAfter = childrenCpuSeconds();
  return { wallSeconds, cpuSeconds: cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore };
}

/** CPU time of all processes that this process, and its descendants, have waited for; null outside Linux. */
function childrenCpuSeconds(): number | null {
  if (process.platform !== "linux") return null;
  // proc_pid_stat(5): cutime and cstime are fields 16 and 17, in hundredths of a second; the name before them may have blanks.
  const fields = readFileSync("/proc/self/stat", "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[13]) + Number(fields[14])) / 100;
}

function run(executable: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): void {
  const { status, error, stdout, stderr } = spawnSync(executable, args, {
    cwd,
    env,
    encoding: "utf8",
    maxBuffer: 64 * 2 ** 20,
    timeout: 600_000,
  });
  if (error === undefined && status === 0) return;
  const words = error?.message ?? `${stdout}${stderr}`.trim().split("\n").slice(-10).join("\n");
  throw new UserError(`\`${args.join(" ")}\` ended with exit code ${status}:\n${words}`);
}

/**
 * Writes the stack files of each subject.
 *
 * @param more - Members beside `config`.
 * @returns absolute paths.
 */
export function writeStackFiles(folder: string, more: object = {}): Readonly<Record<Subject, string>> {
  const write = (name: string, models: number) => {
    const path = join(folder, `Pulumi.${name}.yaml`);
    const [values = {}] = stackFiles(models);
    const config = Object.entries(values).map(([key, value]) => [`${CONFIG_NAMESPACE}:${key}`, value]);
    writeFileSync(path, stringify({ ...more, config: Object.fromEntries(config) }));
    return path;
  };
  const all = write("all", MODELS);
  return { empty: all, one: write("one", 1), all };
}

/** Creates a project that differs from this project only in its program. @returns its folder. */
function writeEmptyProject(folder: string): string {
  const project = join(folder, "empty");
  const { name, runtime } = parse(readFileSync(join(projectRoot, "Pulumi.yaml"), "utf8"));
  mkdirSync(project);
  symlinkSync(join(projectRoot, "node_modules"), join(project, "node_modules"));
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(project, "Pulumi.yaml"), stringify({ name, runtime, main: "main.mjs" }));
  const loader = pathToFileURL(join(projectRoot, "loader/import-source.mjs"));
  writeFileSync(
    join(project, "main.mjs"),
    `import { importSource } from ${JSON.stringify(loader)};\nawait importSource("test/bench/empty-program.ts");\n`,
  );
  return project;
}

function pulumiEnvironment(folder: string): NodeJS.ProcessEnv {
  const state = join(folder, "state");
  const kubeconfig = join(folder, "kubeconfig.yaml");
  mkdirSync(state);
  const current = "none";
  writeFileSync(
    kubeconfig,
    stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: current, cluster: { server: NO_CLUSTER } }],
      users: [{ name: current, user: {} }],
      contexts: [{ name: current, context: { cluster: current, user: current } }],
      "current-context": current,
    }),
  );
  return {
    ...process.env,
    KUBECONFIG: kubeconfig,
    PULUMI_BACKEND_URL: `file://${state}`,
    PULUMI_CONFIG_PASSPHRASE: "",
    PULUMI_SKIP_UPDATE_CHECK: "true",
  };
}

function inScratchFolder<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-preview-"));
  try {
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
