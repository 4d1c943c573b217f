/** A folder with a kubectl for the PATH, what it answers, and a stack that runs there. */
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";

export const STACK = {
  platform: "kubernetes",
  context: "fake",
  encoders: false,
  pools: [{ name: "gpu", machine: { gpu: "L40S", gpus: 2, vcpus: 32, memoryGiB: 128, networkMbps: 10_000 } }],
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  models: [{ name: "llava", model: "llava-1.5-7b", flavour: "llava" }],
};

export interface FakeKubectl {
  readonly folder: string;
  /** Runs a command of the project with it. */
  run(...words: string[]): ChildProcess;
  /** The same with another stack file. */
  runFor(stackFile: string, ...words: string[]): ChildProcess;
  /** @param targets - Ports of this machine by `NAMESPACE/SERVICE:PORT`. */
  targets(targets: Readonly<Record<string, number>>): void;
  /** What it says of every call, instead of doing anything. */
  says(words: string): void;
  /** What is printed for calls that begin so. */
  answers(answers: Readonly<Record<string, unknown>>): void;
  /** Of the forwards of a Service that were started, in their order. */
  pids(service: string): readonly number[];
  /** What was given to kubectl, in order. */
  inputs(): readonly string[];
  calls(): readonly (readonly string[])[];
  remove(): void;
}

export function fakeKubectl(): FakeKubectl {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-kubectl-"));
  // Executable as it is in the repository.
  copyFileSync(fileURLToPath(new URL("fake-kubectl.mjs", import.meta.url)), join(folder, "kubectl"));
  const stackFile = writtenStackFile(folder, STACK);
  const lines = (name: string) =>
    existsSync(join(folder, name))
      ? readFileSync(join(folder, name), "utf8")
          .split("\n")
          .filter((line) => line !== "")
      : [];
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  // The file has no extension that would say so.
  write("package.json", { type: "module" });
  write("targets.json", {});
  write("answers.json", {});
  const runFor = (file: string, command = "", ...words: readonly string[]) =>
    spawn(
      process.execPath,
      ["scripts/cli.mjs", command, ...words, "--stack", "fake", "--config-file", file],
      {
        cwd: projectRoot,
        env: {
          ...process.env,
          PATH: `${folder}${delimiter}${process.env.PATH}`,
          FAKE_CLUSTER: folder,
        },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
  return {
    folder,
    run: (...words) => runFor(stackFile, ...words),
    runFor,
    says: (words) => writeFileSync(join(folder, "says"), words),
    targets: (targets) => write("targets.json", targets),
    answers: (answers) => write("answers.json", answers),
    pids: (service) => lines(`${service}.pids`).map(Number),
    inputs: () => {
      const inputs: string[] = [];
      for (let index = 0; existsSync(join(folder, `stdin.${index}`)); index += 1)
        inputs.push(readFileSync(join(folder, `stdin.${index}`), "utf8"));
      return inputs;
    },
    calls: () => lines("calls").map((line) => JSON.parse(line) as string[]),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

/** Text of both outputs, and how the process ends. */
export function watch(child: ChildProcess): {
  readonly text: () => string;
  readonly code: Promise<number | null>;
  /** Resolves when the words were printed. @throws Error where the process ends before. */
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
