import { describe, expect, test } from "vitest";
import { suspectGroups, unfinishedResources } from "../../../scripts/stack/unfinished.ts";

const NONE: ReadonlySet<string> = new Set();

describe("of a state the next up makes anew", () => {
  test("containers: tasks that did not end well, and services that never became healthy", () => {
    const type = "docker:index/container:Container";
    const task = (urn: string, exitCode: number | null, initErrors?: string[]) => ({
      ...{ urn, type, inputs: { attach: true }, outputs: { exitCode } },
      ...(initErrors === undefined ? {} : { initErrors }),
    });
    const service = { type, inputs: {}, outputs: { exitCode: null } };
    const resources = [
      task("succeeded", 0),
      task("failed", 1),
      task("given-up", null, ["context deadline exceeded"]),
      task("given-up-and-refreshed", null),
      task("made-and-not-started", 0, ["could not select device driver"]),
      { ...service, urn: "healthy" },
      { ...service, urn: "unhealthy", initErrors: ["container failed to be in healthy state"] },
      { urn: "no-container", type: "docker:index/network:Network", initErrors: ["x"] },
      { urn: "stack", type: "pulumi:pulumi:Stack" },
    ];
    expect(unfinishedResources(resources, NONE)).toEqual([
      ...["failed", "given-up", "given-up-and-refreshed", "made-and-not-started", "unhealthy"],
    ]);
  });

  test("commands of a machine that failed, and not the one whose successor is there", () => {
    const type = "aws:ssm/association:Association";
    const initErrors = ["unexpected state 'Failed', wanted target 'Success'"];
    const resources = [
      { urn: "setup", type, id: "1" },
      { urn: "build", type, id: "2", initErrors },
      { urn: "services", type, id: "3", initErrors, delete: true },
    ];
    expect(unfinishedResources(resources, NONE)).toEqual(["build"]);
  });

  test("node groups that EKS could not make, and none whose update failed", () => {
    const type = "aws:eks/nodeGroup:NodeGroup";
    const initErrors = ["waiting for EKS Node Group: unexpected state"];
    const resources = [
      { urn: "cpu", type, id: "dev:cpu-1", outputs: { status: "ACTIVE" } },
      { urn: "gpu", type, id: "dev:gpu-1", outputs: {}, initErrors },
      { urn: "old", type, id: "dev:old-1", outputs: { status: "ACTIVE" }, initErrors },
      { urn: "refreshed", type, id: "dev:refreshed-1", outputs: { status: "CREATE_FAILED" } },
    ];
    expect(suspectGroups(resources)).toEqual(["dev:gpu-1", "dev:old-1", "dev:refreshed-1"]);
    expect(unfinishedResources(resources, new Set(["dev:gpu-1", "dev:refreshed-1"]))).toEqual([
      "gpu",
      "refreshed",
    ]);
  });
});
