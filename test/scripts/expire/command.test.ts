/** `npm run expire` as a job types it, with a stand-in for the Pulumi CLI, and one for what AWS still has by tag. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { stateUrls } from "../../../scripts/expire/pulumi-states.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/backend.ts";
import { eksValues } from "../../infra/plan/aws/stacks.ts";
import { account } from "../aws/account.ts";
import { type FakeAnswer, type FakeAws, startFakeAws } from "../aws/fake-aws.ts";
import { FakePulumi, type FakeStack } from "./fake-pulumi.ts";

const NAT_GATEWAY = "arn:aws:ec2:us-east-1:111122223333:natgateway/nat-0123";
let aws: FakeAws;
/** What AWS says to the list by tag. */
let tagged: FakeAnswer;
beforeEach(() => {
  tagged = { json: { ResourceTagMappingList: [{ ResourceARN: NAT_GATEWAY }] } };
});
beforeAll(async () => {
  aws = await startFakeAws(account({ "tag:GetResources": () => tagged }));
});
afterAll(() => aws.close());

let pulumi: FakePulumi;
afterEach(() => {
  for (const name of ["over", "stuck", "later", "locked", "fails"])
    rmSync(stackPaths(prefixed(name)).directory, { recursive: true, force: true });
  pulumi.dispose();
});

/** Its folder in .stacks/ is then that of no other run. */
const prefixed = (name: string) => `expire-${process.pid}-${name}`;

/** A stack on EKS with a ttl of 8 hours. */
function trial(changes: Partial<FakeStack> = {}): FakeStack {
  return { ageHours: 9, config: { ...eksValues, guard: { ttlHours: 8 } }, ...changes };
}

function expire(stacks: Readonly<Record<string, FakeStack>>, ...args: readonly string[]) {
  const named = Object.entries(stacks).map(([name, { upMeanwhile, ...stack }]) => [
    prefixed(name),
    { ...stack, ...(upMeanwhile === undefined ? {} : { upMeanwhile: prefixed(upMeanwhile) }) },
  ]);
  pulumi = new FakePulumi(Object.fromEntries(named));
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve, reject) => {
    const child = spawn(process.execPath, ["scripts/cli.mjs", "expire", ...args], {
      cwd: projectRoot,
      env: {
        ...process.env,
        PATH: `${pulumi.folder}${delimiter}${process.env.PATH}`,
        TMPDIR: pulumi.folder,
        ENGINE_ROOM_RUNNER: "",
        ENGINE_ROOM_STATE_URL: "s3://room-state/pulumi",
        AWS_ENDPOINT_URL: aws.url,
        AWS_ACCESS_KEY_ID: "key",
        AWS_SECRET_ACCESS_KEY: "secret",
      },
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (data: Buffer) => {
      stdout += data;
    });
    child.stderr.on("data", (data: Buffer) => {
      stderr += data;
    });
    child.on("error", reject);
    child.on("close", (code) => {
      resolve({ code, stdout: unwrapped(stdout.replaceAll(`expire-${process.pid}-`, "")), stderr });
    });
  });
}

/** Without the breaks of the table's last column. */
function unwrapped(text: string): string {
  return text.replaceAll(/\n {20,}/g, " ");
}

const SPARED: Readonly<Record<string, FakeStack>> = {
  young: trial({ ageHours: 2 }),
  retained: trial({ config: { ...eksValues, guard: { ttlHours: 8 }, retain: [prefixed("retained")] } }),
  unlimited: trial({ config: eksValues, ageHours: 500 }),
  updating: trial({ updateInProgress: true }),
  empty: trial({ resourceCount: 0 }),
};

describe("without --down", () => {
  test("lists what would end with hours and cost, and ends nothing", async () => {
    const { code, stdout } = await expire({ over: trial(), ...SPARED });
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^over +over +(?:at least )?\$[\d.]+ +its last `up` ended 9(\.0)? h ago, and its ttl is 8 h$/m,
    );
    expect(stdout).toMatch(/^young +running /m);
    expect(stdout).toMatch(/^retained +retained /m);
    expect(stdout).toMatch(/^unlimited +no ttl /m);
    expect(stdout).toMatch(/^updating +busy /m);
    expect(stdout).not.toContain("empty");
    expect(stdout).toContain("1 stack has had its time; `npm run expire -- --down` ends what is over.");
    expect(pulumi.destroyed).toEqual([]);
  });

  test("an `up` is found behind a page of other operations, and those don't count", async () => {
    const others = Array.from({ length: 25 }, (_, index) => ["destroy", index / 100, "failed"] as const);
    const { stdout } = await expire({
      over: trial({ history: [...others, ["update", 9, "failed"]] }),
      // Of an earlier stack of that name.
      again: trial({
        history: [
          ["refresh", 1],
          ["destroy", 8],
          ["update", 9],
        ],
      }),
    });
    expect(stdout).toMatch(/^over +over /m);
    expect(stdout).toMatch(/^again +unknown +the state has no `up` of it that ended$/m);
  });

  test("a configuration that this program can't plan costs what nobody knows", async () => {
    const { code, stdout } = await expire({ over: trial({ config: { guard: { ttlHours: 1 } } }) });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^over +over +not known /m)]);
  });
});

describe("with --down", () => {
  test("ends what is over as `down` does, says what still costs money, and leaves the others", async () => {
    const { code, stdout } = await expire({ over: trial(), ...SPARED }, "--down");
    expect(code).toBe(0);
    expect(pulumi.destroyed).toEqual([prefixed("over")]);
    expect(pulumi.stacks).toEqual(Object.keys(SPARED).map(prefixed));
    expect(stdout).toMatch(/^Ending over: .*\(cost of an hour: (?:at least )?\$[\d.]+\)\.$/m);
    expect(stdout).toContain(NAT_GATEWAY);
    expect(stdout).toMatch(/^over: ended\.$/m);
    expect(readdirSync(pulumi.folder).toSorted()).toEqual(["calls", "pulumi", "state.json"]);
  });

  test("one whose rest AWS does not list is ended, and a person has to look", async () => {
    tagged = { error: "AccessDeniedException" };
    const { code, stdout } = await expire({ over: trial() }, "--down");
    expect(code).toBe(1);
    expect(pulumi.destroyed).toEqual([prefixed("over")]);
    expect(stdout).toMatch(/^over: ended, and nobody knows what of it still costs money\.$/m);
  });

  test("one of another account is left, and nothing of it is destroyed", async () => {
    const config = { ...eksValues, account: "999900001111", guard: { ttlHours: 8 } };
    const { code, stdout } = await expire({ over: trial({ config }) }, "--down");
    expect(code).toBe(1);
    expect(pulumi.destroyed).toEqual([]);
    expect(stdout).toContain("Your credentials are of the account 111122223333.");
  });

  test("one that can't be ended, or be read, stops no other, and the exit code says so", async () => {
    const broken = trial({ isBroken: true });
    const { code, stdout, stderr } = await expire(
      { fails: trial({ destroy: "fails" }), broken, over: trial() },
      "--down",
    );
    expect(code).toBe(1);
    expect(stderr).toContain("DependencyViolation");
    expect(stdout).toMatch(/^fails: not ended, and costs money still: `pulumi destroy /m);
    expect(stdout).toMatch(/^broken +unknown +`pulumi stack history` failed: error: history is gone;/m);
    expect(pulumi.destroyed).toEqual(["fails", "over"].map(prefixed));
    expect(pulumi.stacks).toEqual(["fails", "broken"].map(prefixed));
  });

  test("one that another operation has locked is left to it, and to a person where none takes that long", async () => {
    const locked = await expire({ locked: trial({ destroy: "locked" }) }, "--down");
    expect(locked.code).toBe(0);
    expect(locked.stdout).toMatch(/^locked: left alone: .*another operation has it\)\.$/m);
    pulumi.dispose();
    const stuck = await expire({ stuck: trial({ destroy: "locked", ageHours: 40 }) }, "--down");
    expect(stuck.code).toBe(1);
    expect(stuck.stdout).toMatch(/^stuck: left alone: .*`pulumi cancel`/m);
  });

  test("one that had an `up` while others were ended is asked again, and stays", async () => {
    const { code, stdout } = await expire(
      { over: trial({ upMeanwhile: "later" }), later: trial() },
      "--down",
    );
    expect(code).toBe(0);
    expect(pulumi.destroyed).toEqual([prefixed("over")]);
    expect(stdout).toMatch(/^later: left alone: it has changed meanwhile \(8(\.0)? h left of 8 h/m);
  });
});

test.each(["0", "soon", "1.5"])("minutes that are none are refused: %s", async (minutes) => {
  const { code, stderr } = await expire({ over: trial() }, "--down", "--begin-within", minutes);
  expect([code, stderr]).toEqual([2, expect.stringContaining("--begin-within takes whole minutes")]);
  expect(pulumi.destroyed).toEqual([]);
});

test("it is about all stacks, so that --stack is refused before anything is asked", async () => {
  const { code, stderr } = await expire({ over: trial() }, "--down", "--stack", "over");
  expect([code, stderr]).toEqual([2, expect.stringContaining("Unknown option '--stack'")]);
  expect(pulumi.destroyed).toEqual([]);
});

test("without a shared state it is about those of this machine that the CLI has", () => {
  pulumi = new FakePulumi({});
  vi.stubEnv("ENGINE_ROOM_STATE_URL", "");
  const root = mkdtempSync(join(tmpdir(), "engine-room-states-"));
  try {
    expect(stateUrls(root)).toEqual([]);
    mkdirSync(join(root, ".stacks/b/pulumi/.pulumi"), { recursive: true });
    mkdirSync(join(root, ".stacks/a/pulumi/.pulumi"), { recursive: true });
    mkdirSync(join(root, ".stacks/tryout"), { recursive: true });
    expect(stateUrls(root)).toEqual(
      ["a", "b"].map((name) => `file://${join(root, ".stacks", name, "pulumi")}`),
    );
  } finally {
    vi.unstubAllEnvs();
    rmSync(root, { recursive: true });
  }
});
