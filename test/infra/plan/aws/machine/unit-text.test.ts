import { spawnSync } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { commandLine, unitText } from "../../../../../infra/plan/aws/machine/unit-text.ts";
import { missingSystemd, SYSTEMD } from "../../../../harness/systemd.ts";

/** Any text that a program can be given. */
const word = fc
  .string({
    unit: fc.oneof(
      fc.constantFrom(..."\"'\\$%{};#\n\t\r -=~`"),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    ),
  })
  .filter((text) => !text.includes("\0") && text.isWellFormed());

/** As systemd.syntax(7) and systemd.service(5) have it, for what is between double quotes. */
function wordsOf(line: string): readonly string[] {
  const joined = line.replace(/\\\n/g, " ");
  const words = [...joined.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/gu)].map(([, quoted, plain]) =>
    quoted === undefined
      ? (plain ?? "")
      : quoted.replace(/\\(?:x([0-9a-f]{2})|(.))/gu, (_, hex, one) =>
          hex === undefined ? one : String.fromCharCode(Number.parseInt(hex, 16)),
        ),
  );
  return words.map((text) => text.replaceAll("%%", "%").replaceAll("$$", "$"));
}

test("a command's words come back as they were", () => {
  fc.assert(
    fc.property(fc.array(word), (words) => {
      const argv = ["/usr/bin/docker", ...words];
      expect(wordsOf(commandLine(argv))).toEqual(argv);
    }),
  );
});

test("no word is left to systemd: neither a line's end, nor a specifier, nor a variable, nor a comment", () => {
  fc.assert(
    fc.property(fc.array(word), (words) => {
      const lines = commandLine(["/usr/bin/docker", ...words]).split("\n");
      expect(lines).toHaveLength(words.length + 1);
      for (const line of lines) {
        expect(line.replaceAll("%%", "").replaceAll("$$", "")).not.toMatch(/[%$]/);
        expect(line.trimStart()).not.toMatch(/^[#;]/);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be left.
        expect(line).not.toMatch(/[\u0000-\u001f]/);
      }
    }),
  );
});

test.each(["a\0b", "\ud800"])("%j is no argument of a program", (text) => {
  expect(() => commandLine(["/usr/bin/docker", text])).toThrow("No program can be given the argument");
});

test("sections keep their lines' order", () => {
  const sections = {
    Unit: [
      ["After", "b"],
      ["After", "a"],
    ],
    Service: [["Type", "exec"]],
  } as const;
  expect(unitText(sections)).toBe("[Unit]\nAfter=b\nAfter=a\n\n[Service]\nType=exec\n");
});

describe.skipIf(missingSystemd !== undefined)(
  `systemd itself${missingSystemd === undefined ? "" : ` (skipped: ${missingSystemd})`}`,
  () => {
    test("reads the same words", () => {
      const argv = [
        "/bin/echo",
        "",
        "#a",
        ";",
        "a\nb\tc",
        "a \"b\" 'c' \\ \\x41 \\n",
        "100%d %%",
        "--env=A=ü €",
      ];
      // Printed before variables are put in.
      expect(loadedCommand(commandLine([...argv, "$HOME"]))).toEqual([...argv, "$$HOME"]);
    });
  },
);

const NOBODY = 65_534;

/** What systemd says that it would run: its test mode starts nothing. */
function loadedCommand(command: string): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-units-"));
  try {
    mkdirSync(join(folder, "run"));
    // It is nobody's: as root's it would want to be the machine's own.
    const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
    if (owner.uid !== undefined)
      for (const path of [folder, join(folder, "run")]) chownSync(path, NOBODY, NOBODY);
    writeFileSync(
      join(folder, "words.service"),
      unitText({
        Service: [
          ["Type", "oneshot"],
          ["ExecStart", command],
        ],
      }),
    );
    const run = spawnSync(SYSTEMD, ["--user", "--test", "--unit=words.service"], {
      ...owner,
      encoding: "utf8",
      timeout: 60_000,
      maxBuffer: 16 * 2 ** 20,
      env: {
        ...process.env,
        HOME: join(folder, "run"),
        XDG_RUNTIME_DIR: join(folder, "run"),
        SYSTEMD_UNIT_PATH: `${folder}:`,
        SYSTEMD_LOG_TARGET: "console",
        SYSTEMD_LOG_LEVEL: "debug",
        LC_ALL: "C.UTF-8",
      },
    });
    const output = `${run.stdout}${run.stderr}`;
    const [, line] = /Command Line: (\/bin\/echo .*)$/m.exec(output) ?? [];
    if (line === undefined) throw new Error(`systemd does not print the command: ${output.slice(-2000)}`);
    return shellWords(line);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** It quotes as for a shell, with the escapes of C. */
function shellWords(line: string): readonly string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/gu)].map(([, quoted, plain]) =>
    (quoted ?? plain ?? "").replace(/\\(.)/gu, (_, one: string) => ({ n: "\n", t: "\t" })[one] ?? one),
  );
}
