import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { handlers } from "../../../components/local/provider/handlers.ts";
import { graphChanges } from "../../../scripts/diff/graph-changes.ts";
import { previewChanges } from "../../../scripts/diff/preview-json.ts";
import type { GraphResource } from "../../../scripts/diff/rendered-tree.ts";
import { awsComputeRows } from "../../../scripts/diff/replacements/aws-compute.ts";
import { awsNetworkRows } from "../../../scripts/diff/replacements/aws-network.ts";
import { awsStorageRows } from "../../../scripts/diff/replacements/aws-storage.ts";
import { localRows } from "../../../scripts/diff/replacements/local.ts";
import { propertyEffect, replacementRow } from "../../../scripts/diff/replacements/property-effects.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { projectStackFiles } from "../../harness/stack-files.ts";
import { awsProperties } from "./aws-properties.ts";
import { deployment, renderedText, resource, STACK, summary } from "./fixtures.ts";

const compare = (before: readonly GraphResource[], after: readonly GraphResource[], hasMarks = true) =>
  graphChanges({ resources: before, hasMarks }, { resources: after, hasMarks });

const summaries = (before: readonly GraphResource[], after: readonly GraphResource[]) =>
  compare(before, after).changes.map(summary);

test("resources are created, deleted, changed or unchanged, those that may lose data first", () => {
  const before = [
    deployment("stays", "a:1"),
    deployment("changes", "a:1"),
    deployment("goes", "a:1"),
    deployment("moves", "a:1"),
  ];
  const after = [
    deployment("comes", "a:1"),
    deployment("moves", "a:1", "others"),
    deployment("changes", "a:2"),
    deployment("stays", "a:1"),
  ];
  const { changes, unchanged } = compare(before, after);
  expect(changes.map(summary)).toEqual([
    "replace Deployment others/moves: metadata.namespace",
    "delete Deployment models/goes",
    "update Deployment models/changes: spec.template.spec.containers[changes].image",
    "create Deployment models/comes",
  ]);
  expect(unchanged).toBe(1);
  expect(changes[2]?.properties).toEqual([
    {
      path: "spec.template.spec.containers[changes].image",
      kind: "update",
      before: '"a:1"',
      after: '"a:2"',
      effect: "update",
    },
  ]);
  expect(JSON.stringify(compare(before.toReversed(), after.toReversed()))).toBe(
    JSON.stringify({ changes, unchanged }),
  );
});

test("a change says whether the resource is retained or protected, and whether the old one is deleted first", () => {
  const held = (options: Partial<GraphResource["options"]>, size: string) =>
    resource("kubernetes:core/v1:PersistentVolumeClaim", "store", claim(size), { options });
  const claim = (storageClassName: string) => ({
    metadata: { name: "store", namespace: "models" },
    spec: { storageClassName },
  });
  expect(compare([held({ retainOnDelete: true }, "nfs")], []).changes).toMatchObject([
    { kind: "delete", kept: "retained", deletedFirst: null },
  ]);
  expect(compare([held({ protect: true }, "nfs")], [held({ protect: true }, "efs")]).changes).toMatchObject([
    { kind: "replace", kept: "protected", deletedFirst: true },
  ]);
  expect(compare([held({}, "nfs")], [held({ deleteBeforeReplace: false }, "efs")]).changes).toMatchObject([
    { kind: "replace", kept: null, deletedFirst: false },
  ]);
  expect(compare([held({}, "nfs")], [held({ protect: true }, "nfs")]).changes).toEqual([]);
});

test("a change of `deletedWith` is an update, on the resource or on its component", () => {
  const cluster = resource("aws:eks/cluster:Cluster", "cluster", {});
  const part = (deletedWith?: string) =>
    resource(
      "engine-room:demo:Part",
      "part",
      {},
      {
        custom: false,
        ...(deletedWith === undefined ? {} : { options: { deletedWith } }),
      },
    );
  const child = resource(
    "kubernetes:core/v1:Secret",
    "keys",
    { metadata: { name: "keys" } },
    {
      parent: part().urn,
    },
  );
  const goes = [cluster, part(cluster.urn), child];
  const stays = [cluster, part(), child];
  expect(compare(goes, goes).changes).toEqual([]);
  expect(compare(stays, goes).changes).toMatchObject([
    {
      kind: "update",
      name: "keys",
      properties: [
        {
          path: '"(deletedWith)"',
          kind: "update",
          before: "null",
          after: JSON.stringify(cluster.urn),
          effect: "update",
        },
      ],
    },
  ]);
  expect(compare(goes, stays).changes).toMatchObject([
    { name: "keys", properties: [{ before: JSON.stringify(cluster.urn), after: "null" }] },
  ]);
});

test("`deletedWith` is unchanged where the resource it names has another URN and an alias", () => {
  const secret = (urn: string) =>
    resource("kubernetes:core/v1:Secret", "keys", {}, { options: { deletedWith: urn } });
  const before = resource("aws:eks/cluster:Cluster", "cluster", {});
  const after = resource(
    "aws:eks/cluster:Cluster",
    "cluster-2",
    {},
    {
      options: { aliases: [before.urn] },
    },
  );
  expect(compare([before, secret(before.urn)], [after, secret(after.urn)]).changes).toEqual([]);
});

test("components and resources that are only read are no changes, and providers are", () => {
  const component = resource("engine-room:demo:Group", "group", { size: 1 }, { custom: false });
  const read = resource("kubernetes:core/v1:Secret", "theirs", {}, { readId: "models/theirs" });
  expect(summaries([], [component, read])).toEqual([]);
  const provider = (context: string) => resource("pulumi:providers:kubernetes", "cluster", { context });
  expect(summaries([provider("a")], [provider("b")])).toEqual([
    "may-replace Provider kubernetes cluster: context",
  ]);
});

test("a resource of an unknown type, or with an unknown property, may be replaced", () => {
  const known = (spec: object) =>
    resource("kubernetes:batch/v1:Job", "build", { metadata: { name: "build" }, spec });
  expect(summaries([known({ completionMode: "Indexed" })], [known({})])).toEqual([
    "may-replace Job build: spec.completionMode",
  ]);
  const unknown = (size: number) => resource("aws:ec2/vpc:Vpc", "network", { size });
  expect(summaries([unknown(1)], [unknown(2)])).toEqual(["may-replace Vpc network: size"]);
});

describe("lists of Kubernetes", () => {
  const variable = (name: string, value = name) => ({ name, value });
  const pod = (env: readonly object[], rest: object = {}) =>
    resource("kubernetes:apps/v1:Deployment", "app", {
      metadata: { name: "app" },
      spec: { template: { spec: { containers: [{ name: "main", env, ...rest }] } } },
    });
  const paths = (before: GraphResource, after: GraphResource) =>
    compare([before], [after]).changes.flatMap(({ properties }) =>
      properties.map(({ kind, path }) => `${kind} ${path.replace(/^.*containers/, "")}`),
    );
  const [a, b, c] = [variable("A"), variable("B"), variable("C")];

  test("an element inserted before others is one difference", () => {
    expect(paths(pod([a, b]), pod([c, a, b]))).toEqual(["add [main].env[C]"]);
    expect(paths(pod([c, a, b]), pod([a, variable("B", "2")]))).toEqual([
      "update [main].env[B].value",
      "delete [main].env[C]",
    ]);
  });

  test("another order is a difference of the whole list", () => {
    const [change] = compare([pod([a, b])], [pod([b, a])]).changes;
    expect(change?.properties).toEqual([
      {
        path: "spec.template.spec.containers[main].env",
        kind: "update",
        before: '["A","B"]',
        after: '["B","A"]',
        effect: "update",
      },
    ]);
  });

  test("mounts and ports are matched by their own keys, and duplicates by their index", () => {
    const mount = (mountPath: string, name: string) => ({ mountPath, name });
    const ports = (...numbers: number[]) => numbers.map((containerPort) => ({ containerPort }));
    expect(
      paths(
        pod([], { volumeMounts: [mount("/a", "x")], ports: ports(80) }),
        pod([], { volumeMounts: [mount("/b", "x"), mount("/a", "y")], ports: ports(81, 80) }),
      ),
    ).toEqual([
      'add [main].ports["81"]',
      'update [main].volumeMounts["/a"].name',
      'add [main].volumeMounts["/b"]',
    ]);
    expect(paths(pod([], { ports: ports(80, 80) }), pod([], { ports: ports(80, 81) }))).toEqual([
      "update [main].ports[1].containerPort",
    ]);
    const service = (...numbers: number[]) =>
      resource("kubernetes:core/v1:Service", "app", { spec: { ports: numbers.map((port) => ({ port })) } });
    expect(paths(service(80), service(79, 80))).toEqual(['add spec.ports["79"]']);
  });

  test("`ignoreChanges` names elements of a list by their index", () => {
    const [before, after] = [pod([a]), pod([a, variable("B")])];
    const ignoring = (path: string) => ({
      ...after,
      options: { ...after.options, ignoreChanges: [`spec.template.spec.containers[0].env[${path}]`] },
    });
    expect(["1", "*", "0"].map((path) => paths(before, ignoring(path)).length)).toEqual([0, 0, 1]);
  });
});

describe("options of a resource", () => {
  const [before, after] = [deployment("server", "a:1"), deployment("server", "a:2")];
  const withOptions = (options: Partial<GraphResource["options"]>) => ({
    ...after,
    options: { ...after.options, ...options },
  });

  test.each([
    [{ ignoreChanges: ["spec.template"] }, []],
    [{ ignoreChanges: ["spec.template.spec.containers[*].image"] }, []],
    [{ ignoreChanges: ['spec["template"]'] }, []],
    [{ ignoreChanges: ["spec.templates"] }, ["update"]],
    [{ replaceOnChanges: ["spec.template"] }, ["replace"]],
    [{ replaceOnChanges: ["*"] }, ["replace"]],
    [{ replaceOnChanges: ["spec.replicas"] }, ["update"]],
  ])("with the options %j, a changed image gives the changes %j", (options, kinds) => {
    expect(compare([before], [withOptions(options)]).changes.map(({ kind }) => kind)).toEqual(kinds);
  });

  test("a changed replacement trigger replaces a resource, and another provider may", () => {
    const triggered = (replacementTrigger: string) => ({
      ...before,
      options: { ...before.options, replacementTrigger },
    });
    expect(summaries([triggered("a")], [triggered("b")])).toEqual([
      'replace Deployment models/server: "(replacementTrigger)"',
    ]);
    const cluster = (name: string) => resource("pulumi:providers:kubernetes", name, {});
    const on = (provider: GraphResource) => ({ ...before, provider: provider.urn });
    const [one, two] = [cluster("one"), cluster("two")];
    expect(summaries([one, two, on(one)], [one, two, on(two)])).toEqual([
      'may-replace Deployment models/server: "(provider)"',
    ]);
  });
});

describe("aliases", () => {
  const group = (name: string, aliases: string[] = []) =>
    resource("engine-room:demo:Group", name, {}, { custom: false, options: { aliases } });
  const child = (parent: GraphResource, name: string, options: Partial<GraphResource["options"]> = {}) => ({
    ...resource("demo:index:Thing", name, {}, { parent: parent.urn, options }),
    urn: `urn:pulumi:demo::engine-room::engine-room:demo:Group$demo:index:Thing::${name}`,
  });
  const spec = (value: object) => JSON.stringify(value);

  test("a renamed resource with an alias is unchanged", () => {
    const renamed = { ...deployment("new", "a:1"), inputs: deployment("old", "a:1").inputs };
    const aliased = (alias: string) => ({ ...renamed, options: { ...renamed.options, aliases: [alias] } });
    const old = deployment("old", "a:1");
    expect(summaries([old], [renamed])).toEqual([
      "delete Deployment models/old",
      "create Deployment models/old",
    ]);
    expect(compare([old], [aliased(spec({ name: "old" }))])).toEqual({ changes: [], unchanged: 1 });
    expect(compare([old], [aliased(old.urn)])).toEqual({ changes: [], unchanged: 1 });
  });

  test("children of a renamed component with an alias are unchanged, though their names change with its name", () => {
    const before = [group("app"), child(group("app"), "app-server")];
    const renamed = group("newapp", [spec({ name: "app" })]);
    expect(compare(before, [renamed, child(renamed, "newapp-server")])).toEqual({
      changes: [],
      unchanged: 1,
    });
    const unaliased = group("newapp");
    expect(compare(before, [unaliased, child(unaliased, "newapp-server")]).changes).toHaveLength(2);
  });

  test("a resource that moved into a component is unchanged with an alias", () => {
    const before = [resource("demo:index:Thing", "thing", {})];
    const parent = group("app");
    const moved = (alias: object) => [parent, child(parent, "thing", { aliases: [spec(alias)] })];
    expect(compare(before, moved({ noparent: true }))).toEqual({ changes: [], unchanged: 1 });
    expect(compare(before, moved({ parenturn: STACK }))).toEqual({ changes: [], unchanged: 1 });
  });
});

const secret = (data: unknown) =>
  resource("kubernetes:core/v1:Secret", "token", { metadata: { name: "token" }, data });

test("secrets with other marks are reported as changed, without the marks", () => {
  const { changes } = compare(
    [secret({ token: "[secret:0123456789ab]", same: "[secret:aaaaaaaaaaaa]" })],
    [secret({ token: "[secret:ba9876543210]", same: "[secret:aaaaaaaaaaaa]" })],
  );
  expect(changes.map(summary)).toEqual(["replace Secret token: data.token"]);
  expect(changes[0]?.properties).toMatchObject([{ before: "[secret]", after: "[secret]" }]);
  expect(JSON.stringify(changes)).not.toMatch(/0123456789ab|ba9876543210|aaaaaaaaaaaa/);
});

test("secrets without marks on one side are no difference", () => {
  const [marked, bare] = [secret({ token: "[secret:0123456789ab]" }), secret({ token: "[secret]" })];
  expect(
    graphChanges({ resources: [bare], hasMarks: false }, { resources: [marked], hasMarks: true }).changes,
  ).toEqual([]);
});

test("every type that the project's stack files render has a row in the table of replacements", async () => {
  const types = new Set<string>();
  for (const file of projectStackFiles) {
    const { tree } = await renderedText(readFileSync(join(projectRoot, file), "utf8"), "prod");
    expect([file, tree.failure, tree.problems]).toEqual([file, null, []]);
    for (const { custom, type } of tree.resources ?? []) if (custom) types.add(type);
  }
  expect(types.size).toBeGreaterThan(15);
  expect([...types].filter((type) => replacementRow(type) === undefined)).toEqual([]);
});

const awsRows = { ...awsNetworkRows, ...awsComputeRows, ...awsStorageRows };

test.each(Object.entries(awsRows))("the row of %s names existing properties", (type, row) => {
  const properties = awsProperties(type);
  const named = [...row.replaces, ...row.updates, ...(row.replacesWhen?.paths ?? [])];
  const wrong = named.map((path) => path.split(".")[0] ?? "").filter((name) => !properties.includes(name));
  // IAM, DNS and budgets have no region, and what has no tags has none.
  expect(wrong.filter((name) => name !== "region" && name !== "tags")).toEqual([]);
});

test.each(Object.entries(localRows))("the row of %s agrees with its handler's diff", async (type, row) => {
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

describe("the effect of a property", () => {
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
  ])("a change of %s %s has the effect %s", (type, path, expected) => {
    expect(effect(type, path)).toBe(expected);
  });

  test("other content of a ConfigMap replaces it, unless its provider may change it", () => {
    const data = (rest: { after?: object; provider?: object }) =>
      effect("kubernetes:core/v1:ConfigMap", "data.text", rest);
    expect(data({})).toBe("replace");
    expect(data({ provider: { enableConfigMapMutable: "true" } })).toBe("update");
    expect(data({ provider: { enableConfigMapMutable: true }, after: { immutable: true } })).toBe("replace");
  });

  test("a security group's rule is replaced where its kind of source changes", () => {
    const type = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule";
    const before = { cidrIpv4: "10.0.0.0/8" };
    const source = (path: string, after: Readonly<Record<string, unknown>>) =>
      propertyEffect(replacementRow(type), [path], "", { before, after, provider: {} });
    expect(source("cidrIpv4", { cidrIpv4: "10.1.0.0/16" })).toBe("update");
    expect(source("cidrIpv4", { referencedSecurityGroupId: "sg-0" })).toBe("replace");
    expect(source("referencedSecurityGroupId", { referencedSecurityGroupId: "sg-0" })).toBe("replace");
  });

  test("a cluster is replaced where its secrets are no longer encrypted", () => {
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

  test("user data updates an instance, or replaces it where it says so", () => {
    const type = "aws:ec2/instance:Instance";
    expect(effect(type, "userData")).toBe("update");
    expect(effect(type, "userData", { after: { userDataReplaceOnChange: true } })).toBe("replace");
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
  ])("%s where it is replaced", (_name, type, before, after, expected) => {
    const row = replacementRow(type);
    expect(row?.deletesFirst({ before: { ...before }, after: { ...after } })).toBe(expected);
  });

  test("a new part of a resource has the worst effect of its properties", () => {
    const type = "kubernetes:core/v1:Service";
    expect(effect(type, "spec", { value: { ports: [{ port: 1 }], selector: { app: "a" } } })).toBe("update");
    expect(effect(type, "spec", { value: { ports: [], clusterIP: "None" } })).toBe("replace");
    expect(effect(type, "spec", { value: { ports: [], loadBalancerClass: "a" } })).toBe("may-replace");
  });
});

/** Output of `pulumi preview --json --show-sames` of Pulumi 3.260, without durations and source positions. */
const recorded = (name: string) =>
  readFileSync(join(projectRoot, "test/recorded/previews", `${name}.json`), "utf8");

test("the preview of a first `up` creates everything but components", () => {
  const { changes, unchanged } = previewChanges(recorded("first-up"));
  expect(changes.map(summary)).toEqual([
    "create Process mongo-server",
    "create Process vector-server",
    "create Process gateway-server",
    "create ModelRepository encoders-repository",
    "create ModelRepository smollm2-repository",
    "create Process encoders-server",
    "create Process smollm2-server",
    "create PythonEnvironment python",
  ]);
  expect(unchanged).toBe(0);
});

test("the preview of each operation says what the provider says of it", () => {
  const { changes, unchanged } = previewChanges(recorded("each-operation"));
  expect(changes.map(({ kind, name, kept, deletedFirst }) => [kind, name, kept, deletedFirst])).toEqual([
    ["replace", "vector-server", null, true],
    ["delete", "former-server", "retained", null],
    ["update", "mongo-server", null, null],
    ["update", "gateway-server", null, null],
    ["update", "encoders-server", null, null],
    ["create", "smollm2-server", null, null],
  ]);
  expect(unchanged).toBe(3);
  const [replaced] = changes;
  expect(replaced?.properties.filter(({ effect }) => effect === "replace")).toEqual([
    {
      path: "stackDirectory",
      kind: "update",
      before: '".stacks/former"',
      after: '".stacks/local"',
      effect: "replace",
    },
  ]);
  const rotated = changes.find(({ name }) => name === "mongo-server")?.properties;
  expect(rotated).toContainEqual({
    path: "environment.TOKEN",
    kind: "delete",
    before: "[secret]",
    effect: "update",
  });
});

test("a preview's replacement is one change, without encrypted values and notes of providers", () => {
  const mark = { "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" };
  const state = (ciphertext: string, size: number) => ({
    type: "docker:index/volume:Volume",
    custom: true,
    inputs: { key: { ...mark, ciphertext }, size, __defaults: ["size"] },
  });
  const step = (op: string) => ({
    op,
    urn: "urn:pulumi:a::b::docker:index/volume:Volume::store",
    oldState: state("v1:one", 1),
    newState: state("v1:two", 2),
    detailedDiff: { size: { kind: "update-replace" }, driverOpts: { kind: "add" } },
  });
  const text = JSON.stringify({
    steps: ["delete-replaced", "replace", "create-replacement"].map(step),
    changeSummary: { same: 4 },
  });
  const { changes, unchanged } = previewChanges(text);
  expect(unchanged).toBe(4);
  expect(changes).toMatchObject([
    {
      kind: "replace",
      deletedFirst: true,
      before: { key: "[secret]", size: 1 },
      properties: [
        { path: "driverOpts", before: "(not in the inputs)", effect: "update" },
        { path: "key", before: "[secret]", after: "[secret]", effect: "update" },
        { path: "size", before: "1", after: "2", effect: "replace" },
      ],
    },
  ]);
  expect(JSON.stringify(changes)).not.toMatch(/v1:|__defaults/);
});

test("a variable inserted before others is one difference of a preview, though the provider says that the others moved", () => {
  const state = (...names: readonly string[]) => ({
    type: "kubernetes:batch/v1:Job",
    custom: true,
    inputs: { spec: { template: { containers: [{ name: "main", env: names.map((name) => ({ name })) }] } } },
  });
  const env = (index: number) => `spec.template.containers[0].env[${index}]`;
  const text = JSON.stringify({
    steps: [
      {
        op: "replace",
        urn: "urn:pulumi:a::b::kubernetes:batch/v1:Job::build",
        oldState: state("A", "B"),
        newState: state("C", "A", "B"),
        detailedDiff: {
          [`${env(0)}.name`]: { kind: "update-replace" },
          [`${env(1)}.name`]: { kind: "update-replace" },
          [env(2)]: { kind: "add-replace" },
        },
      },
    ],
    changeSummary: {},
  });
  expect(previewChanges(text).changes[0]?.properties).toEqual([
    { path: "spec.template.containers[main].env[C]", kind: "add", after: '{"name":"C"}', effect: "replace" },
  ]);
});

test("text that is no preview is refused in a sentence", () => {
  for (const text of ["Previewing update", "{}", "[]"])
    expect(() => previewChanges(text)).toThrow("no output of `pulumi preview --json`");
});
