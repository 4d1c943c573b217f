import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { handlers } from "../../../components/local/provider/handlers.ts";
import { renderTree } from "../../../scripts/diff/render-tree.ts";
import { awsComputeRows } from "../../../scripts/diff/replacements/aws-compute.ts";
import { awsNetworkRows } from "../../../scripts/diff/replacements/aws-network.ts";
import { awsStorageRows } from "../../../scripts/diff/replacements/aws-storage.ts";
import { localRows } from "../../../scripts/diff/replacements/local.ts";
import { propertyEffect, replacementRow } from "../../../scripts/diff/replacements/property-effects.ts";
import { projectRoot, stackNames } from "../../../scripts/program/stack-file.ts";
import { awsProperties } from "./aws-properties.ts";

const files = [
  ...stackNames().map((name) => ({ stack: name, configFile: join(projectRoot, `Pulumi.${name}.yaml`) })),
  ...readdirSync(join(projectRoot, "examples")).map((file) => ({
    stack: "example",
    configFile: join(projectRoot, "examples", file),
  })),
];

test("every type that a stack file of the project renders has a row", async () => {
  const types = new Set<string>();
  for (const file of files) {
    const { resources, failure, problems } = await renderTree({
      project: projectRoot,
      secretKey: "",
      ...file,
    });
    // A stack that this version can't deploy has no graph.
    expect([file.configFile, failure ?? "", problems]).toEqual([
      file.configFile,
      resources === null ? expect.stringContaining("aws") : "",
      [],
    ]);
    for (const { custom, type } of resources ?? []) if (custom) types.add(type);
  }
  expect(types.size).toBeGreaterThan(15);
  expect([...types].filter((type) => replacementRow(type) === undefined)).toEqual([]);
});

const awsRows = { ...awsNetworkRows, ...awsComputeRows, ...awsStorageRows };

test.each(Object.entries(awsRows))("%s names properties that there are", (type, row) => {
  const properties = awsProperties(type);
  const named = [...row.replaces, ...row.updates, ...(row.replacesWhen?.paths ?? [])];
  const wrong = named.map((path) => path.split(".")[0] ?? "").filter((name) => !properties.includes(name));
  // IAM, DNS and budgets have no region, and what has no tags has none.
  expect(wrong.filter((name) => name !== "region" && name !== "tags")).toEqual([]);
});

test.each(Object.entries(localRows))("%s has what its handler's diff has", async (type, row) => {
  const handler = handlers[type as keyof typeof handlers];
  const properties = [...row.replaces, ...row.updates, ...(row.ignores ?? [])];
  const diffs = await Promise.all(
    properties.map(async (property) => [
      property,
      await handler.diff("id", { [property]: 1 }, { [property]: 2 }),
    ]),
  ).then((entries) => Object.fromEntries(entries));
  for (const property of properties) {
    const { changes, replaces, deleteBeforeReplace } = diffs[property];
    expect([property, changes, replaces]).toEqual([
      property,
      !(row.ignores ?? []).includes(property),
      row.replaces.includes(property) ? [property] : [],
    ]);
    expect(row.deletesFirst({ before: {}, after: {} })).toBe(deleteBeforeReplace);
  }
});

describe("what a property does", () => {
  const effect = (
    type: string,
    path: string,
    { value = 1, after = {}, provider = {} }: { value?: unknown; after?: object; provider?: object } = {},
  ) =>
    propertyEffect(replacementRow(type), path.split("."), value, {
      before: {},
      after: after as Record<string, unknown>,
      provider: provider as Record<string, unknown>,
    });

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
    ["docker:index/container:Container", "mounts.source", "may-replace"],
    ["docker:index/image:Image", "imageName", "may-replace"],
    ["local:index:ModelRepository", "python", null],
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
    ["aws:s3/bucket:Bucket", "bucket", "may-replace"],
  ])("%s %s: %s", (type, path, expected) => {
    expect(effect(type, path)).toBe(expected);
  });

  test("content of a ConfigMap replaces it unless its provider may change it", () => {
    const data = (rest: { after?: object; provider?: object }) =>
      effect("kubernetes:core/v1:ConfigMap", "data.text", rest);
    expect(data({})).toBe("replace");
    expect(data({ provider: { enableConfigMapMutable: "true" } })).toBe("update");
    expect(data({ provider: { enableConfigMapMutable: true }, after: { immutable: true } })).toBe("replace");
  });

  test("a rule of a security group keeps its kind of source", () => {
    const type = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule";
    const before = { cidrIpv4: "10.0.0.0/8" };
    const source = (path: string, after: Readonly<Record<string, unknown>>) =>
      propertyEffect(replacementRow(type), [path], "", { before, after, provider: {} });
    expect(source("cidrIpv4", { cidrIpv4: "10.1.0.0/16" })).toBe("update");
    expect(source("cidrIpv4", { referencedSecurityGroupId: "sg-0" })).toBe("replace");
    expect(source("referencedSecurityGroupId", { referencedSecurityGroupId: "sg-0" })).toBe("replace");
  });

  test("a cluster's secrets can't be left unencrypted again", () => {
    const type = "aws:eks/cluster:Cluster";
    const encryption = { encryptionConfig: { resources: ["secrets"] } };
    const change = (before: object, after: object) =>
      propertyEffect(replacementRow(type), ["encryptionConfig"], encryption.encryptionConfig, {
        before: { ...before },
        after: { ...after },
        provider: {},
      });
    expect(change({}, encryption)).toBe("update");
    expect(change(encryption, {})).toBe("replace");
  });

  test("user data restarts an instance, or replaces it where it says so", () => {
    const type = "aws:ec2/instance:Instance";
    expect(effect(type, "userData")).toBe("update");
    expect(effect(type, "userData", { after: { userDataReplaceOnChange: true } })).toBe("replace");
  });

  test.each([
    [
      "of the program",
      "aws:eks/nodeGroup:NodeGroup",
      { nodeGroupName: "gpu" },
      { nodeGroupName: "gpu" },
      true,
    ],
    ["of the program, another", "aws:lb/targetGroup:TargetGroup", { name: "a" }, { name: "b" }, true],
    ["that AWS fills in", "aws:eks/nodeGroup:NodeGroup", { nodeGroupNamePrefix: "gpu-" }, {}, false],
    ["that a file system's request has", "aws:efs/fileSystem:FileSystem", {}, { creationToken: "a" }, true],
    ["of a host, which is no name of the record", "aws:route53/record:Record", {}, { name: "a.b" }, false],
    ["none", "aws:ec2/subnet:Subnet", { vpcId: "a" }, { vpcId: "b" }, false],
    ["none, and one in a zone", "aws:efs/mountTarget:MountTarget", {}, {}, true],
    ["none, and one in a repository", "aws:ecr/lifecyclePolicy:LifecyclePolicy", {}, {}, true],
    ["none, and the same for AWS", "aws:iam/rolePolicyAttachment:RolePolicyAttachment", {}, {}, true],
  ])("on AWS the old one goes first or not, by its name: %s", (_name, type, before, after, expected) => {
    const row = replacementRow(type);
    expect(row?.deletesFirst({ before: { ...before }, after: { ...after } })).toBe(expected);
  });

  test("a part that comes as a whole does what the worst of it does", () => {
    const type = "kubernetes:core/v1:Service";
    expect(effect(type, "spec", { value: { ports: [{ port: 1 }], selector: { app: "a" } } })).toBe("update");
    expect(effect(type, "spec", { value: { ports: [], clusterIP: "None" } })).toBe("replace");
    expect(effect(type, "spec", { value: { ports: [], loadBalancerClass: "a" } })).toBe("may-replace");
  });
});
