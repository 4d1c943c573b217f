import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { LocalPlan } from "../../../infra/plan/cpu-stack.ts";
import { hostProbe } from "../../../scripts/preflight/host-probe.ts";
import { type LocalReading, localFindings } from "../../../scripts/preflight/local-checks.ts";
import { type MachineReading, readMachine } from "../../../scripts/preflight/machine-reading.ts";
import { type FakeHost, fakeProbe } from "./hosts.ts";

const plan = checkedPlan({
  platform: "local",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct", ports: { grpc: 9001 } }],
  gateway: { port: 8080 },
}).plan as LocalPlan;

async function findings(host: FakeHost, changes: Partial<LocalReading> = {}) {
  const machine = await readMachine(fakeProbe(host), ["/cache", "/project"]);
  if ("unreachable" in machine) throw new Error(machine.unreachable);
  return localFindings(plan, {
    machine,
    node: "20.19.0",
    pythonProblem: null,
    isUp: false,
    cache: "/cache",
    project: "/project",
    ...changes,
  });
}

const wrong: Readonly<Record<string, readonly [FakeHost, Partial<LocalReading>, string, RegExp]>> = {
  "another system": [{ system: "Darwin arm64" }, {}, "machine", /Darwin on arm64/],
  "an old C library": [{ glibc: "glibc 2.31" }, {}, "glibc", /glibc 2\.31\. .*2\.35/],
  "no glibc": [{ glibc: "" }, {}, "glibc", /no glibc/],
  "an old Node": [{}, { node: "20.18.3" }, "node", /Node 20\.18\.3.*20\.19\.0/],
  "a Node that is too new": [{}, { node: "25.0.0" }, "node", /below 25/],
  "no Python": [
    {},
    { pythonProblem: "The stack needs CPython: apt-get install python3" },
    "python",
    /apt-get/,
  ],
  "little memory": [{ memoryAvailableKiB: 2 ** 20 }, {}, "memory", /1024 MiB.*3072 MiB/],
  "a full disk": [{ freeGB: { "/project": 3 } }, {}, "disk", /\/project has 3\.0 GB free/],
  "a port in use": [{ listening: [9001] }, {}, "ports", /Port 9001.*models\[0\]\.ports\.grpc/],
};

describe("a machine for a local stack", () => {
  test("with all that it needs", async () => {
    expect(await findings({})).toEqual([]);
  });

  test.each(Object.keys(wrong))("%s", async (name) => {
    const [host, changes, check, words] = wrong[name] ?? expect.fail();
    const all = await findings(host, changes);
    expect(all.map((one) => one.check)).toEqual([check]);
    expect(`${all[0]?.what} ${all[0]?.why}`).toMatch(words);
  });

  test("a stack that is up holds its ports, memory and disk with right", async () => {
    const host = { listening: [8080, 9001], memoryAvailableKiB: 1024, freeGB: { "/": 0 } };
    expect(await findings(host, { isUp: true })).toEqual([]);
    expect((await findings(host)).length).toBeGreaterThan(2);
  });
});

test("the script reads a real machine, and a folder that is not there as the one above it", async () => {
  const machine = (await readMachine(hostProbe(null), ["/", "/none/it's $(here)"])) as MachineReading;
  expect(machine.system).toBe("Linux");
  expect(machine.architecture).toMatch(/^(x86_64|aarch64)$/);
  expect(machine.glibc).toMatch(/^2\.\d+$/);
  expect(machine.availableMiB).toBeGreaterThan(100);
  expect(machine.limits.get("vm.max_map_count")).toBeGreaterThan(1000);
  expect(machine.space.get("/")?.freeBytes).toBeGreaterThan(0);
  expect(machine.space.get("/none/it's $(here)")?.mount).toBe(machine.space.get("/")?.mount);
});
