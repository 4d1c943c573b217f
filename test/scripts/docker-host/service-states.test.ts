import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { DockerStack } from "../../../infra/plan/docker/types.ts";
import type { HostContainer } from "../../../scripts/docker-host/containers.ts";
import { isServing, serviceStatuses } from "../../../scripts/docker-host/service-states.ts";
import { dockerTarget } from "../../../scripts/program/docker-target.ts";
import { container } from "./hosts.ts";

function stackOf(values: Readonly<Record<string, unknown>>): DockerStack {
  const { plan } = checkedPlan({ platform: "docker", ...values });
  if (plan.platform !== "docker") throw new Error("not a Docker stack");
  return dockerTarget(plan, "room").stack;
}

const gpu = stackOf({
  host: { instanceType: "g5.4xlarge", diskGiB: 250 },
  encoders: false,
  models: [{ name: "llava", model: "llava-1.5-7b" }],
});
const [build = ""] = gpu.containers.filter(({ lifecycle }) => lifecycle === "task").map(({ name }) => name);
const NOW = Date.parse("2026-01-01T01:00:00Z");
const statuses = (...found: HostContainer[]) => serviceStatuses("room", gpu, found, NOW);
const states = (...found: HostContainer[]) => statuses(...found).map(({ name, state }) => `${name} ${state}`);
const ended = (ExitCode: number) => container(build, { Status: "exited", ExitCode });

describe("services of a stack on a Docker host", () => {
  test("have the names of the outputs, the host's ports, and the time they run", () => {
    const all = statuses(ended(0), container("room-llava"), container("room-gateway"));
    expect(all.map(({ name, state }) => `${name} ${state}`)).toEqual([
      `${build.slice("room-".length)} DONE`,
      "llava RUNNING",
      "gateway RUNNING",
    ]);
    expect(all[1]).toEqual({
      name: "llava",
      container: "room-llava",
      state: "RUNNING",
      restarts: 0,
      uptimeSeconds: 3600,
      ports: { 8000: 8000, 8001: 8001, 8002: 8002 },
    });
    expect(isServing(all)).toBe(true);
  });

  test.each<[string, HostContainer["State"]["Status"], "starting" | "unhealthy" | "healthy" | undefined]>([
    ["RUNNING", "running", "healthy"],
    ["STARTING", "running", "starting"],
    ["UNHEALTHY", "running", "unhealthy"],
    ["PAUSED", "paused", undefined],
    ["RESTARTING", "restarting", undefined],
    ["STOPPED", "exited", "unhealthy"],
    ["STOPPED", "created", undefined],
  ])("%s: %s, %s", (expected, Status, health) => {
    const Health = health === undefined ? {} : { Health: { Status: health } };
    const all = statuses(ended(0), container("room-llava"), container("room-gateway", { Status, ...Health }));
    expect(all.at(-1)?.state).toBe(expected);
    expect(isServing(all)).toBe(expected === "RUNNING");
  });

  test("a build that failed, and what never came, are no stack that serves", () => {
    const all = statuses(ended(1));
    expect(all.map(({ state }) => state)).toEqual(["FAILED", "MISSING", "MISSING"]);
    expect(all[0]).toMatchObject({ exitCode: 1 });
    expect(isServing(all)).toBe(false);
    expect(states(container(build))[0]).toContain("RUNNING");
  });

  test("what the stack file does not have is shown, and disturbs nobody", () => {
    const all = statuses(ended(0), container("room-llava"), container("room-gateway"), container("room-old"));
    expect(all.at(-1)).toMatchObject({ name: "old", state: "UNPLANNED", ports: {} });
    expect(isServing(all)).toBe(true);
    expect(isServing([])).toBe(false);
  });
});
