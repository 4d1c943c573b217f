import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type Ending,
  endAll,
  type Lifetime,
  LONGEST_OPERATION_HOURS,
  lifetimeOf,
  type SurveyedStack,
} from "../../../scripts/expire/expire.ts";
import { PulumiState, type StackRecord, stateUrls } from "../../../scripts/expire/pulumi-states.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { times } from "../../harness/thorough.ts";
import { eksValues } from "../../infra/plan/aws/stacks.ts";
import { account } from "../aws/account.ts";
import { type FakeAnswer, type FakeAws, startFakeAws } from "../aws/fake-aws.ts";
import { runCommand } from "../plan/run-plan.ts";
import { FakePulumi, type FakeStack } from "./fake-pulumi.ts";

/** With stand-ins for the Pulumi CLI and for AWS's list of resources by tag. */
describe("npx engine-room expire", () => {
  const NAT_GATEWAY = "arn:aws:ec2:us-east-1:111122223333:natgateway/nat-0123";

  let aws: FakeAws;

  /** AWS's list of resources by tag. */
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
    // The folder in TMPDIR is removed.
    vi.unstubAllEnvs();
    for (const name of ["over", "stuck", "later", "locked", "fails"])
      rmSync(stackPaths(prefixed(name)).directory, { recursive: true, force: true });
    pulumi.dispose();
  });

  /** Stack name of only this run, as is its folder in .stacks/. */
  const prefixed = (name: string) => `expire-${process.pid}-${name}`;

  /** A stack on EKS with a ttl of 8 hours. */
  function trial(changes: Partial<FakeStack> = {}): FakeStack {
    return { ageHours: 9, config: { ...eksValues, guard: { ttlHours: 8 } }, ...changes };
  }

  /** Runs the command in this process. */
  async function expire(stacks: Readonly<Record<string, FakeStack>>, ...args: readonly string[]) {
    vi.unstubAllEnvs();
    for (const [name, value] of Object.entries(environmentOf(stacks))) vi.stubEnv(name, value);
    const { exitCode, stdout, stderr } = await runCommand("expire", ...args);
    return { exitCode, stdout: shown(stdout), stderr };
  }

  /** Runs the command in its own process, which includes the CLI's own output. */
  async function expireInProcess(stacks: Readonly<Record<string, FakeStack>>, ...args: readonly string[]) {
    const child = spawn(process.execPath, ["scripts/cli.mjs", "expire", ...args], {
      cwd: projectRoot,
      env: { ...process.env, ...environmentOf(stacks) },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [closed, stdout, stderr] = [once(child, "close"), text(child.stdout), text(child.stderr)];
    const [exitCode] = (await closed) as [number | null];
    return { exitCode, stdout: shown(await stdout), stderr: await stderr };
  }

  /** Environment of a job; the fake CLI of these stacks is the first on its PATH. */
  function environmentOf(stacks: Readonly<Record<string, FakeStack>>): Readonly<Record<string, string>> {
    const named = Object.entries(stacks).map(([name, { upMeanwhile, ...stack }]) => [
      prefixed(name),
      { ...stack, ...(upMeanwhile === undefined ? {} : { upMeanwhile: prefixed(upMeanwhile) }) },
    ]);
    pulumi = new FakePulumi(Object.fromEntries(named));
    return {
      PATH: `${pulumi.folder}${delimiter}${process.env.PATH}`,
      TMPDIR: pulumi.folder,
      ENGINE_ROOM_RUNNER: "",
      PULUMI_BACKEND_URL: "s3://room-state/pulumi",
      AWS_ENDPOINT_URL: aws.url,
      AWS_ACCESS_KEY_ID: "key",
      AWS_SECRET_ACCESS_KEY: "secret",
    };
  }

  function shown(stdout: string): string {
    return unwrapped(stdout.replaceAll(`expire-${process.pid}-`, ""));
  }

  /** Removes the line breaks of the table's last column. */
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

  test("`expire` lists expired stacks with hours and cost, and destroys nothing without --down", async () => {
    const { exitCode, stdout } = await expire({ over: trial(), ...SPARED });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^over +expired +(?:at least )?\$[\d.]+ +its last `up` ended 9(\.0)? h ago, and its ttl is 8 h$/m,
    );
    expect(stdout).toMatch(/^young +running /m);
    expect(stdout).toMatch(/^retained +retained /m);
    expect(stdout).toMatch(/^unlimited +no ttl /m);
    expect(stdout).toMatch(/^updating +busy /m);
    expect(stdout).not.toContain("empty");
    expect(stdout).toContain("1 stack is expired; `npx engine-room expire --down` destroys it.");
    expect(pulumi.destroyed).toEqual([]);
  });

  test("`expire` finds an `up` behind a page of other operations", async () => {
    const others = Array.from({ length: 25 }, (_, index) => ["destroy", index / 100, "failed"] as const);
    const { stdout } = await expire({
      over: trial({ history: [...others, ["update", 9, "failed"]] }),
      // The `up` belongs to an earlier stack of that name.
      again: trial({
        history: [
          ["refresh", 1],
          ["destroy", 8],
          ["update", 9],
        ],
      }),
    });
    expect(stdout).toMatch(/^over +expired /m);
    expect(stdout).toMatch(/^again +unknown +the state has no `up` of it that ended$/m);
  });

  test("a configuration that can't be planned has an unknown cost", async () => {
    const { exitCode, stdout } = await expire({ over: trial({ config: { guard: { ttlHours: 1 } } }) });
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^over +expired +not known /m)]);
  });

  test("`expire --down` destroys expired stacks, lists what still costs money, and leaves the others", async () => {
    const { exitCode, stdout } = await expire({ over: trial(), ...SPARED }, "--down");
    expect(exitCode).toBe(0);
    expect(pulumi.destroyed).toEqual([prefixed("over")]);
    expect(pulumi.stacks).toEqual(Object.keys(SPARED).map(prefixed));
    expect(stdout).toMatch(/^Destroying over: .*\(cost of an hour: (?:at least )?\$[\d.]+\)\.$/m);
    expect(stdout).toContain(NAT_GATEWAY);
    expect(stdout).toMatch(/^over: destroyed\.$/m);
    expect(readdirSync(pulumi.folder).toSorted()).toEqual(["calls", "names", "pulumi", "stacks"]);
  });

  test("`expire --down --json` prints one JSON object on standard output", async () => {
    const { exitCode, stdout, stderr } = await expire({ over: trial() }, "--down", "--json");
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ isDone: true, stacks: [{ name: "over" }] });
    expect(stderr).toContain(NAT_GATEWAY);
  });

  test("`expire --down` fails after ending a stack whose leftovers AWS does not list", async () => {
    tagged = { error: "AccessDeniedException" };
    const { exitCode, stdout } = await expire({ over: trial() }, "--down");
    expect(exitCode).toBe(1);
    expect(pulumi.destroyed).toEqual([prefixed("over")]);
    expect(stdout).toMatch(/^over: destroyed; it is unknown whether parts of it still cost money\.$/m);
  });

  test("`expire --down` does not touch a stack of another account", async () => {
    const config = { ...eksValues, account: "999900001111", guard: { ttlHours: 8 } };
    const { exitCode, stdout } = await expire({ over: trial({ config }) }, "--down");
    expect(exitCode).toBe(1);
    expect(pulumi.destroyed).toEqual([]);
    expect(stdout).toContain("Your credentials are of the account 111122223333.");
  });

  test("`expire --down` destroys the other stacks and fails if a stack can't be destroyed or read", async () => {
    const broken = trial({ isBroken: true });
    const { exitCode, stdout } = await expireInProcess(
      { fails: trial({ destroy: "fails" }), broken, over: trial() },
      "--down",
    );
    expect(exitCode).toBe(1);
    expect(stdout).toContain("DependencyViolation");
    expect(stdout).toMatch(
      /^fails: not destroyed, still costs money: `pulumi destroy` ended with exit code 1\.$/m,
    );
    expect(stdout).toMatch(/^broken +unknown +`pulumi stack history` failed: error: history is gone;/m);
    expect(pulumi.destroyed).toEqual(["fails", "over"].map(prefixed));
    expect(pulumi.stacks).toEqual(["fails", "broken"].map(prefixed));
  });

  test("`expire --down` does not touch a locked stack, and fails if the lock is too old", async () => {
    const locked = await expire({ locked: trial({ destroy: "locked" }) }, "--down");
    expect(locked.exitCode).toBe(0);
    expect(locked.stdout).toMatch(/^locked: not destroyed: .*another operation has it\)\.$/m);
    pulumi.dispose();
    const stuck = await expire({ stuck: trial({ destroy: "locked", ageHours: 40 }) }, "--down");
    expect(stuck.exitCode).toBe(1);
    expect(stuck.stdout).toMatch(/^stuck: not destroyed: .*`pulumi cancel`/m);
  });

  test("`expire --down` does not touch a stack that had an `up` meanwhile", async () => {
    const { exitCode, stdout } = await expire(
      { over: trial({ upMeanwhile: "later" }), later: trial() },
      "--down",
    );
    expect(exitCode).toBe(0);
    expect(pulumi.destroyed).toEqual([prefixed("over")]);
    expect(stdout).toMatch(/^later: not destroyed: it changed meanwhile \(8(\.0)? h left of 8 h/m);
  });

  test.each(["0", "soon", "1.5"])("`expire --begin-within %s` is refused", async (minutes) => {
    const { exitCode, stderr } = await expire({ over: trial() }, "--down", "--begin-within", minutes);
    expect([exitCode, stderr]).toEqual([
      2,
      expect.stringContaining("--begin-within must be a whole number of minutes"),
    ]);
    expect(pulumi.destroyed).toEqual([]);
  });

  test("`expire` refuses --stack before it reads the state", async () => {
    const { exitCode, stderr } = await expire({ over: trial() }, "--down", "--stack", "over");
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining("Unknown option '--stack'")]);
    expect(pulumi.destroyed).toEqual([]);
  });

  test("the stacks of the backend are read, and those that an earlier version kept in .stacks/", () => {
    pulumi = new FakePulumi({});
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state");
    const root = mkdtempSync(join(tmpdir(), "engine-room-states-"));
    try {
      expect(stateUrls(root)).toEqual(["s3://room-state"]);
      for (const name of ["b", "a"]) {
        const states = join(root, ".stacks", name, "pulumi/.pulumi/stacks/engine-room");
        mkdirSync(states, { recursive: true });
        writeFileSync(join(states, `${name}.json`), "{}");
      }
      mkdirSync(join(root, ".stacks/tryout"), { recursive: true });
      expect(stateUrls(root)).toEqual([
        "s3://room-state",
        ...["a", "b"].map((name) => `file://${join(root, ".stacks", name, "pulumi")}`),
      ]);
    } finally {
      rmSync(root, { recursive: true, maxRetries: 5 });
    }
  });
});

const STARTED = 1_790_000_000_000;

const MINUTE = 60_000;

const OVER: Lifetime = { time: "over", why: "", needsPerson: false };

const ENDED: Ending = { isSettled: true, words: "destroyed" };

function stack(name: string, hoursQuiet: number, lifetime = OVER): SurveyedStack {
  const lastOperation = STARTED - hoursQuiet * 60 * MINUTE;
  const state = new PulumiState("/nowhere/pulumi", "s3://room-state");
  return { state, record: { name, isUpdating: false, lastOperation }, lifetime, cost: "$1.00" };
}

/** @param minutes - Time of each destroy, by a fake clock. */
async function run(stacks: readonly SurveyedStack[], minutes: number, beginWithinMinutes?: number) {
  let clock = STARTED;
  const begun: string[] = [];
  let said = "";
  const isDone = await endAll(stacks, {
    started: STARTED,
    beginWithinMinutes,
    now: () => clock,
    say: (text) => {
      said += text;
    },
    end: async ({ record }) => {
      begun.push(record.name);
      clock += minutes * MINUTE;
      return ENDED;
    },
  });
  return { isDone, begun, said };
}

test("no destroy begins after the time limit, which is reported as a failure", async () => {
  const { isDone, begun, said } = await run([stack("one", 3), stack("two", 2), stack("three", 1)], 10, 15);
  expect(begun).toEqual(["one", "two"]);
  expect(isDone).toBe(false);
  expect(said).toMatch(/^three: not destroyed, still costs money: the limit of 15 minutes has passed, /m);
  expect(said).not.toContain("Destroying three");
});

test("a destroy that begins at the time limit completes", async () => {
  const { isDone, begun } = await run([stack("one", 2), stack("two", 1)], 15, 15);
  expect([isDone, begun]).toEqual([true, ["one", "two"]]);
});

test("a stack that used all of the previous run's time is last", async () => {
  const { begun } = await run([stack("fails", 1), stack("waits", 9)], 30, 15);
  expect(begun).toEqual(["waits"]);
});

test("without a time limit exactly the expired stacks are destroyed", async () => {
  const running: Lifetime = { ...OVER, time: "running" };
  const stacks = [stack("one", 2), stack("runs", 3, running), stack("two", 1)];
  const { isDone, begun } = await run(stacks, 600);
  expect([isDone, begun]).toEqual([true, ["one", "two"]]);
});

const NOW = Date.parse("2026-11-21T12:00:00Z");

const hoursAgo = (hours: number) => NOW - hours * 3_600_000;

function record(changes: Partial<StackRecord> & { ageHours?: number; values?: object } = {}): StackRecord {
  const { ageHours = 9, values = { guard: { ttlHours: 8 } }, ...rest } = changes;
  return {
    name: "trial",
    isUpdating: false,
    lastOperation: hoursAgo(ageHours),
    lastUp: { endTime: hoursAgo(ageHours), values: { ...values }, commit: null, hasSucceeded: true },
    ...rest,
  };
}

const lifetime = (changes?: Parameters<typeof record>[0]) => lifetimeOf(record(changes), NOW);

test("a stack is expired once its last `up` is longer ago than its ttl", () => {
  expect(lifetime().time).toBe("over");
  expect(lifetime({ ageHours: 8 })).toMatchObject({
    time: "running",
    why: expect.stringMatching(/^0 h left/),
  });
  expect(lifetime({ ageHours: 1.5 }).why).toMatch(/^6\.5 h left/);
});

test("a failed `down` or a refresh does not extend the lifetime of a stack", () => {
  expect(lifetime({ lastOperation: hoursAgo(0) }).time).toBe("over");
});

test.each([{}, { guard: {} }, { guard: { emails: ["ops@example.org"] } }])(
  "a stack with the values %j never expires",
  (values) => {
    expect(lifetime({ values, ageHours: 10_000 })).toMatchObject({ time: "unlimited" });
  },
);

test("a stack that its own `retain` names never expires", () => {
  const guard = { ttlHours: 8 };
  expect(lifetime({ values: { guard, retain: ["other", "trial"] } })).toMatchObject({ time: "retained" });
  expect(lifetime({ values: { guard, retain: ["trial-2"] } }).time).toBe("over");
});

test("an expired stack waits for a running operation, up to the maximum time of operations", () => {
  const busy = (ageHours: number) => lifetime({ isUpdating: true, ageHours });
  expect(busy(9)).toMatchObject({ time: "updating", needsPerson: false });
  expect(busy(8 + LONGEST_OPERATION_HOURS)).toMatchObject({ needsPerson: false });
  expect(busy(9 + LONGEST_OPERATION_HOURS)).toMatchObject({ needsPerson: true });
  expect(busy(7).time).toBe("running");
});

test("a lifetime is unknown before the first `up` has ended, and needs attention once no operation can run", () => {
  const killed = (hours: number | null) =>
    lifetime({ lastUp: null, lastOperation: hours === null ? null : hoursAgo(hours) });
  expect(killed(1)).toMatchObject({ time: "unknown", needsPerson: false });
  expect(killed(LONGEST_OPERATION_HOURS + 1)).toMatchObject({ time: "unknown", needsPerson: true });
  expect(killed(null)).toMatchObject({ time: "unknown", needsPerson: false });
});

test.each([
  [{ guard: "(secret)" }, "guard"],
  [{ guard: { ttlHours: "8" } }, "guard.ttlHours"],
  [{ guard: { ttlHours: 8 }, retain: "(secret)" }, "retain"],
  [{ guard: { ttlHours: 8 }, retain: [1] }, "retain.0"],
])("a lifetime is unknown if %j can't be read", (values, path) => {
  const unreadable = lifetime({ values });
  expect(unreadable).toMatchObject({ time: "unknown", needsPerson: true });
  expect(unreadable.why).toContain(`can't be read: ${path};`);
});

test("a stack of any age and ttl is expired exactly when its age exceeds its ttl", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8760 }), fc.integer({ min: 0, max: 20_000 }), (ttlHours, age) => {
      const at = lifetime({ values: { guard: { ttlHours } }, ageHours: age });
      expect(at.time).toBe(age > ttlHours ? "over" : "running");
      expect(at.needsPerson).toBe(false);
    }),
    { numRuns: times(100, 2000) },
  );
});

test("a lifetime in words has its decisive hours", () => {
  expect(lifetime({ ageHours: 11.25 }).why).toBe("its last `up` ended 11.3 h ago, and its ttl is 8 h");
  expect(lifetime({ ageHours: 3 }).why).toBe("5 h left of 8 h after its last `up`");
  expect(lifetime({ ageHours: 20, isUpdating: true }).why).toContain("`pulumi cancel`");
  expect(lifetime({ ageHours: 9, isUpdating: true }).why).not.toContain("cancel");
});
