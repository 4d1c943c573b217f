import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { graphChanges } from "../../../scripts/diff/graph-changes.ts";
import { previewChanges } from "../../../scripts/diff/preview.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import type { RenderedResource } from "../../../scripts/render.ts";
import { deployment, resource, STACK, summary } from "./fixtures.ts";

const summaries = (before: readonly RenderedResource[], after: readonly RenderedResource[]) =>
  graphChanges(before, after).changes.map(summary);

test("resources are created, deleted, changed or unchanged, sorted by the risk for data", () => {
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
  const { changes, unchanged } = graphChanges(before, after);
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
  expect(JSON.stringify(graphChanges(before.toReversed(), after.toReversed()))).toBe(
    JSON.stringify({ changes, unchanged }),
  );
});

test("a change says whether the resource is retained or protected, and whether it is deleted before its replacement", () => {
  const held = (options: Partial<RenderedResource["options"]>, size: string) =>
    resource("kubernetes:core/v1:PersistentVolumeClaim", "store", claim(size), { options });
  const claim = (storageClassName: string) => ({
    metadata: { name: "store", namespace: "models" },
    spec: { storageClassName },
  });
  expect(graphChanges([held({ retainOnDelete: true }, "nfs")], []).changes).toMatchObject([
    { kind: "delete", kept: "retained", deletedFirst: null },
  ]);
  expect(
    graphChanges([held({ protect: true }, "nfs")], [held({ protect: true }, "efs")]).changes,
  ).toMatchObject([{ kind: "replace", kept: "protected", deletedFirst: true }]);
  expect(
    graphChanges([held({}, "nfs")], [held({ deleteBeforeReplace: false }, "efs")]).changes,
  ).toMatchObject([{ kind: "replace", kept: null, deletedFirst: false }]);
  expect(graphChanges([held({}, "nfs")], [held({ protect: true }, "nfs")]).changes).toEqual([]);
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
  expect(graphChanges(goes, goes).changes).toEqual([]);
  expect(graphChanges(stays, goes).changes).toMatchObject([
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
  expect(graphChanges(goes, stays).changes).toMatchObject([
    { name: "keys", properties: [{ before: JSON.stringify(cluster.urn), after: "null" }] },
  ]);
});

test("`deletedWith` is unchanged if the resource it names has another URN and an alias", () => {
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
  expect(graphChanges([before, secret(before.urn)], [after, secret(after.urn)]).changes).toEqual([]);
});

test("changes exclude components and resources that are only read, and include providers", () => {
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
  const paths = (before: RenderedResource, after: RenderedResource) =>
    graphChanges([before], [after]).changes.flatMap(({ properties }) =>
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
    const [change] = graphChanges([pod([a, b])], [pod([b, a])]).changes;
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
      resource("kubernetes:core/v1:Service", "app", {
        spec: { ports: numbers.map((port) => ({ name: `p${port}`, port })) },
      });
    expect(paths(service(80), service(79, 80))).toEqual(["add spec.ports[p79]"]);
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
  const withOptions = (options: Partial<RenderedResource["options"]>) => ({
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
    expect(graphChanges([before], [withOptions(options)]).changes.map(({ kind }) => kind)).toEqual(kinds);
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
    const on = (provider: RenderedResource) => ({ ...before, provider: provider.urn });
    const [one, two] = [cluster("one"), cluster("two")];
    expect(summaries([one, two, on(one)], [one, two, on(two)])).toEqual([
      'may-replace Deployment models/server: "(provider)"',
    ]);
  });
});

describe("aliases", () => {
  const group = (name: string, aliases: string[] = []) =>
    resource("engine-room:demo:Group", name, {}, { custom: false, options: { aliases } });
  const child = (
    parent: RenderedResource,
    name: string,
    options: Partial<RenderedResource["options"]> = {},
  ) => ({
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
    expect(graphChanges([old], [aliased(spec({ name: "old" }))])).toEqual({ changes: [], unchanged: 1 });
    expect(graphChanges([old], [aliased(old.urn)])).toEqual({ changes: [], unchanged: 1 });
  });

  test("children of a renamed component with an alias are unchanged, though their names change with its name", () => {
    const before = [group("app"), child(group("app"), "app-server")];
    const renamed = group("newapp", [spec({ name: "app" })]);
    expect(graphChanges(before, [renamed, child(renamed, "newapp-server")])).toEqual({
      changes: [],
      unchanged: 2,
    });
    const unaliased = group("newapp");
    expect(graphChanges(before, [unaliased, child(unaliased, "newapp-server")]).changes).toHaveLength(2);
  });

  test("a resource that moved into a component is unchanged with an alias", () => {
    const before = [resource("demo:index:Thing", "thing", {})];
    const parent = group("app");
    const moved = (alias: object) => [parent, child(parent, "thing", { aliases: [spec(alias)] })];
    expect(graphChanges(before, moved({ noparent: true }))).toEqual({ changes: [], unchanged: 1 });
    expect(graphChanges(before, moved({ parenturn: STACK }))).toEqual({ changes: [], unchanged: 1 });
  });
});

const secret = (data: unknown) =>
  resource("kubernetes:core/v1:Secret", "token", { metadata: { name: "token" }, data });

test("secrets with other marks are reported as changed, without the marks", () => {
  const { changes } = graphChanges(
    [secret({ token: "[secret:0123456789ab]", same: "[secret:aaaaaaaaaaaa]" })],
    [secret({ token: "[secret:ba9876543210]", same: "[secret:aaaaaaaaaaaa]" })],
  );
  expect(changes.map(summary)).toEqual(["replace Secret token: data.token"]);
  expect(changes[0]?.properties).toMatchObject([{ before: "[secret]", after: "[secret]" }]);
  expect(JSON.stringify(changes)).not.toMatch(/0123456789ab|ba9876543210|aaaaaaaaaaaa/);
});

/** Output of `pulumi preview --json --show-sames` of Pulumi 3.260, without durations and source positions. */
const recorded = (name: string) =>
  readFileSync(join(projectRoot, "test/recorded/previews", `${name}.json`), "utf8");

test("the preview of a first `up` creates all resources except components", () => {
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

test("the preview of each operation has the provider's result", () => {
  const { changes, unchanged } = previewChanges(recorded("each-operation"));
  expect(changes.map(({ kind, name, kept, deletedFirst }) => [kind, name, kept, deletedFirst])).toEqual([
    ["replace", "vector-server", null, true],
    ["delete", "former-server", "retained", null],
    ["update", "mongo-server", null, null],
    ["update", "gateway-server", null, null],
    ["update", "encoders-server", null, null],
    ["create", "smollm2-server", null, null],
  ]);
  // The engine also counts components, providers and the stack.
  expect(unchanged).toBe(9);
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

test("text that is not a preview, and a preview that failed, are refused in a sentence", () => {
  for (const text of ["Previewing update", "{}", "[]"])
    expect(() => previewChanges(text)).toThrow("not the output of `pulumi preview --json`");
  const failed = (...messages: readonly string[]) =>
    JSON.stringify({
      diagnostics: [
        { severity: "info#err", message: "careful\n" },
        ...messages.map((message) => ({ severity: "error", message })),
      ],
      changeSummary: { create: 14 },
    });
  expect(() => previewChanges(failed())).not.toThrow();
  const message = "error: \u001b[31mNo such region\u001b[0m hunter22\u202e.\n  Fix: Name another.\n";
  expect(() => previewChanges(failed(message, "error: Two."), ["hunter22"])).toThrow(
    /^The preview failed:\n {2}error: No such region \[secret\]\\u202e\.\n {4}Fix: Name another\.\n {2}error: Two\.$/,
  );
  const token = "hf_atokenoftheenvironment";
  expect(() => previewChanges(failed(`No ${token} here`))).toThrow("No [secret] here");
  const long = failed(`${"x".repeat(1000)}\n`.repeat(100));
  expect(() => previewChanges(long)).toThrow(/\n {2}x{300}…\n {2}… 60 lines more$/);
});

test("files of JSON within a text are compared member by member, and long texts are shown around their difference", () => {
  const file = (rest: object, script: string) =>
    resource("kubernetes:core/v1:ConfigMap", "files", {
      data: { "server.json": JSON.stringify({ models: [{ name: "a", ...rest }] }), "run.sh": script },
    });
  const script = (word: string) => `${"a".repeat(200)} ${word} ${"b".repeat(200)}`;
  const before = file({ batch: 1, engine: "/e/1" }, script("old"));
  const { changes } = graphChanges([before], [file({ batch: 1, engine: "/e/2" }, script("new"))]);
  expect(changes[0]?.properties).toEqual([
    {
      path: 'data."run.sh"',
      kind: "update",
      before: `…${"a".repeat(29)} old ${"b".repeat(66)}…`,
      after: `…${"a".repeat(29)} new ${"b".repeat(66)}…`,
      effect: "replace",
    },
    {
      path: 'data."server.json".models[a].engine',
      kind: "update",
      before: '"/e/1"',
      after: '"/e/2"',
      effect: "replace",
    },
  ]);
});

test("a text of several lines shows the lines that differ, and a digest its first digits", () => {
  const model = (requests: number, more = "") =>
    resource("local:index:ModelRepository", "model", {
      text: `value {\n  string_value: "${requests}"\n}\n${more}`,
      digest: `${requests}`.repeat(64),
    });
  const { changes } = graphChanges([model(4)], [model(2)]);
  expect(changes[0]?.properties).toMatchObject([
    { path: "digest", before: '"444444444444…"', after: '"222222222222…"' },
    { path: "text", before: 'string_value: "4"', after: 'string_value: "2"' },
  ]);
  const [added] = graphChanges([model(4)], [model(4, "a\nb\n")]).changes[0]?.properties ?? [];
  expect(added).toEqual({ path: "text", kind: "update", after: "a ⏎ b", effect: "may-replace" });
});
