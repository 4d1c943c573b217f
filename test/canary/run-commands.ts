/** Runs commands of the project and records their output, files and started programs. */
import { execFile } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { stackFileText } from "../harness/stack-files.ts";

/** Programs that commands start. Each stand-in records its arguments and input and fails, as if nothing existed. */
const STAND_INS = ["docker", "kubectl", "ssh", "pulumi", "helm", "nvidia-smi"];

const TIMEOUT_MILLISECONDS = 300_000;

export interface Workplace {
  readonly folder: string;
  readonly stackFile: string;
  /** Output by command. */
  readonly printed: Map<string, string>;
}

/** @param absent - Programs without a stand-in. */
export function workplace(values: Readonly<Record<string, unknown>>, absent: readonly string[]): Workplace {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-canary-")));
  for (const part of ["bin", "home", "tmp", "calls"]) mkdirSync(join(folder, part));
  for (const name of STAND_INS.filter((one) => !absent.includes(one))) {
    const file = join(folder, "bin", name);
    // Writes arguments, environment and standard input of each call to its own file.
    writeFileSync(
      file,
      `#!/bin/sh\ncall="${folder}/calls/${name}.$$"\n{ printf '%s\\n' "$@"; env; timeout 2 cat; } > "$call" 2>/dev/null\necho "${name}: nothing is there" >&2\nexit 1\n`,
    );
    chmodSync(file, 0o755);
  }
  const stackFile = join(folder, "stack.yaml");
  writeFileSync(stackFile, stackFileText(values), { mode: 0o600 });
  return { folder, stackFile, printed: new Map() };
}

/**
 * Runs commands one after another in one process, as a user would type them. Keeps the output of each in the workplace, and
 * all other output of the process under `(process)`.
 */
export async function runCommands(
  place: Workplace,
  stack: string,
  lines: readonly (readonly string[])[],
): Promise<void> {
  const commandLines = lines.map(([command = "", ...rest]) => [
    command,
    // `ci` reads files of other commands, and no stack file.
    ...(command === "ci" ? [] : ["--stack", stack, "--config-file", place.stackFile]),
    ...rest,
  ]);
  const out = `${place.folder}.json`;
  const path = [join(place.folder, "bin"), dirname(process.execPath), "/usr/bin", "/bin"].join(":");
  const rest = await new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      ["test/canary/command-lines.mjs", JSON.stringify(commandLines), out],
      {
        cwd: projectRoot,
        timeout: TIMEOUT_MILLISECONDS,
        env: {
          PATH: path,
          HOME: join(place.folder, "home"),
          TMPDIR: join(place.folder, "tmp"),
          INIT_CWD: place.folder,
        },
      },
      (_error, stdout, stderr) => resolve(stdout + stderr),
    );
  });
  place.printed.set("(process)", `${place.printed.get("(process)") ?? ""}${rest}`);
  const printed = JSON.parse(readFileSync(out, "utf8")) as readonly string[];
  rmSync(out);
  for (const [index, words] of lines.entries()) place.printed.set(words.join(" "), printed[index] ?? "");
}

/** Content of every file below the folders that exist, by path. */
export function filesBelow(...folders: readonly string[]): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  const walk = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) walk(path);
      else if (entry.isFile()) files.set(path, readFileSync(path, "latin1"));
    }
  };
  for (const folder of folders) {
    try {
      walk(folder);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  return files;
}

export function clear({ folder }: Workplace, stack: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  rmSync(join(projectRoot, ".stacks", stack), { recursive: true, force: true, maxRetries: 5 });
}
