import { describe, expect, test } from "vitest";
import { graphChanges } from "../../../scripts/diff/graph-changes.ts";
import type { GraphResource } from "../../../scripts/diff/rendered-tree.ts";
import { deployment, resource, STACK, summary } from "./fixtures.ts";

const compare = (before: readonly GraphResource[], after: readonly GraphResource[], hasMarks = true) =>
  graphChanges({ resources: before, hasMarks }, { resources: after, hasMarks });

const summaries = (before: readonly GraphResource[], after: readonly GraphResource[]) =>
  compare(before, after).changes.map(summary);

describe("resources of two graphs", () => {
  test("come, go, change and stay, those that may be lost first", () => {
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

  test("say what keeps them, and whether the old one goes first", () => {
    const held = (options: Partial<GraphResource["options"]>, size: string) =>
      resource("kubernetes:core/v1:PersistentVolumeClaim", "store", claim(size), { options });
    const claim = (storageClassName: string) => ({
      metadata: { name: "store", namespace: "models" },
      spec: { storageClassName },
    });
    expect(compare([held({ retainOnDelete: true }, "nfs")], []).changes).toMatchObject([
      { kind: "delete", kept: "retained", deletedFirst: null },
    ]);
    expect(compare([held({ protect: true }, "nfs")], [held({ protect: true }, "efs")]).changes).toMatchObject(
      [{ kind: "replace", kept: "protected", deletedFirst: true }],
    );
    expect(compare([held({}, "nfs")], [held({ deleteBeforeReplace: false }, "efs")]).changes).toMatchObject([
      { kind: "replace", kept: null, deletedFirst: false },
    ]);
    expect(compare([held({}, "nfs")], [held({ protect: true }, "nfs")]).changes).toEqual([]);
  });

  test("say what they are deleted with, where that changes: their own or their component's", () => {
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

  test("are deleted with the same one as before where that has another URN", () => {
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

  test("components and what is only read make no entry; providers do", () => {
    const component = resource("engine-room:demo:Group", "group", { size: 1 }, { custom: false });
    const read = resource("kubernetes:core/v1:Secret", "theirs", {}, { readId: "models/theirs" });
    expect(summaries([], [component, read])).toEqual([]);
    const provider = (context: string) => resource("pulumi:providers:kubernetes", "cluster", { context });
    expect(summaries([provider("a")], [provider("b")])).toEqual([
      "may-replace Provider kubernetes cluster: context",
    ]);
  });

  test("of a type or with a property that no table has may be replaced", () => {
    const known = (spec: object) =>
      resource("kubernetes:batch/v1:Job", "build", { metadata: { name: "build" }, spec });
    expect(summaries([known({ completionMode: "Indexed" })], [known({})])).toEqual([
      "may-replace Job build: spec.completionMode",
    ]);
    const unknown = (size: number) => resource("aws:ec2/vpc:Vpc", "network", { size });
    expect(summaries([unknown(1)], [unknown(2)])).toEqual(["may-replace Vpc network: size"]);
  });
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

  test("what comes before others is one difference", () => {
    expect(paths(pod([a, b]), pod([c, a, b]))).toEqual(["add [main].env[C]"]);
    expect(paths(pod([c, a, b]), pod([a, variable("B", "2")]))).toEqual([
      "update [main].env[B].value",
      "delete [main].env[C]",
    ]);
  });

  test("another order is a difference of the list", () => {
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

  test("mounts and ports go by their own keys, and what is there twice by its place", () => {
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

  test("options know elements by where they stand", () => {
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
  ])("%j", (options, kinds) => {
    expect(compare([before], [withOptions(options)]).changes.map(({ kind }) => kind)).toEqual(kinds);
  });

  test("another replacement trigger replaces, another provider may", () => {
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

  test("a renamed resource is the same one", () => {
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

  test("children of a renamed component go with it, and their names with its name", () => {
    const before = [group("app"), child(group("app"), "app-server")];
    const renamed = group("newapp", [spec({ name: "app" })]);
    expect(compare(before, [renamed, child(renamed, "newapp-server")])).toEqual({
      changes: [],
      unchanged: 1,
    });
    const unaliased = group("newapp");
    expect(compare(before, [unaliased, child(unaliased, "newapp-server")]).changes).toHaveLength(2);
  });

  test("a resource that moved out of the stack's root into a component", () => {
    const before = [resource("demo:index:Thing", "thing", {})];
    const parent = group("app");
    const moved = (alias: object) => [parent, child(parent, "thing", { aliases: [spec(alias)] })];
    expect(compare(before, moved({ noparent: true }))).toEqual({ changes: [], unchanged: 1 });
    expect(compare(before, moved({ parenturn: STACK }))).toEqual({ changes: [], unchanged: 1 });
  });
});

describe("secrets", () => {
  const secret = (data: unknown) =>
    resource("kubernetes:core/v1:Secret", "token", { metadata: { name: "token" }, data });

  test("that differ by their marks show as changed, without the marks", () => {
    const { changes } = compare(
      [secret({ token: "[secret:0123456789ab]", same: "[secret:aaaaaaaaaaaa]" })],
      [secret({ token: "[secret:ba9876543210]", same: "[secret:aaaaaaaaaaaa]" })],
    );
    expect(changes.map(summary)).toEqual(["replace Secret token: data.token"]);
    expect(changes[0]?.properties).toMatchObject([{ before: "[secret]", after: "[secret]" }]);
    expect(JSON.stringify(changes)).not.toMatch(/0123456789ab|ba9876543210|aaaaaaaaaaaa/);
  });

  test("without marks on one side are no difference", () => {
    const [marked, bare] = [secret({ token: "[secret:0123456789ab]" }), secret({ token: "[secret]" })];
    expect(
      graphChanges({ resources: [bare], hasMarks: false }, { resources: [marked], hasMarks: true }).changes,
    ).toEqual([]);
  });
});
