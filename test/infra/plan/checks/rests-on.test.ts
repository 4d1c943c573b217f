import { describe, expect, test } from "vitest";
import type { Finding, Key } from "../../../../infra/plan/checks/finding.ts";
import { restsOnAny } from "../../../../infra/plan/checks/rests-on.ts";

function found(path: string, keys: readonly Key[], scope: Finding["scope"] = "model"): Finding {
  return {
    severity: "problem",
    scope,
    keys,
    problem: { path, value: "1", reason: "It is.", fix: "Change it." },
  };
}

describe("a finding rests on what was dropped", () => {
  test.each<[string, Finding, string, boolean]>([
    ["its own key", found("models[0].tensorParallel", []), "models[0].tensorParallel", true],
    [
      "a part of its own key",
      found("models[0].limits.maxInputTokens", []),
      "models[0].limits.maxOutputTokens",
      true,
    ],
    [
      "another key of its model",
      found("models[0].tensorParallel", ["models.model"]),
      "models[0].model",
      true,
    ],
    [
      "a key that it doesn't name",
      found("models[0].tensorParallel", ["models.model"]),
      "models[0].limits",
      false,
    ],
    [
      "the same key of another model",
      found("models[0].tensorParallel", ["models.model"]),
      "models[1].model",
      false,
    ],
    [
      "the same key, where it is about all models",
      found("models[0].memoryFit", ["models.model"], "stack"),
      "models[1].model",
      true,
    ],
    ["its whole model", found("models[0].tensorParallel", ["models.model"]), "models[0]", true],
    [
      "another model, where it is about all",
      found("pools[0].nodes.max", ["models.replicas"], "stack"),
      "models[1]",
      true,
    ],
    ["all models", found("models[0].tensorParallel", []), "models", true],
    ["a key of any pool", found("models[0].pool", ["pools.machine"]), "pools[2].machine.gpus", true],
    ["another key of pools", found("models[0].pool", ["pools.machine"]), "pools[2].diskGiB", false],
    [
      "the host, which is the pool of Docker",
      found("models[0].pool", ["pools.machine"]),
      "host.machine",
      true,
    ],
    ["a key of the stack", found("models[0].model", ["release"]), "release", true],
    ["a part of a section", found("gateway.tls", ["gateway"], "stack"), "gateway.hostname", true],
    ["another section", found("gateway.tls", ["gateway"], "stack"), "hub.token", false],
  ])("%s", (_title, finding, dropped, rests) => {
    expect(restsOnAny(finding, [dropped])).toBe(rests);
    expect(restsOnAny(finding, ["namespace", dropped])).toBe(rests);
  });
});
