/** A folder with a kubectl for the PATH, its output, and a running stack. */
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { vi } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";

export const STACK = {
  platform: "kubernetes",
  context: "fake",
  encoders: false,
  pools: [{ name: "gpu", machine: { gpu: "L40S", gpus: 2, vcpus: 32, memoryGiB: 128, networkMbps: 10_000 } }],
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  models: [{ name: "llava", model: "llava-1.5-7b", flavour: "llava" }],
};

/** Result of a command. */
interface Ended {
  readonly code: number;
  /** All of stdout, then all of stderr. */
  readonly text: string;
}

/**
 * kubectl in sh, which starts ten times as fast as Node: it prints answer.N for calls that begin with the Nth line of keys;
 * the program beside it is used for forwards.
 */
const SCRIPT = `#!/bin/sh
here="\${0%/*}"
text=""
call=""
for word in "$@"; do
  call="$call\${call:+\t}$word"
  case "$word" in
    --request-timeout*) ;;
    -) takes_input=1; text="$text\${text:+ }$word" ;;
    *) text="$text\${text:+ }$word" ;;
  esac
done
printf '%s\\n' "$call" >> "$here/calls"
if [ ! -e "$here/any-context" ] && [ "$1 $2" != "--context fake" ]; then echo "error: context was not found for specified context" >&2; exit 1; fi
text="\${text#--context fake }"
if [ -e "$here/says" ]; then cat "$here/says" >&2; echo >&2; exit 1; fi
case "$text" in *" port-forward "*) exec "$here/forward" "$@" ;; esac
if [ -n "$takes_input" ]; then
  input=0
  while [ -e "$here/stdin.$input" ]; do input=$((input + 1)); done
  cat > "$here/stdin.$input"
fi
number=0
while IFS= read -r key; do
  case "$text" in "$key"*) cat "$here/answer.$number"; exit 0 ;; esac
  number=$((number + 1))
done < "$here/keys"
echo "error: nobody expects kubectl $text" >&2
exit 1
`;

export interface FakeKubectl {
  readonly folder: string;
  /** Runs a command of the project with it, in this process. */
  run(...words: string[]): Promise<Ended>;
  /** The same with another stack file. */
  runFor(stackFile: string, ...words: string[]): Promise<Ended>;
  /** Runs a command in its own process: for signals, and for kubectl's own output. */
  start(...words: string[]): ChildProcess;
  /** @param targets - Ports of this machine by `NAMESPACE/SERVICE:PORT`. */
  targets(targets: Readonly<Record<string, number>>): void;
  /** Lets every call fail with this error. */
  says(words: string): void;
  /** Sets the output of calls, by the beginning of their arguments. */
  answers(answers: Readonly<Record<string, unknown>>): void;
  /** Process ids of the started forwards of a Service, in order. */
  pids(service: string): readonly number[];
  /** Standard inputs of calls, in order. */
  inputs(): readonly string[];
  calls(): readonly (readonly string[])[];
  remove(): Promise<void>;
}

/** @param needsContext - Whether it refuses calls without the context of {@link STACK}, such as calls to an EKS cluster. */
export function fakeKubectl(needsContext = true): FakeKubectl {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-kubectl-"));
  writeFileSync(join(folder, "kubectl"), SCRIPT, { mode: 0o755 });
  writeFileSync(join(folder, "keys"), "");
  if (!needsContext) writeFileSync(join(folder, "any-context"), "");
  // The copy keeps the file executable.
  copyFileSync(fileURLToPath(new URL("fake-port-forward.mjs", import.meta.url)), join(folder, "forward"));
  const stackFile = writtenStackFile(folder, STACK);
  const lines = (name: string) =>
    existsSync(join(folder, name))
      ? readFileSync(join(folder, name), "utf8")
          .split("\n")
          .filter((line) => line !== "")
      : [];
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  // The file is an ES module, but has no extension.
  write("package.json", { type: "module" });
  write("targets.json", {});
  const environment = { PATH: `${folder}${delimiter}${process.env.PATH}`, FAKE_CLUSTER: folder };
  const argv = (file: string, [command = "", ...words]: readonly string[]) => [
    ...[command, ...words, "--stack", "fake", "--config-file", file],
  ];
  const runFor = async (file: string, ...words: readonly string[]) => {
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const { exitCode, stdout, stderr } = await runCommand(...argv(file, words));
    return { code: exitCode, text: stdout + stderr };
  };
  return {
    folder,
    run: (...words) => runFor(stackFile, ...words),
    runFor,
    start: (...words) =>
      spawn(process.execPath, ["scripts/cli.mjs", ...argv(stackFile, words)], {
        cwd: projectRoot,
        env: { ...process.env, ...environment },
        stdio: ["ignore", "pipe", "pipe"],
      }),
    says: (words) => writeFileSync(join(folder, "says"), words),
    targets: (targets) => write("targets.json", targets),
    answers: (answers) => {
      writeFileSync(
        join(folder, "keys"),
        Object.keys(answers)
          .map((key) => `${key}\n`)
          .join(""),
      );
      for (const [number, answer] of Object.values(answers).entries())
        writeFileSync(
          join(folder, `answer.${number}`),
          typeof answer === "string" ? answer : JSON.stringify(answer),
        );
    },
    pids: (service) => lines(`${service}.pids`).map(Number),
    inputs: () => {
      const inputs: string[] = [];
      for (let index = 0; existsSync(join(folder, `stdin.${index}`)); index += 1)
        inputs.push(readFileSync(join(folder, `stdin.${index}`), "utf8"));
      return inputs;
    },
    calls: () => lines("calls").map((line) => line.split("\t")),
    // Calls may still run after a command that ends at its first refusal.
    remove: () => rm(folder, { recursive: true, maxRetries: 20, retryDelay: 50 }),
  };
}

/** Text of both outputs, and the exit code. */
export function watch(child: ChildProcess): {
  readonly text: () => string;
  readonly code: Promise<number | null>;
  /** Resolves when the words were printed. @throws Error if the process ends before. */
  saw(words: RegExp): Promise<void>;
} {
  let text = "";
  let check = () => {};
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (data: string) => {
      text += data;
      check();
    });
  const code = new Promise<number | null>((resolve) => child.on("close", resolve));
  return {
    text: () => text,
    code,
    saw: (words) =>
      new Promise((resolve, reject) => {
        check = () => {
          if (words.test(text)) resolve();
        };
        check();
        void code.then(() => reject(new Error(`It ended without ${words}:\n${text}`)));
      }),
  };
}
