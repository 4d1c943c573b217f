import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { handlers, REMOTE_TYPES } from "../../../components/local/provider/handlers.ts";
import { deletesFirst, propertyEffect, replacementRows } from "../../../scripts/diff/replacements.ts";
import { listsOf, renewed } from "../../../scripts/diff/update-replacements.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { projectStackFiles } from "../../harness/stack-files.ts";
import { awsProperties } from "./aws-properties.ts";
import { renderedText } from "./fixtures.ts";

test("every type that the project's stack files render has a row in the table of replacements", async () => {
  const types = new Set<string>();
  for (const file of projectStackFiles) {
    const { tree } = await renderedText(readFileSync(join(projectRoot, file), "utf8"), "prod");
    expect([file, tree.failure, tree.problems]).toEqual([file, null, []]);
    for (const { custom, type } of tree.resources ?? []) if (custom) types.add(type);
  }
  expect(types.size).toBeGreaterThan(15);
  expect([...types].filter((type) => !replacementRows().has(type))).toEqual([]);
});

const rowsOf = (provider: string) =>
  [...replacementRows()].filter(([type]) => type.startsWith(`${provider}:`));

test.each(rowsOf("aws"))("the row of %s names existing properties", (type, { replaces, updates }) => {
  const properties = awsProperties(type);
  const wrong = [...replaces, ...updates]
    .map(([name = ""]) => name)
    .filter((name) => !properties.includes(name));
  // IAM, DNS and budgets have no region, and some types have no tags.
  expect(wrong.filter((name) => name !== "region" && name !== "tags")).toEqual([]);
});

test.each(rowsOf("local"))("the row of %s agrees with its handler's diff", async (type, row) => {
  const handler = handlers[type as keyof typeof handlers];
  const [replaces, updates] = [row.replaces, row.updates].map((paths) =>
    paths.map((path) => path.join(".")),
  ) as [string[], string[]];
  const properties = [...replaces, ...updates];
  const diffs = await Promise.all(
    properties.map(async (property) => [
      property,
      await handler.diff("id", { [property]: 1 }, { [property]: 2 }),
    ]),
  ).then((entries) => Object.fromEntries(entries));
  for (const property of properties) {
    const { changes, replaces } = diffs[property];
    expect([property, changes, replaces]).toEqual([
      property,
      true,
      replaces.includes(property) ? [property] : [],
    ]);
  }
  // Remote resources have nothing on this machine to delete.
  expect(deletesFirst(type, {}, {})).toBe(!REMOTE_TYPES.includes(type));
});

describe("the effect of a property", () => {
  const effect = (type: string, path: string, value: unknown = 1) =>
    propertyEffect(type, path.split("."), value);

  test.each([
    ["kubernetes:apps/v1:Deployment", "spec.selector.matchLabels.app", "replace"],
    ["kubernetes:apps/v1:Deployment", "spec.template.spec.containers", "update"],
    ["kubernetes:apps/v1:Deployment", "spec.somethingNew", "may-replace"],
    ["kubernetes:apps/v1:StatefulSet", "spec.volumeClaimTemplates.spec", "replace"],
    ["kubernetes:core/v1:PersistentVolumeClaim", "spec.resources.requests.storage", "update"],
    ["kubernetes:core/v1:PersistentVolumeClaim", "spec.volumeMode", "may-replace"],
    ["kubernetes:batch/v1:Job", "spec.template.spec", "replace"],
    ["kubernetes:core/v1:Service", "spec.clusterIP", "replace"],
    ["docker:index/container:Container", "image", "replace"],
    ["docker:index/container:Container", "restart", "update"],
    ["docker:index/container:Container", "mounts.source", "replace"],
    ["docker:index/container:Container", "somethingNew", "may-replace"],
    ["docker:index/image:Image", "imageName", "may-replace"],
    ["local:index:ModelRepository", "python", "may-replace"],
    ["kubernetes:core/v1:ConfigMap", "data.text", "replace"],
    ["aws:ec2/instance:Instance", "userData", "update"],
    ["aws:eks/cluster:Cluster", "encryptionConfig", "may-replace"],
    ["aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "cidrIpv4", "may-replace"],
    ["kubernetes:helm.sh/v3:Release", "namespace", "replace"],
    ["kubernetes:helm.sh/v3:Release", "values.replicas", "update"],
    ["aws:eks/nodeGroup:NodeGroup", "instanceTypes", "replace"],
    ["aws:eks/nodeGroup:NodeGroup", "scalingConfig.maxSize", "update"],
    ["aws:eks/nodeGroup:NodeGroup", "launchTemplate.version", "update"],
    ["aws:eks/nodeGroup:NodeGroup", "region", "replace"],
    ["aws:efs/fileSystem:FileSystem", "throughputMode", "update"],
    ["aws:efs/fileSystem:FileSystem", "tags.Name", "update"],
    ["aws:efs/accessPoint:AccessPoint", "rootDirectory.path", "replace"],
    ["aws:ec2/vpc:Vpc", "instanceTenancy", "may-replace"],
    ["aws:sqs/queue:Queue", "name", "may-replace"],
  ])("a change of %s %s has the effect %s", (type, path, expected) => {
    expect(effect(type, path)).toBe(expected);
  });

  test.each([
    [
      "a node group with a name of the program is deleted first",
      "aws:eks/nodeGroup:NodeGroup",
      { nodeGroupName: "gpu" },
      { nodeGroupName: "gpu" },
      true,
    ],
    [
      "a target group with another name of the program is deleted first",
      "aws:lb/targetGroup:TargetGroup",
      { name: "a" },
      { name: "b" },
      true,
    ],
    [
      "a node group whose name AWS fills in is deleted last",
      "aws:eks/nodeGroup:NodeGroup",
      { nodeGroupNamePrefix: "gpu-" },
      {},
      false,
    ],
    [
      "a file system, whose request has a token, is deleted first",
      "aws:efs/fileSystem:FileSystem",
      {},
      { creationToken: "a" },
      true,
    ],
    [
      "a record, whose name is that of a host, is deleted last",
      "aws:route53/record:Record",
      {},
      { name: "a.b" },
      false,
    ],
    [
      "a subnet, which has no name, is deleted last",
      "aws:ec2/subnet:Subnet",
      { vpcId: "a" },
      { vpcId: "b" },
      false,
    ],
    [
      "a mount target, of which a zone has one, is deleted first",
      "aws:efs/mountTarget:MountTarget",
      {},
      {},
      true,
    ],
    [
      "a lifecycle policy, of which a repository has one, is deleted first",
      "aws:ecr/lifecyclePolicy:LifecyclePolicy",
      {},
      {},
      true,
    ],
    [
      "an attached role policy, which is the same for AWS, is deleted first",
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
      {},
      {},
      true,
    ],
  ])("%s if it is replaced", (_name, type, before, after, expected) => {
    expect(deletesFirst(type, { ...before }, { ...after })).toBe(expected);
  });

  test("a new part of a resource has the worst effect of its properties", () => {
    const type = "kubernetes:core/v1:Service";
    expect(effect(type, "spec", { ports: [{ port: 1 }], selector: { app: "a" } })).toBe("update");
    expect(effect(type, "spec", { ports: [], clusterIP: "None" })).toBe("replace");
    expect(effect(type, "spec", { ports: [], loadBalancerClass: "a" })).toBe("may-replace");
  });
});

describe("a provider's schema", () => {
  const flagged = { willReplaceOnChanges: true, replaceOnChanges: false };
  const plain = { willReplaceOnChanges: false, replaceOnChanges: false };
  const nested = (type: string) => ({ ...plain, items: { $ref: `#/types/${encodeURIComponent(type)}` } });
  const schema = {
    name: "docker" as const,
    types: {
      "docker:index/Disk:Disk": { properties: { size: plain, kind: flagged } },
      "docker:index/Label:Label": { properties: { text: plain } },
      "docker:index/Loop:Loop": { properties: { inner: nested("docker:index/Loop:Loop"), name: flagged } },
    },
    resources: {
      "docker:index/thing:Thing": {
        inputProperties: {
          name: flagged,
          disks: nested("docker:index/Disk:Disk"),
          labels: nested("docker:index/Label:Label"),
          loop: nested("docker:index/Loop:Loop"),
          tags: plain,
        },
      },
    },
  };

  test("a provider's schema has the properties that replace a resource, down to parts of a property", () => {
    const inputs = schema.resources["docker:index/thing:Thing"].inputProperties;
    expect(listsOf(schema, inputs)).toEqual({
      replaces: ["disks.kind", "loop.name", "name"],
      updates: ["disks.size", "labels", "loop.inner", "tags"],
    });
  });

  test("a provider's schema renews the rows of a file, and keeps its comments and the properties of all types", () => {
    const text =
      "# Source.\n\nevery:\n  updates: tags\n# Kept.\ndocker:index/thing:Thing:\n  updates: name\n";
    expect(renewed(text, schema)).toBe(
      "# Source.\n\nevery:\n  updates: tags\n# Kept.\ndocker:index/thing:Thing:\n  replaces: disks.kind loop.name name\n  updates: disks.size labels loop.inner\n",
    );
    expect(() => renewed("docker:index/other:Other: {}\n", schema)).toThrow("no docker:index/other:Other");
  });
});
