/** `npm run preview` through the Pulumi CLI, with a stand-in that says of a preview what the real one does. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { TestStack } from "../../harness/stack.ts";

const FAKE_PULUMI = `#!/usr/bin/env node
const fs = require("node:fs");
const args = process.argv.slice(2);
const words = args.slice(0, 2).join(" ");
if (words === "stack init") fs.writeFileSync("Pulumi." + args[2] + ".yaml", "encryptionsalt: v1:salt\\n");
if (words === "stack export") console.log("{}");
if (args[0] === "preview") {
  console.error("warning: the stack file is old");
  if (process.env.FAKE_PREVIEW === "same") console.log("Resources:\\n    5 unchanged");
  if (process.env.FAKE_PREVIEW === "changed") {
    console.log("Resources:\\n    + 2 to create");
    // The real one has its own error for it, and only where it was asked to.
    if (args.includes("--expect-no-changes")) {
      process.stderr.write("error: no changes were ");
      setTimeout(() => process.stderr.write("expected but changes were proposed\\n"), 50);
      process.exitCode = 255;
    }
  }
  if (process.env.FAKE_PREVIEW === "broken") {
    console.error("error: no resource plugin");
    process.exitCode = 255;
  }
}
`;

const folder = mkdtempSync(join(tmpdir(), "engine-room-preview-"));
writeFileSync(join(folder, "pulumi"), FAKE_PULUMI);
chmodSync(join(folder, "pulumi"), 0o755);
const stack = new TestStack("preview");
const environment = {
  PATH: `${folder}${delimiter}${process.env.PATH}`,
  ENGINE_ROOM_RUNNER: "",
  ENGINE_ROOM_STATE_URL: "",
};
afterAll(async () => {
  await stack.dispose(environment);
  rmSync(folder, { recursive: true });
});

const preview = (result: string, ...options: string[]) =>
  stack.runWith({ ...environment, FAKE_PREVIEW: result }, "preview", ...options);

test("changes are shown, and are no error", async () => {
  const { code, stdout, stderr } = await preview("changed");
  expect(code).toBe(0);
  expect(stdout).toContain("+ 2 to create");
  expect(stdout).toContain("warning: the stack file is old\n");
  expect(stdout + stderr).not.toContain("error");
});

test("where none are expected, the exit code and a sentence say that there are some", async () => {
  const { code, stdout, stderr } = await preview("changed", "--expect-no-changes");
  expect(code).toBe(1);
  expect(stdout).toContain("+ 2 to create");
  expect(stdout).not.toContain("error");
  expect(stderr).toBe("Something would change, and --expect-no-changes says that nothing should.\n");
  expect(await preview("same", "--expect-no-changes")).toMatchObject({ code: 0, stderr: "" });
});

test("a preview that fails is an error still, in the CLI's own words", async () => {
  const { code, stdout, stderr } = await preview("broken");
  expect(code).toBe(1);
  expect(stdout).toContain("error: no resource plugin\n");
  expect(stderr).toContain("pulumi preview failed; its output above says why.");
});
