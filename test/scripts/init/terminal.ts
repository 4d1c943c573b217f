/** A command of the project on a pseudo-terminal. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

/** Copies its standard input to the terminal, and the terminal's output to its standard output. */
const PTY =
  "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', 'stty cols 120 rows 50; exec \"$@\"', 'sh', *sys.argv[1:]])))";

export const KEYS = {
  enter: "\r",
  down: "\u001b[B",
  space: " ",
  erase: "\u007f",
  interrupt: "\u0003",
} as const;

export class Terminal {
  readonly #process;
  readonly #ended;
  #shown = "";
  #read = 0;

  constructor(...argv: readonly string[]) {
    const node = [process.execPath, "scripts/cli.mjs", ...argv];
    const { CI: _, ...env } = process.env;
    this.#process = spawn("python3", ["-c", PTY, ...node], {
      cwd: projectRoot,
      env: { ...env, TERM: "xterm" },
    });
    this.#ended = once(this.#process, "close");
    this.#process.stdout.on("data", (bytes: Buffer) => {
      this.#shown += bytes.toString();
    });
  }

  /** Waits until the terminal shows the words after the last awaited words, and types keys. */
  async answer(words: string, ...keys: readonly string[]): Promise<void> {
    for (;;) {
      const found = this.text.indexOf(words, this.#read);
      if (found >= 0) {
        this.#read = found + words.length;
        break;
      }
      if (this.#process.exitCode !== null) throw new Error(`It ended without "${words}":\n${this.text}`);
      await Promise.race([once(this.#process.stdout, "data"), this.#ended]);
    }
    // Two keys in the same read may be treated as a paste.
    for (const key of keys) {
      this.#process.stdin.write(key);
      await once(this.#process.stdout, "data");
    }
  }

  /** The exit code. */
  async end(): Promise<number> {
    const [code] = (await this.#ended) as [number];
    return code;
  }

  /** All output, with control characters. */
  get bytes(): string {
    return this.#shown;
  }

  /** All output, without control characters. */
  get text(): string {
    return stripVTControlCharacters(this.#shown);
  }
}
