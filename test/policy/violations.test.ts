import { unknownCheckingProxy } from "@pulumi/policy";
import { describe, expect, test } from "vitest";
import { POLICY_NAMES } from "../../infra/plan/catalogue/policies.ts";
import { policyLevel } from "../../policy/levels.ts";
import { packPolicies } from "../../policy/pack.ts";
import { type StackPolicy, stackPolicy } from "../../policy/stack-policy.ts";

import { uncheckedPolicies, violations } from "../../policy/violations.ts";
import { eksValues } from "../infra/plan/aws/stacks.ts";

import { deployment, resource } from "./resources.ts";

/** A stack file that can be planned, as the Pulumi runtime has it. */
function policyOf(stack: string, own: Readonly<Record<string, string>> = {}): StackPolicy {
  const policy = stackPolicy(
    stack,
    {
      "engine-room:platform": "kubernetes",
      "engine-room:tier": "cpu",
      "engine-room:models": JSON.stringify([{ name: "smollm2", model: "smollm2-135m-instruct" }]),
      ...own,
    },
    "engine-room",
  );
  if (policy === null) throw new Error("The stack file of the test has problems.");
  return policy;
}

const plain = resource("kubernetes:core/v1:ConfigMap", {}, { name: "plain" });
const tagged = deployment({ image: "a:1" });

describe("levels", () => {
  test("come from the kind of a stack", () => {
    const levels = (name: string, platform: string) =>
      POLICY_NAMES.filter((policy) => policyLevel(policy, { name, platform }) === "mandatory").length;
    expect(levels("local", "local")).toBe(0);
    expect(levels("prod", "aws")).toBe(POLICY_NAMES.length - 1);
    expect(levels("pr-7", "kubernetes")).toBeLessThan(levels("prod", "kubernetes"));
    expect(policyLevel("public-endpoint-is-guarded", { name: "pr-7", platform: "docker" })).toBe("mandatory");
    expect(policyLevel("engine-store-is-protected", { name: "preview-7", platform: "docker" })).toBe("off");
  });

  test("of the stack file are stronger", () => {
    const { levels, facts } = policyOf("prod", {
      "engine-room:policies": JSON.stringify({ hourlyUsdCap: 3, levels: { "image-has-digest": "off" } }),
    });
    expect(levels["image-has-digest"]).toBe("off");
    expect(levels["resources-are-labelled"]).toBe("mandatory");
    expect(facts.hourlyUsdCap).toBe(3);
  });

  test("of rules that don't exist are a problem of the stack file", () => {
    const values = { "engine-room:policies": JSON.stringify({ levels: { "image-has-digests": "off" } }) };
    expect(() => policyOf("prod", values)).toThrow("problems");
  });
});

describe("facts of the stack file", () => {
  test("say whose documents are to outlive it", () => {
    const own = Object.fromEntries(
      Object.entries({ ...eksValues, tier: "gpu", retain: ["prod"] }).map(([key, value]) => [
        `engine-room:${key}`,
        typeof value === "string" ? value : JSON.stringify(value),
      ]),
    );
    const keeps = (stack: string) => policyOf(stack, own).facts.keepsDocuments;
    expect([keeps("prod"), keeps("demo")]).toEqual([true, false]);
  });

  test("say how the gateway is reached", () => {
    const gateway = {
      hostname: "a.example.org",
      exposure: "internal",
      apiKeys: [{ name: "a", sha256: "0".repeat(64) }],
      route: { gateway: "edge", tls: false },
    };
    expect(policyOf("prod", { "engine-room:gateway": JSON.stringify(gateway) }).facts).toEqual({
      platform: "kubernetes",
      keepsDocuments: true,
      hourlyUsdCap: null,
      hasApiKeys: true,
      exposure: "internal",
      listenerEndsTls: false,
    });
    expect(policyOf("prod").facts).toMatchObject({
      hasApiKeys: false,
      exposure: null,
      listenerEndsTls: true,
    });
  });
});

describe("violations", () => {
  test("stand by level, rule and resource", () => {
    const side = { resources: [tagged, plain], outputs: { models: "[unknown]" } };
    const found = violations(side, policyOf("pr-1"));
    expect(found.map(({ level, policy, resource: urn }) => [level, policy, urn?.split("::").at(-1)])).toEqual(
      [
        ["mandatory", "resources-are-labelled", "one"],
        ["mandatory", "resources-are-labelled", "plain"],
        ["advisory", "image-has-digest", "one"],
        ["advisory", "release-has-fixes", undefined],
      ],
    );
  });

  test("that can't be decided are advice, however much the rule matters", () => {
    const others = POLICY_NAMES.filter((name) => name !== "storage-is-encrypted");
    const [violation] = violations(
      { resources: [resource("aws:efs/fileSystem:FileSystem", { encrypted: "[unknown]" })], outputs: {} },
      policyOf("prod", {
        "engine-room:policies": JSON.stringify({
          levels: Object.fromEntries(others.map((name) => [name, "off"])),
        }),
      }),
    );
    expect(violation).toMatchObject({ policy: "storage-is-encrypted", level: "advisory" });
  });

  const onlyDigests = policyOf("prod", {
    "engine-room:policies": JSON.stringify({
      levels: Object.fromEntries(
        POLICY_NAMES.filter((name) => name !== "image-has-digest").map((name) => [name, "off"]),
      ),
    }),
  });

  /** Of a change from some Jobs to others, by name and image: which of its violations are new. */
  function novelty(before: Readonly<Record<string, string>>, after: Readonly<Record<string, string>>) {
    const jobs = (images: Readonly<Record<string, string>>) =>
      Object.entries(images).map(([name, image]) =>
        resource(
          "kubernetes:batch/v1:Job",
          { spec: { template: { spec: { containers: [{ name: "builder", image }] } } } },
          { name },
        ),
      );
    const found = violations({ resources: jobs(before), outputs: {} }, onlyDigests);
    return violations({ resources: jobs(after), outputs: {} }, onlyDigests, { found, unchecked: [] }).map(
      ({ isNew }) => isNew,
    );
  }

  test.each([
    ["the same resource", { a: "i:1" }, { a: "i:1" }, [false]],
    ["a rebuilt engine's Job", { "gpt-935afaa63dc5": "i:1" }, { "gpt-7359c2b2bfb8": "i:1" }, [false]],
    ["an image of other content", { a: "i:25.07-73fcec287952" }, { a: "i:25.07-aaaabbbbcccc" }, [false]],
    ["a renamed resource", { gpt: "i:1" }, { chat: "i:1" }, [false]],
    ["a second resource for the same reason", { a: "i:1" }, { a: "i:1", b: "i:1" }, [false, true]],
    [
      "a second Job for the same reason",
      { "a-935afaa63dc5": "i:1" },
      { "a-7359c2b2bfb8": "i:1", b: "i:1" },
      [false, true],
    ],
    ["another image", { a: "i:1" }, { a: "other:1" }, [true]],
  ])("are new or not: %s", (_title, before, after, expected) => {
    expect(novelty(before, after)).toEqual(expected);
  });

  test("are neither new nor known where the base could not be asked", () => {
    const side = { resources: [tagged], outputs: {} };
    const unchecked = uncheckedPolicies({ resources: null, outputs: {} }, onlyDigests);
    expect(unchecked).toEqual(["image-has-digest"]);
    expect(violations(side, onlyDigests, { found: [], unchecked }).map(({ isNew }) => isNew)).toEqual([null]);
  });

  test("of what a plan knows are found without resources, and the other rules are said not to be checked", () => {
    const policy = policyOf("prod", { "engine-room:policies": JSON.stringify({ hourlyUsdCap: 0.01 }) });
    const outputs = {
      cost: { hourlyUsd: 1.6 },
      models: [{ name: "gpt", release: "25.07", engineKey: "a".repeat(64) }],
    };
    const planned = { resources: null, outputs };
    expect(violations(planned, policy).map(({ policy: name }) => name)).toEqual([
      "price-is-below-cap",
      "release-has-fixes",
    ]);
    expect(uncheckedPolicies(planned, policy)).toEqual(
      POLICY_NAMES.filter((name) => name !== "price-is-below-cap" && name !== "release-has-fixes"),
    );
    expect(uncheckedPolicies({ resources: [], outputs }, policy)).toEqual([]);
  });

  test("are the same in whichever order resources come", () => {
    const ordered = (...resources: (typeof plain)[]) =>
      violations({ resources, outputs: {} }, policyOf("prod"));
    expect(ordered(tagged, plain)).toEqual(ordered(plain, tagged));
  });
});

describe("the pack", () => {
  /** The SDK's mark of a text that only `up` knows. */
  const unknownText = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

  const options = {
    protect: false,
    ignoreChanges: [],
    aliases: [],
    customTimeouts: { createSeconds: 0, updateSeconds: 0, deleteSeconds: 0 },
    additionalSecretOutputs: [],
  };

  /** What all policies of the pack say of a stack, as `name: level: text`. */
  async function said(resources: readonly { type: string; props: object }[]): Promise<string[]> {
    const told: string[] = [];
    const given = resources.map(({ type, props }, index) => ({
      type,
      props: unknownCheckingProxy(props),
      urn: `urn:${index}`,
      name: `r${index}`,
      opts: options,
      dependencies: [],
      propertyDependencies: {},
      isType: () => false,
      asType: () => undefined,
    }));
    const common = {
      stackTags: new Map(),
      getConfig: <T extends object>() => ({}) as T,
      notApplicable: () => {
        throw new Error("It applies.");
      },
    };
    for (const policy of packPolicies(policyOf("prod"))) {
      const report = (text: string, urn?: string) =>
        told.push(`${policy.name}: ${policy.enforcementLevel}: ${urn ?? ""}: ${text}`);
      if ("validateStack" in policy) await policy.validateStack({ ...common, resources: given }, report);
      else if (typeof policy.validateResource === "function")
        for (const one of given) await policy.validateResource({ ...common, ...one }, report);
    }
    return told;
  }

  test("sees what a rule sees, and unknown values as such", async () => {
    const told = await said([
      { type: "pulumi:pulumi:Stack", props: { models: [], cost: { hourlyUsd: 1 } } },
      { type: "aws:ebs/volume:Volume", props: { encrypted: false, tags: { "engine-room:stack": "a" } } },
      { type: "aws:efs/fileSystem:FileSystem", props: { encrypted: unknownText, tags: unknownText } },
    ]);
    expect(told.map((text) => text.split(": ").slice(0, 4).join(": "))).toEqual(
      [
        "storage-is-encrypted: mandatory: : encrypted is false",
        "not-decided-before-up: advisory: urn:2: storage-is-encrypted",
        "not-decided-before-up: advisory: urn:2: resources-are-labelled",
        "not-decided-before-up: advisory: urn:1: engine-store-is-protected",
        "not-decided-before-up: advisory: urn:2: engine-store-is-protected",
      ].map((text) => expect.stringContaining(text.split(": ").slice(0, 4).join(": "))),
    );
  });

  test("has a policy for every rule, at its level", () => {
    const policies = packPolicies(policyOf("preview-3"));
    expect(policies.map(({ name }) => name)).toEqual([...POLICY_NAMES, "not-decided-before-up"]);
    expect(policies.find(({ name }) => name === "engine-store-is-protected")?.enforcementLevel).toBe(
      "disabled",
    );
  });
});
