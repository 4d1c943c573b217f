/** What the Pulumi CLI is told, and what is made of its answers, with a stand-in for it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { UserError } from "../../../scripts/errors.ts";
import { PulumiCli } from "../../../scripts/stack/pulumi-cli.ts";
import { PulumiLockedError } from "../../../scripts/stack/pulumi-lock.ts";

const FAKE = `#!/usr/bin/env node
const [what] = process.argv.slice(2);
if (what === "arguments") console.log(JSON.stringify(process.argv.slice(2)));
if (what === "state") console.log(process.env.PULUMI_BACKEND_URL);
if (what === "letters") {
  const [first, ...rest] = Buffer.from("€");
  process.stdout.write(Buffer.from([first]));
  setTimeout(() => process.stdout.write(Buffer.from(rest)), 100);
}
if (what === "fail" || what === "locked") {
  console.log("half of it");
  console.error(what === "fail" ? "error: no such thing" : "error: the stack is currently locked by 1 lock(s)");
  process.exitCode = 3;
}
`;
const folder = mkdtempSync(join(tmpdir(), "engine-room-cli-"));
writeFileSync(join(folder, "pulumi"), FAKE, { mode: 0o755 });
afterAll(() => rmSync(folder, { recursive: true }));
const cli = new PulumiCli(join(folder, "pulumi"), "dev", `file://${folder}`);
const quiet = { output: undefined };

test("commands are about the stack, unless they are told that they are not, and ask nobody", async () => {
  const { stdout } = await cli.run(["arguments"], quiet);
  expect(JSON.parse(stdout)).toEqual(["arguments", "--non-interactive", "--stack", "dev"]);
  const { stdout: without } = await cli.run(["arguments"], { ...quiet, select: false });
  expect(JSON.parse(without)).toEqual(["arguments", "--non-interactive"]);
});

test("the state is the stack's", async () => {
  expect((await cli.run(["state"], quiet)).stdout).toBe(`file://${folder}\n`);
});

test("a letter whose bytes come in two parts is whole", async () => {
  expect((await cli.run(["letters"], quiet)).stdout).toBe("€");
});

test("a failure has the words that nobody has seen yet", async () => {
  await expect(cli.run(["fail"], quiet)).rejects.toThrow(
    new UserError("`pulumi fail` ended with exit code 3.\nhalf of it\nerror: no such thing\n"),
  );
  const output = new PassThrough();
  await expect(cli.run(["fail"], { output })).rejects.toThrow(
    new UserError("`pulumi fail` ended with exit code 3."),
  );
  output.end();
  expect((await text(output)).split("\n").toSorted()).toEqual(["", "error: no such thing", "half of it"]);
  const allowed = await cli.run(["fail"], { ...quiet, allowFailure: true });
  expect(allowed).toEqual({ code: 3, stdout: "half of it\n", stderr: "error: no such thing\n" });
});

test("lines that are no news are not shown", async () => {
  const output = new PassThrough();
  await cli.run(["fail"], { output, allowFailure: true, hiding: "no such thing" });
  output.end();
  expect(await text(output)).toBe("half of it\n");
});

test("a stack that somebody else works on is an error of its own", async () => {
  await expect(cli.run(["locked"], quiet)).rejects.toThrow(PulumiLockedError);
});
