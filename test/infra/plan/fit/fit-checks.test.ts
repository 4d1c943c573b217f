import { describe, expect, it } from "vitest";
import { type GpuStackConfig, parseConfig } from "../../../../infra/config/config.ts";
import { planGpuStack } from "../../../../infra/plan/gpu-stack.ts";

const docker = {
  platform: "docker",
  models: [{ name: "vision", model: "llama-3.2-11b-vision" }],
  host: { instanceType: "g5.4xlarge" },
  engines: { whenFull: "stopServer" },
  hub: { tokenFile: "/run/secrets/hub-token" },
};

function problemsOf(values: Readonly<Record<string, unknown>>) {
  return planGpuStack(parseConfig(values) as GpuStackConfig).problems;
}

describe("problems of memory", () => {
  it("offer machines on which the whole stack has no problem", () => {
    const [problem, ...others] = problemsOf(docker);
    expect(others).toEqual([]);
    const types = [...(problem?.fix ?? "").matchAll(/(?:^|[ ;])((?:g|p)\d\w*\.\w+): /g)].map(
      ([, type]) => type,
    );
    expect(types).toContain("g6e.2xlarge");
    const machines = types.filter((type) => !problem?.fix?.includes(`on ${type}`));
    for (const instanceType of machines) {
      expect([instanceType, problemsOf({ ...docker, host: { instanceType } })]).toEqual([instanceType, []]);
    }
  });

  it("say nothing of a model with more ranks than the host has GPUs: another check does", () => {
    const values = { ...docker, models: [{ name: "x", model: "llama-2-7b", tensorParallel: 4 }] };
    expect(problemsOf(values).map(({ path }) => path)).toEqual(["models[0].tensorParallel"]);
  });

  it("name each tenant once", () => {
    const models = [
      { name: "x", model: "llama-2-7b", replicas: 2 },
      { name: "y", model: "llama-2-7b" },
    ];
    const reasons = problemsOf({ ...docker, models }).map(({ reason }) => reason);
    expect(reasons).toContainEqual(expect.stringMatching(/^2 × x, y need about /));
  });
});
