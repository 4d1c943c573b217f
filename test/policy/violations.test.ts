import { readFileSync } from "node:fs";
import { join } from "node:path";
import { unknownCheckingProxy } from "@pulumi/policy";
import { describe, expect, test } from "vitest";
import { POLICY_NAMES, type PolicyName } from "../../infra/plan/catalogue/types.ts";
import { packPolicies } from "../../policy/pack.ts";
import type { CheckedResource, StackFacts } from "../../policy/rule.ts";
import {
  findings,
  rules,
  type StackPolicy,
  stackPolicy,
  uncheckedPolicies,
  violations,
} from "../../policy/stack-policy.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { goodResources } from "../aws/good-resources.ts";
import { projectStackFiles } from "../harness/stack-files.ts";
import { eksValues } from "../infra/plan/aws/stacks.ts";
import { awsProperties } from "../scripts/diff/aws-properties.ts";
import { renderedText } from "../scripts/diff/fixtures.ts";
import { deployment, facts, resource } from "./resources.ts";

/** Values of a valid stack file, as the Pulumi runtime passes them. */
function policyOf(stack: string, own: Readonly<Record<string, string>> = {}): StackPolicy {
  const policy = stackPolicy(stack, {
    "engine-room:platform": "kubernetes",
    "engine-room:tier": "cpu",
    "engine-room:models": JSON.stringify([{ name: "smollm2", model: "smollm2-135m-instruct" }]),
    ...own,
  });
  if (policy === null) throw new Error("The stack file of the test has problems.");
  return policy;
}

const plain = resource("kubernetes:core/v1:ConfigMap", {}, { name: "plain" });

const tagged = deployment({ image: "a:1" });

test("levels of policies depend on the kind of a stack", () => {
  const local = { "engine-room:platform": "local", "engine-room:tier": "cpu" };
  expect(new Set(Object.values(policyOf("local", local).levels))).toEqual(new Set(["advisory"]));
  const { levels: lasting } = policyOf("prod");
  expect(POLICY_NAMES.filter((name) => lasting[name] !== "mandatory")).toEqual(["release-has-fixes"]);
  const { levels: preview } = policyOf("pr-7");
  expect(POLICY_NAMES.filter((name) => preview[name] !== lasting[name])).toEqual([
    "image-has-digest",
    "engine-store-is-protected",
  ]);
  expect(preview["image-has-digest"]).toBe("advisory");
  expect(policyOf("preview-7").levels["engine-store-is-protected"]).toBe("off");
});

test("levels of the stack file override those of its kind", () => {
  const { levels, facts } = policyOf("prod", {
    "engine-room:policies": JSON.stringify({ hourlyUsdCap: 3, levels: { "image-has-digest": "off" } }),
  });
  expect(levels["image-has-digest"]).toBe("off");
  expect(levels["resources-are-labelled"]).toBe("mandatory");
  expect(facts.hourlyUsdCap).toBe(3);
});

test("levels of unknown rules are a problem of the stack file", () => {
  const values = { "engine-room:policies": JSON.stringify({ levels: { "image-has-digests": "off" } }) };
  expect(() => policyOf("prod", values)).toThrow("problems");
});

test("facts of a stack say whether it retains its documents", () => {
  const own = Object.fromEntries(
    Object.entries({ ...eksValues, tier: "gpu", retain: ["prod"] }).map(([key, value]) => [
      `engine-room:${key}`,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
  const keeps = (stack: string) => policyOf(stack, own).facts.keepsDocuments;
  expect([keeps("prod"), keeps("demo")]).toEqual([true, false]);
});

test("facts of a stack say how the gateway is reached", () => {
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
    awaitedImages: expect.any(Array),
  });
  expect(policyOf("prod").facts).toMatchObject({
    hasApiKeys: false,
    exposure: null,
    listenerEndsTls: true,
  });
});

test("facts of a stack say which of its own images have no digest", () => {
  const images = { "engine-room:images": JSON.stringify({ registry: "registry.example.org/room" }) };
  expect(policyOf("prod", images).facts.awaitedImages).toEqual([
    expect.stringMatching(/^registry\.example\.org\/room\/services:[0-9a-f]{12}$/),
    expect.stringMatching(/^registry\.example\.org\/room\/cpu-models:[0-9a-f]{12}$/),
  ]);
  const local = { "engine-room:platform": "local", "engine-room:tier": "cpu" };
  expect(policyOf("local", local).facts.awaitedImages).toEqual([]);
});

describe("violations", () => {
  test("violations are sorted by level, rule and resource", () => {
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

  test("violations that can't be decided are advisory", () => {
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

  test("violations of a plan are found without resources, and the other rules are listed as unchecked", () => {
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

  test("violations are the same in any order of the resources", () => {
    const ordered = (...resources: (typeof plain)[]) =>
      violations({ resources, outputs: {} }, policyOf("prod"));
    expect(ordered(tagged, plain)).toEqual(ordered(plain, tagged));
  });
});

describe("the pack", () => {
  /** The SDK's mark of a text that is unknown before `up`. */
  const unknownText = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

  const options = {
    protect: false,
    ignoreChanges: [],
    aliases: [],
    customTimeouts: { createSeconds: 0, updateSeconds: 0, deleteSeconds: 0 },
    additionalSecretOutputs: [],
  };

  /** Findings of all policies of the pack in a stack, as `name: level: text`. */
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

  test("the policy pack passes inputs and unknown values to each rule", async () => {
    const told = await said([
      { type: "pulumi:pulumi:Stack", props: { models: [], cost: { hourlyUsd: 1 } } },
      { type: "aws:ebs/volume:Volume", props: { encrypted: false, tags: { "engine-room:stack": "a" } } },
      { type: "aws:efs/fileSystem:FileSystem", props: { encrypted: unknownText, tags: unknownText } },
    ]);
    expect(told.map((text) => text.split(": ").slice(0, 4).join(": "))).toEqual(
      [
        "storage-is-encrypted: mandatory: urn:1: encrypted is false",
        "not-decided-before-up: advisory: urn:2: storage-is-encrypted",
        "not-decided-before-up: advisory: urn:2: resources-are-labelled",
        "not-decided-before-up: advisory: urn:1: engine-store-is-protected",
        "not-decided-before-up: advisory: urn:2: engine-store-is-protected",
      ].map((text) => expect.stringContaining(text.split(": ").slice(0, 4).join(": "))),
    );
  });

  test("the policy pack has a policy for every rule, at its level", () => {
    const policies = packPolicies(policyOf("preview-3"));
    expect(policies.map(({ name }) => name)).toEqual([...POLICY_NAMES, "not-decided-before-up"]);
    expect(policies.find(({ name }) => name === "engine-store-is-protected")?.enforcementLevel).toBe(
      "disabled",
    );
  });
});

/** Options that components set on AWS's resources. */
const OPTIONS: Readonly<Record<string, CheckedResource["options"]>> = {
  "aws:ebs/volume:Volume": { protect: true, retainOnDelete: true },
  "aws:efs/fileSystem:FileSystem": { protect: true, retainOnDelete: true },
};

const good = goodResources.map(({ type, inputs }) =>
  resource(type, inputs, { name: type, options: OPTIONS[type] ?? {} }),
);

const balancer = good.find(({ type }) => type === "aws:lb/loadBalancer:LoadBalancer")?.urn ?? "";

/** Adds the load balancer of a listener. */
function wired(one: CheckedResource): CheckedResource {
  return one.type === "aws:lb/listener:Listener"
    ? { ...one, propertyDependencies: { loadBalancerArn: [balancer] } }
    : one;
}

function found(
  name: PolicyName,
  resources: readonly CheckedResource[],
  more: Partial<StackFacts> = {},
): readonly string[] {
  return findings(rules[name], {
    resources: resources.map(wired),
    facts: { ...facts, platform: "aws", ...more },
  }).map(({ reason, isUndecided }) => `${isUndecided === true ? "? " : ""}${reason}`);
}

/** All good resources, with changes to one type. */
function changed(
  type: string,
  inputs: Readonly<Record<string, unknown>>,
  options?: CheckedResource["options"],
): readonly CheckedResource[] {
  if (!good.some((one) => one.type === type)) throw new Error(`No component makes ${type}.`);
  return good.map((one) =>
    one.type === type
      ? { ...one, inputs: { ...one.inputs, ...inputs }, ...(options === undefined ? {} : { options }) }
      : one,
  );
}

test.each(POLICY_NAMES)("%s accepts all resources that components create on AWS", (name) => {
  expect(found(name, good)).toEqual([]);
});

const rule = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule";
const policy = (Action: string) =>
  JSON.stringify({ Version: "2012-10-17", Statement: [{ Effect: "Allow", Action, Resource: "*" }] });
const disk = (encrypted?: string) => ({ deviceName: "/dev/xvda", ebs: { volumeSize: 100, encrypted } });

test.each<[PolicyName, string, Readonly<Record<string, unknown>>, RegExp]>([
  ["api-is-not-open-to-all", rule, { cidrIpv4: "0.0.0.0/0" }, /lets 0\.0\.0\.0\/0 reach port 2049/],
  ["api-is-not-open-to-all", rule, { cidrIpv6: "::/0", fromPort: 443, toPort: 8080 }, /443 to 8080/],
  [
    "api-is-not-open-to-all",
    rule,
    { cidrIpv4: "0.0.0.0/0", ipProtocol: "-1", fromPort: undefined, toPort: undefined },
    /port of any number/,
  ],
  [
    "api-is-not-open-to-all",
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
    { ingress: [{ protocol: "-1", fromPort: 0, toPort: 0, cidrBlocks: ["0.0.0.0/0"] }] },
    /ingress\[0\] lets 0\.0\.0\.0\/0/,
  ],
  [
    "api-is-not-open-to-all",
    "aws:eks/cluster:Cluster",
    { vpcConfig: { endpointPublicAccess: true, publicAccessCidrs: ["0.0.0.0/0"] } },
    /has 0\.0\.0\.0\/0/,
  ],
  [
    "api-is-not-open-to-all",
    "aws:eks/cluster:Cluster",
    { vpcConfig: { endpointPublicAccess: true } },
    /is absent, which means 0\.0\.0\.0\/0/,
  ],
  ["storage-is-encrypted", "aws:efs/fileSystem:FileSystem", { encrypted: undefined }, /encrypted is absent/],
  [
    "storage-is-encrypted",
    "aws:ec2/launchTemplate:LaunchTemplate",
    { blockDeviceMappings: [disk("true"), disk("false")] },
    /\[1\]\.ebs\.encrypted is "false"/,
  ],
  [
    "storage-is-encrypted",
    "aws:ec2/launchTemplate:LaunchTemplate",
    { blockDeviceMappings: undefined },
    /blockDeviceMappings is absent/,
  ],
  [
    "storage-is-encrypted",
    "aws:ec2/instance:Instance",
    { rootBlockDevice: { volumeSize: 300 } },
    /rootBlockDevice\.encrypted is absent/,
  ],
  [
    "storage-is-encrypted",
    "aws:eks/nodeGroup:NodeGroup",
    { launchTemplate: undefined },
    /launchTemplate is absent/,
  ],
  [
    "iam-action-has-no-wildcard",
    "aws:iam/rolePolicy:RolePolicy",
    { policy: policy("ec2:*") },
    /allows ec2:\*/,
  ],
  [
    "iam-action-has-no-wildcard",
    "aws:efs/fileSystemPolicy:FileSystemPolicy",
    { policy: policy("*") },
    /allows \*/,
  ],
  [
    "iam-action-has-no-wildcard",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    { policyArn: "arn:aws-us-gov:iam::aws:policy/AdministratorAccess" },
    /allows every action/,
  ],
  ["public-endpoint-is-guarded", "aws:lb/loadBalancer:LoadBalancer", { internal: "[unknown]" }, /^\? /],
])("%s reports a mistake in %s: %j", (name, type, inputs, reason) => {
  // Several resources of a type have the same mistake.
  const reasons = [...new Set(found(name, changed(type, inputs)))];
  expect(reasons).toHaveLength(1);
  expect(reasons[0]).toMatch(reason);
});

test("public-endpoint-is-guarded reports a public listener without TLS or without keys", () => {
  const open = changed("aws:lb/loadBalancer:LoadBalancer", { internal: false });
  expect(found("public-endpoint-is-guarded", open)).toEqual([]);
  expect(found("public-endpoint-is-guarded", open, { hasApiKeys: false })).toEqual([
    expect.stringContaining("requires no API key"),
  ]);
  const plain = open.map((one) =>
    one.type === "aws:lb/listener:Listener"
      ? { ...one, inputs: { ...one.inputs, port: 80, protocol: "HTTP" } }
      : one,
  );
  expect(found("public-endpoint-is-guarded", plain)).toEqual([expect.stringContaining("speaks HTTP")]);
});

test("engine-store-is-protected reports a file system that is deleted with its stack", () => {
  const goes = changed("aws:efs/fileSystem:FileSystem", {}, {});
  expect(found("engine-store-is-protected", goes)).toEqual([
    expect.stringContaining("neither protect nor retainOnDelete"),
  ]);
});

test.each(good.map((one) => [one.type, one] as const))(
  "resources-are-labelled reports %s without tags, if it can have any",
  (type, one) => {
    const untagged = { ...one, inputs: { ...one.inputs, tags: undefined } };
    expect(found("resources-are-labelled", [untagged])).toHaveLength(
      awsProperties(type).includes("tags") ? 1 : 0,
    );
  },
);

/** Reason why the project's own stacks break a mandatory rule. */
const NOT_RETAINED = "its store goes with it, as that of every stack on AWS that `retain` does not name";

const broken: Readonly<Record<string, Partial<Record<PolicyName, string>>>> = {
  "Pulumi.dev.yaml": { "engine-store-is-protected": NOT_RETAINED },
  "examples/multimodal-guide.yaml": { "engine-store-is-protected": NOT_RETAINED },
  "examples/ec2.yaml": { "engine-store-is-protected": NOT_RETAINED },
};

test.each(projectStackFiles)(
  "%s breaks only the mandatory rules that are listed with a reason",
  async (file) => {
    // Most rules are mandatory for a stack of this name.
    const { tree, policy } = await renderedText(readFileSync(join(projectRoot, file), "utf8"), "prod");
    if (policy === null) throw new Error(`${file} has problems.`);
    expect(tree.failure).toBeNull();
    const found = violations(tree, policy);
    const mandatory = new Set(found.filter(({ level }) => level === "mandatory").map((one) => one.policy));
    expect([...mandatory]).toEqual(Object.keys(broken[file] ?? {}));
  },
);
