/** The command as a process, against a gateway that is up, busy, held up or refuses. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/backend.ts";
import { saveState } from "../../../scripts/tryout/state.ts";
import { FakeGateway } from "./fake-gateway.ts";

const stack = `test-seed-${process.pid}`;
const MINUTE = 60_000;

let gateway: FakeGateway;
let folder: string;

beforeEach(async () => {
  gateway = new FakeGateway();
  await gateway.start();
  folder = mkdtempSync(join(tmpdir(), "engine-room-seed-"));
  const outputs = { endpoints: { gateway: gateway.url } };
  const urn = `urn:pulumi:${stack}::engine-room::pulumi:pulumi:Stack::engine-room-${stack}`;
  saveState(
    stackPaths(stack).tryoutState,
    [{ urn, custom: false, type: "pulumi:pulumi:Stack", outputs }],
    [],
  );
});

afterEach(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
  rmSync(stackPaths(stack).directory, { recursive: true, force: true });
});

function start(environment: Record<string, string> = {}): ChildProcessByStdio<null, Readable, Readable> {
  const harness = join(import.meta.dirname, "command-process.ts");
  return spawn(process.execPath, ["--import", "tsx", harness, stack, "--from", folder], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ENGINE_ROOM_RUNNER: "tryout", ENGINE_ROOM_API_KEY: "", ...environment },
  });
}

async function ended(child: ChildProcessByStdio<null, Readable, Readable>) {
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  const [stdout, stderr] = await output;
  return { code, signal, stdout, stderr };
}

function captions(count: number): void {
  const lines = Array.from({ length: count }, (_, index) => JSON.stringify({ text: `Document ${index}.` }));
  writeFileSync(join(folder, "captions.jsonl"), lines.join("\n"));
}

describe("npm run seed", { timeout: MINUTE }, () => {
  test("loads captions and pictures; without a terminal it prints lines and no control characters", async () => {
    mkdirSync(join(folder, "pets"));
    writeFileSync(join(folder, "pets", "black-cat_01.jpg"), "cat");
    writeFileSync(join(folder, "x.png"), "dog");
    const line = { file: "x.png", text: "A dog.", id: "dog-1", metadata: { year: 2024 } };
    writeFileSync(join(folder, "captions.jsonl"), `${JSON.stringify(line)}\n\n{"text":"A text alone."}\n`);
    const { code, stdout, stderr } = await ended(start({ ENGINE_ROOM_API_KEY: "secret" }));
    expect({ code, stderr }).toEqual({ code: 0, stderr: "  3 of 3 documents (100 %)\n" });
    expect(stdout).toMatch(/^3 documents in [\d.]+ s: 3 created, 0 updated, 0 unchanged, 0 failed\n$/);
    const loaded = [...gateway.documents.values()].map(({ id, text, image, metadata }) => ({
      id: id.replace(/[0-9a-f]{32}$/, "…"),
      text,
      image: image?.toString(),
      metadata,
    }));
    expect(loaded).toEqual([
      { id: "dog-1", text: "A dog.", image: "dog", metadata: { file: "x.png", year: 2024 } },
      { id: "text-…", text: "A text alone.", image: undefined, metadata: {} },
      {
        id: "black-cat-01-…",
        text: "black cat 01",
        image: "cat",
        metadata: { file: "pets/black-cat_01.jpg" },
      },
    ]);
    expect(gateway.keys).toEqual(["Bearer secret"]);
  });

  test("goes on after a kill: what the gateway has is not loaded again", async () => {
    captions(640);
    gateway.answered = 3;
    const held = gateway.held();
    const child = start();
    const end = ended(child);
    await held;
    child.kill("SIGKILL");
    expect((await end).signal).toBe("SIGKILL");
    expect(gateway.documents.size).toBe(192);

    gateway.answered = Number.POSITIVE_INFINITY;
    const { code, stdout } = await ended(start());
    expect(code).toBe(0);
    expect(stdout).toMatch(/: 448 created, 0 updated, 192 unchanged, 0 failed\n$/);
  });

  test("Ctrl-C ends it at once and says what is left", async () => {
    captions(640);
    gateway.answered = 3;
    const held = gateway.held();
    const child = start();
    const end = ended(child);
    await held;
    child.kill("SIGINT");
    const { code, stdout } = await end;
    expect(code).toBe(130);
    expect(stdout).toMatch(/Stopped: interrupted\. 448 are left; the same command goes on from there\.\n$/);
  });

  test("waits as long as a busy gateway asks for", async () => {
    captions(2);
    gateway.busy = 2;
    const { code, stdout, stderr } = await ended(start());
    expect({ code, requests: gateway.requests }).toEqual({ code: 0, requests: [2, 2, 2] });
    const wait = "  HTTP 503: models are loading; trying again in 1.0 s\n";
    expect(stderr).toBe(`${wait}${wait}  2 of 2 documents (100 %)\n`);
    expect(stdout).toContain("2 created");
  });

  test("lists every bad picture and line with its reason, loads the others, and exits with 1", async () => {
    writeFileSync(join(folder, "bad.jpg"), "BAD picture");
    writeFileSync(join(folder, "empty.jpg"), "");
    writeFileSync(join(folder, "good.jpg"), "good picture");
    writeFileSync(join(folder, "captions.jsonl"), 'nonsense\n{"file":"missing.jpg"}\n');
    const { code, stdout } = await ended(start());
    expect(code).toBe(1);
    expect(
      stdout
        .split("\n")
        .slice(0, -2)
        .map((line) => line.replace(/no JSON: .*/, "no JSON")),
    ).toEqual([
      "FAILED captions.jsonl:1: it is no JSON",
      "FAILED captions.jsonl:2: file: missing.jpg does not exist",
      "FAILED empty.jpg: the file is empty",
      "FAILED bad.jpg: HTTP 400: the image can't be decoded",
    ]);
    expect(stdout).toMatch(/\n5 documents in [\d.]+ s: 1 created, 0 updated, 0 unchanged, 4 failed\n$/);
    expect([...gateway.documents.values()].map((document) => document.text)).toEqual(["good"]);
  });

  test("stops where no document can pass, with the reason", async () => {
    captions(640);
    gateway.status = 401;
    const { code, stdout } = await ended(start());
    expect(code).toBe(1);
    expect(stdout).toMatch(/Stopped: the gateway asks for another key; put it into ENGINE_ROOM_API_KEY/);
    expect(stdout).toContain("640 are left");
  });
});
