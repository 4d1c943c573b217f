import { describe, expect, test } from "vitest";
import { POLICY_NAMES, type PolicyName } from "../../infra/plan/catalogue/policies.ts";
import type { CheckedResource, StackFacts } from "../../policy/rule.ts";
import { rules } from "../../policy/rules/index.ts";
import { findings } from "../../policy/violations.ts";
import { goodResources } from "../aws/good-resources.ts";
import { awsProperties } from "../scripts/diff/aws-properties.ts";
import { facts, resource } from "./resources.ts";

/** What components ask AWS for, under the options that they give. */
const OPTIONS: Readonly<Record<string, CheckedResource["options"]>> = {
  "aws:ebs/volume:Volume": { protect: true, retainOnDelete: true },
  "aws:efs/fileSystem:FileSystem": { protect: true, retainOnDelete: true },
};
const good = goodResources.map(({ type, inputs }) =>
  resource(type, inputs, { name: type, options: OPTIONS[type] ?? {} }),
);
const balancer = good.find(({ type }) => type === "aws:lb/loadBalancer:LoadBalancer")?.urn ?? "";

/** With the load balancer that a listener is of. */
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
    outputs: {},
  }).map(({ reason, isUndecided }) => `${isUndecided === true ? "? " : ""}${reason}`);
}

/** All of them, one changed. */
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

test.each(POLICY_NAMES)("%s finds nothing in what components ask AWS for", (name) => {
  expect(found(name, good)).toEqual([]);
});

describe("a mistake in one of them is found", () => {
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
    [
      "storage-is-encrypted",
      "aws:efs/fileSystem:FileSystem",
      { encrypted: undefined },
      /encrypted is absent/,
    ],
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
  ])("%s: %s", (name, type, inputs, reason) => {
    const reasons = found(name, changed(type, inputs));
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toMatch(reason);
  });

  test("public-endpoint-is-guarded: a listener of the internet without TLS, or without keys", () => {
    const open = changed("aws:lb/loadBalancer:LoadBalancer", { internal: false });
    expect(found("public-endpoint-is-guarded", open)).toEqual([]);
    expect(found("public-endpoint-is-guarded", open, { hasApiKeys: false })).toEqual([
      expect.stringContaining("wants no key"),
    ]);
    const plain = open.map((one) =>
      one.type === "aws:lb/listener:Listener"
        ? { ...one, inputs: { ...one.inputs, port: 80, protocol: "HTTP" } }
        : one,
    );
    expect(found("public-endpoint-is-guarded", plain)).toEqual([expect.stringContaining("speaks HTTP")]);
  });

  test("engine-store-is-protected: a file system that goes with its stack", () => {
    const goes = changed("aws:efs/fileSystem:FileSystem", {}, {});
    expect(found("engine-store-is-protected", goes)).toEqual([
      expect.stringContaining("neither protect nor retainOnDelete"),
    ]);
  });

  test.each(good.map((one) => [one.type, one] as const))("resources-are-labelled: %s", (type, one) => {
    const untagged = { ...one, inputs: { ...one.inputs, tags: undefined } };
    expect(found("resources-are-labelled", [untagged])).toHaveLength(
      awsProperties(type).includes("tags") ? 1 : 0,
    );
  });
});
