/** actionlint over the workflows: syntax, expressions, inputs of actions, and, where shellcheck is on PATH, their scripts. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { buildGoModules } from "../harness/kubernetes/go-build.ts";
import { findGo } from "../harness/kubernetes/go-toolchain.ts";

const go = await findGo();
const missing = "reason" in go ? go.reason : undefined;
const BUILD_TIMEOUT_MILLISECONDS = 30 * 60_000;

describe.skipIf(missing !== undefined)(
  `actionlint${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let program: string;
    let folder: string;

    beforeAll(async () => {
      const built = await buildGoModules(["actionlint"], (line) => void process.stderr.write(`${line}\n`));
      if ("reason" in built) throw new Error(built.reason);
      program = join(built.actionlint, "actionlint");
      folder = mkdtempSync(join(tmpdir(), "engine-room-workflows-"));
    }, BUILD_TIMEOUT_MILLISECONDS);

    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    function lint(cwd: string, ...files: readonly string[]) {
      const { status, stdout, stderr } = spawnSync(program, ["-no-color", "-oneline", ...files], {
        cwd,
        encoding: "utf8",
      });
      return { status, lines: `${stdout}${stderr}`.split("\n").filter((line) => line !== "") };
    }

    test("has nothing to say of the workflows", () => {
      expect(lint(projectRoot)).toEqual({ status: 0, lines: [] });
    });

    test("sees what is wrong", () => {
      mkdirSync(join(folder, ".github/workflows"), { recursive: true });
      const file = join(folder, ".github/workflows/wrong.yml");
      writeFileSync(
        file,
        `on: push\njobs:\n  one:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo \${{ github.evnt.number }}\n`,
      );
      const { status, lines } = lint(folder, file);
      expect(status).toBe(1);
      expect(lines.join("\n")).toContain('property "evnt" is not defined');
    });
  },
);
