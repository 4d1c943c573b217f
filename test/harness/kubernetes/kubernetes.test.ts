import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Gpu } from "../../../infra/plan/catalogue/types.ts";
import type { PoolSpec } from "../../../infra/plan/spec.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import type { RenderedStack } from "../../../scripts/render.ts";
import { claimVolumes } from "./bring-up.ts";
import { restrictedNamespace, takenForGranted } from "./cluster-setup.ts";
import { buildGoModules } from "./go-build.ts";
import { GO_MODULES, type GoModuleName, goModules, requiredModule } from "./go-modules.ts";
import { findGo, goEnvironment } from "./go-toolchain.ts";
import { poolNodes } from "./nodes.ts";
import type { KubernetesObject } from "./objects.ts";
import { renderedObjects, stackObjects } from "./rendered.ts";
import { schemasOfDefinition, schemasOfSwagger } from "./schemas.ts";
import { poolsOf } from "./stack-files.ts";

/** Builds by a stand-in for Go that does at once what it is asked for. */
describe("builds of Go modules", () => {
  const FAKE_GO = `#!/bin/sh
here="\${0%/*}/.."
case "$1" in
  version) echo "go version $(cat "$here/version") linux/amd64" ;;
  env)
    if [ -e "$here/too-old" ]; then echo "go: go.mod requires go >= 1.26.0" >&2; exit 1; fi
    cat "$here/version"; (cd "$here" && pwd) ;;
  build)
    for path in "$@"; do :; done
    if [ "$path" = "$(cat "$here/broken" 2>/dev/null)" ]; then echo "$path: it does not compile" >&2; exit 1; fi
    while [ "$1" != -o ]; do shift; done
    echo "$path $GOCACHE" >> "$here/builds"; touch "$GOCACHE/compiled"; echo "$path" > "$2" ;;
  mod)
    mkdir -p "$here/modules"
    echo "{ \\"Dir\\": \\"$here/modules/$4\\" }" ;;
esac
`;

  let folder: string;

  const lines: string[] = [];

  const report = (line: string) => void lines.push(line);

  const path = (...names: string[]) => join(folder, ...names);

  const builds = () => readFileSync(path("go/builds"), "utf8").trim().split("\n");

  const cached = () => readdirSync(path("cache/kubernetes-programs")).toSorted();

  const programsOf = (names: readonly GoModuleName[]) =>
    names.flatMap((name) => Object.values(goModules[name].programs));

  /** Enough if it does not matter which: each program is a process. */
  const TWO = ["etcd", "kwok"] as const;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-go-"));
    lines.length = 0;
    mkdirSync(path("go/bin"), { recursive: true });
    writeFileSync(path("go/version"), "go1.26.8\n");
    writeFileSync(path("go/bin/go"), FAKE_GO);
    chmodSync(path("go/bin/go"), 0o755);
    for (const [module, file] of GO_MODULES.flatMap(filesOf)) {
      mkdirSync(join(path("go/modules", module), file, ".."), { recursive: true });
      writeFileSync(join(path("go/modules", module), file), file, { mode: 0o444 });
    }
    vi.stubEnv("PATH", `${path("go/bin")}:${process.env.PATH}`);
    vi.stubEnv("ENGINE_ROOM_CACHE_DIR", path("cache"));
    vi.stubEnv("GOCACHE", undefined);
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  /** `module@version` of each of a module's files, and the path within it. */
  function filesOf(name: (typeof GO_MODULES)[number]): (readonly [string, string])[] {
    const goMod = readFileSync(join(import.meta.dirname, "go", name, "go.mod"), "utf8");
    return Object.values(goModules[name].files).map((file) => {
      const { module, version, rest } = requiredModule(goMod, file);
      return [`${module}@${version}`, rest] as const;
    });
  }

  test("programs of Go modules are built once, and only they and their files are kept", async () => {
    const built = (await buildGoModules(GO_MODULES, report)) as Record<GoModuleName, string>;
    expect(builds().map((line) => line.split(" ")[0])).toEqual(programsOf(GO_MODULES));
    for (const name of GO_MODULES) {
      const { programs, files } = goModules[name];
      expect(readdirSync(built[name]).toSorted()).toEqual(
        [...Object.keys(programs), ...Object.keys(files)].toSorted(),
      );
    }
    expect(cached()).toEqual(GO_MODULES.map((name) => basename(built[name])).toSorted());
    expect(lines[0]).toBe("Building kubeconform for the tests, once: about 1 min on two cores …");

    lines.length = 0;
    expect(await buildGoModules(GO_MODULES, report)).toEqual(built);
    expect([builds().length, lines]).toEqual([programsOf(GO_MODULES).length, []]);
  });

  test("two builds at the same time build each program once", async () => {
    const [first, second] = await Promise.all([buildGoModules(TWO, report), buildGoModules(TWO, report)]);
    expect(first).toEqual(second);
    expect(builds().length).toBe(programsOf(TWO).length);
    const waiting = `The tests' programs are being built by process ${process.pid} (\`build\`, since `;
    expect(lines.filter((line) => line.startsWith(waiting))).toHaveLength(1);
  });

  test("another version of Go builds the programs again and keeps those of the old version", async () => {
    const before = (await buildGoModules(TWO, report)) as Record<GoModuleName, string>;
    writeFileSync(path("go/version"), "go1.27.0\n");
    const after = (await buildGoModules(TWO, report)) as Record<GoModuleName, string>;
    expect(cached().length).toBe(2 * TWO.length);
    expect(TWO.filter((name) => before[name] === after[name])).toEqual([]);
  });

  test("a program that does not compile is an error in the compiler's words, and leaves no incomplete folder", async () => {
    writeFileSync(path("go/broken"), "k8s.io/kubernetes/cmd/kube-scheduler");
    await expect(buildGoModules(GO_MODULES, report)).rejects.toThrow(
      /^kube of the tests can't be built: .* k8s\.io\/kubernetes\/cmd\/kube-scheduler: it does not compile$/,
    );
    expect(cached().map((name) => name.split("-")[0])).toEqual(["crds", "etcd", "kubeconform", "kwok"]);
    rmSync(path("go/broken"));
    const built = (await buildGoModules(GO_MODULES, report)) as Record<GoModuleName, string>;
    expect(existsSync(join(built.kube, "kube-scheduler"))).toBe(true);
  });

  test("builds use and keep the GOCACHE that the user names", async () => {
    mkdirSync(path("mine"));
    vi.stubEnv("GOCACHE", path("mine"));
    await buildGoModules(TWO, report);
    expect(new Set(builds().map((line) => line.split(" ")[1]))).toEqual(new Set([path("mine")]));
    expect(readdirSync(path("mine"))).toEqual(["compiled"]);
  });

  test("a Go that is too old is reported with the version that is needed", async () => {
    writeFileSync(path("go/version"), "go1.19.8\n");
    writeFileSync(path("go/too-old"), "");
    const reason = "here is go1.19.8, and the tests' programs are built with Go 1.26.0 or newer";
    expect(await findGo()).toEqual({ reason });
    expect(await buildGoModules(GO_MODULES, report)).toEqual({ reason });
    expect(existsSync(path("cache"))).toBe(false);
  });

  test("a missing Go is reported", async () => {
    symlinkSync("/usr/bin/setpriv", path("setpriv"));
    const environment = { ...goEnvironment(), PATH: folder };
    expect(await findGo(environment)).toEqual({
      reason: "no Go on PATH; the tests' programs are built with Go 1.26.0 or newer",
    });
  });

  test("every Go program and file belongs to a module that go.mod requires and go.sum has", () => {
    for (const name of GO_MODULES) {
      const source = join(import.meta.dirname, "go", name);
      const goMod = readFileSync(join(source, "go.mod"), "utf8");
      const goSum = readFileSync(join(source, "go.sum"), "utf8");
      const { programs, files } = goModules[name];
      for (const path of [...Object.values(programs), ...Object.values(files)]) {
        const { module, version } = requiredModule(goMod, path);
        expect(goSum).toContain(`${module} ${version} h1:`);
      }
    }
    expect(() => requiredModule("require a.org/b v1.0.0\n", "a.org/bc/d")).toThrow(
      "No module of go.mod has a.org/bc/d.",
    );
  });
});

type Resource = RenderedStack["resources"][number];

/** A resource as `npx engine-room render` has it. */
function resource(type: string, name: string, inputs: object, more: Partial<Resource> = {}): Resource {
  return {
    type,
    name,
    urn: urn(type, name),
    parent: urn("pulumi:pulumi:Stack", "engine-room-tests"),
    custom: true,
    inputs: { ...inputs },
    dependencies: [],
    propertyDependencies: {},
    options: {},
    ...more,
  };
}

const objectsOf = (...resources: Resource[]) => stackObjects({ resources, outputs: {} }).objects;

const urn = (type: string, name: string) => `urn:pulumi:tests::engine-room::${type}::${name}`;

const NAMESPACE = "kubernetes:core/v1:Namespace";

const JOB = "kubernetes:batch/v1:Job";

const DEPLOYMENT = "kubernetes:apps/v1:Deployment";

test("rendered objects are after their dependencies, without Pulumi's own resources", () => {
  const metadata = (name: string) => ({ name, namespace: "models" });
  const objects = stackObjects({
    outputs: { engineStore: "claim" },
    resources: [
      resource("pulumi:providers:kubernetes", "cluster", { context: "there" }),
      resource("engine-room:kubernetes:TritonServer", "llama", {}, { custom: false }),
      resource(
        DEPLOYMENT,
        "llama",
        { apiVersion: "apps/v1", kind: "Deployment", metadata: metadata("llama"), spec: { replicas: 1 } },
        {
          parent: urn("engine-room:kubernetes:TritonServer", "llama"),
          dependencies: [urn(JOB, "llama-engine"), urn(NAMESPACE, "namespace")],
        },
      ),
      resource(
        JOB,
        "llama-engine",
        { apiVersion: "batch/v1", kind: "Job", metadata: metadata("llama-0123456789ab"), spec: {} },
        { dependencies: [urn(NAMESPACE, "namespace")] },
      ),
      resource(NAMESPACE, "namespace", { apiVersion: "v1", kind: "Namespace", metadata: { name: "models" } }),
      resource("kubernetes:helm.sh/v3:Release", "keda", { chart: "keda" }),
      resource(
        "kubernetes:core/v1:PersistentVolumeClaim",
        "existing",
        { apiVersion: "v1", kind: "PersistentVolumeClaim" },
        { readId: "models/store" },
      ),
    ],
  });
  expect(objects).toEqual({
    objects: [
      { apiVersion: "v1", kind: "Namespace", metadata: { name: "models" } },
      { apiVersion: "batch/v1", kind: "Job", metadata: metadata("llama-0123456789ab"), spec: {} },
      { apiVersion: "apps/v1", kind: "Deployment", metadata: metadata("llama"), spec: { replicas: 1 } },
    ],
    charts: ["keda"],
    outputs: { engineStore: "claim" },
  });
});

test("a rendered object without a name gets one", () => {
  const inputs = { apiVersion: "v1", kind: "ConfigMap", metadata: { labels: { a: "b" } } };
  expect(objectsOf(resource("kubernetes:core/v1:ConfigMap", "c", inputs))).toEqual([
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c-tests", labels: { a: "b" } } },
  ]);
});

test("rendered secrets have the form that the API requires", () => {
  const secret = (inputs: object) => {
    const common = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" } };
    return objectsOf(resource("kubernetes:core/v1:Secret", "s", { ...common, ...inputs }))[0];
  };
  expect(secret({ type: "Opaque", data: "[secret]" })).toMatchObject({ type: "Opaque", data: {} });
  expect(secret({ data: { token: "[secret]", plain: "YQ==" } })).toMatchObject({
    data: { token: Buffer.from("[secret]").toString("base64"), plain: "YQ==" },
  });
  expect(secret({ stringData: { token: "[secret]" } })).toMatchObject({ stringData: { token: "[secret]" } });
});

test("a rendered value that only `up` knows is an error with its path", () => {
  const inputs = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "s" },
    spec: { ports: [{ port: 1 }, { port: "[unknown]" }] },
  };
  expect(() => objectsOf(resource("kubernetes:core/v1:Service", "s", inputs))).toThrow(
    "spec.ports.1.port of Service s is known only after `up`; give what it refers to a name of its own.",
  );
});

test("a rendered resource that is not an API object is an error", () => {
  const file = resource("kubernetes:yaml/v2:ConfigFile", "f", { file: "x.yaml" });
  expect(() => objectsOf(file)).toThrow(
    "f of type kubernetes:yaml/v2:ConfigFile is no single object of the Kubernetes API.",
  );
});

test("a stack file is rendered by `npx engine-room render`, whose errors are passed through", async () => {
  const local = await renderedObjects(join(projectRoot, "Pulumi.local.yaml"));
  expect(local).toMatchObject({ objects: [], charts: [], outputs: { models: [{ name: "smollm2" }] } });
  const folder = mkdtempSync(join(tmpdir(), "engine-room-stack-file-"));
  try {
    const file = join(folder, "stack.yaml");
    writeFileSync(file, "config:\n  engine-room:platform: moon\n");
    await expect(renderedObjects(file)).rejects.toThrow(/platform/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

const reference = (name: string) => ({ $ref: `#/definitions/${name}` });

const shared = (name: string) => ({ $ref: `_definitions.json#/definitions/${name}` });

test("each kind of the API server gets a closed schema file of its own", () => {
  const files = schemasOfSwagger({
    definitions: {
      "io.k8s.api.apps.v1.Deployment": {
        type: "object",
        properties: {
          apiVersion: { type: "string" },
          kind: { type: "string" },
          spec: reference("io.k8s.api.apps.v1.DeploymentSpec"),
        },
        "x-kubernetes-group-version-kind": [{ group: "apps", version: "v1", kind: "Deployment" }],
      },
      "io.k8s.api.apps.v1.DeploymentSpec": {
        type: "object",
        required: ["ports"],
        properties: {
          // A field, though it has the name of a keyword.
          items: { type: "array", items: { type: "object", properties: { a: { type: "string" } } } },
          labels: { type: "object", additionalProperties: { type: "string" } },
          port: { type: "string", format: "int-or-string" },
          memory: reference("io.k8s.apimachinery.pkg.api.resource.Quantity"),
        },
      },
      "io.k8s.apimachinery.pkg.api.resource.Quantity": { type: "string" },
      "io.k8s.api.core.v1.Pod": {
        type: "object",
        "x-kubernetes-group-version-kind": [{ group: "", version: "v1", kind: "Pod" }],
      },
    },
  });
  expect([...files.keys()]).toEqual(["apps_v1_deployment.json", "v1_v1_pod.json", "_definitions.json"]);
  expect(files.get("apps_v1_deployment.json")).toMatchObject({
    required: ["apiVersion", "kind"],
    additionalProperties: false,
    properties: {
      apiVersion: { enum: ["apps/v1"] },
      kind: { enum: ["Deployment"] },
      spec: shared("io.k8s.api.apps.v1.DeploymentSpec"),
    },
  });
  const definitions = files.get("_definitions.json")?.definitions as Record<string, unknown>;
  expect(definitions["io.k8s.api.apps.v1.DeploymentSpec"]).toEqual({
    type: "object",
    required: ["ports"],
    additionalProperties: false,
    properties: {
      items: {
        type: "array",
        items: { type: "object", properties: { a: { type: "string" } }, additionalProperties: false },
      },
      labels: { type: "object", additionalProperties: { type: "string" } },
      port: { type: ["string", "integer"] },
      memory: shared("io.k8s.apimachinery.pkg.api.resource.Quantity"),
    },
  });
  expect(definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]).toEqual({
    type: ["string", "number"],
  });
});

test("the schemas of a custom resource definition are those of its served versions, and open parts stay open", () => {
  const spec = {
    type: "object",
    properties: {
      anything: { type: "object", properties: {}, "x-kubernetes-preserve-unknown-fields": true },
      either: { "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }] },
      perhaps: { type: "string", nullable: true },
      choice: {
        type: "object",
        properties: { a: {}, b: {} },
        oneOf: [{ properties: { a: {} }, required: ["a"] }],
      },
    },
  };
  const openAPIV3Schema = { type: "object", properties: { metadata: { type: "object" }, spec } };
  const files = schemasOfDefinition({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "things.example.org" },
    spec: {
      group: "example.org",
      names: { kind: "Thing" },
      versions: [
        { name: "v1", served: true, schema: { openAPIV3Schema } },
        { name: "v1beta1", served: false, schema: { openAPIV3Schema } },
      ],
    },
  });
  expect([...files.keys()]).toEqual(["example.org_v1_thing.json"]);
  expect(files.get("example.org_v1_thing.json")?.properties).toEqual({
    apiVersion: { type: "string", enum: ["example.org/v1"] },
    kind: { type: "string", enum: ["Thing"] },
    metadata: shared("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    spec: {
      type: "object",
      additionalProperties: false,
      properties: {
        anything: { type: "object", properties: {} },
        either: { type: ["string", "integer"] },
        perhaps: { type: ["string", "null"] },
        choice: {
          type: "object",
          additionalProperties: false,
          properties: { a: {}, b: {} },
          oneOf: [{ properties: { a: {} }, required: ["a"] }],
        },
      },
    },
  });
});

const [pool] = poolsOf(join(projectRoot, "examples/llama-2-7b-chat-kubernetes.yaml")) as [PoolSpec];

test("a planned node offers a GPU that two pods share as two GPUs", () => {
  const resources = {
    cpu: "8000m",
    memory: "65536Mi",
    pods: "110",
    "ephemeral-storage": "200Gi",
    "nvidia.com/gpu": "2",
  };
  expect(poolNodes(pool)).toEqual([
    {
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name: "gpu-0",
        labels: {
          "kubernetes.io/hostname": "gpu-0",
          "kubernetes.io/os": "linux",
          "kubernetes.io/arch": "amd64",
        },
      },
      spec: { taints: [{ key: "nvidia.com/gpu", value: "present", effect: "NoSchedule" }] },
      status: { capacity: resources, allocatable: resources },
    },
  ]);
});

test("a pool has its maximum of nodes, each with its own name, labels and taints", () => {
  const nodes = poolNodes(
    { ...pool, name: "a10g", instanceType: "g5.xlarge", nodes: { min: 1, max: 3 } },
    { labels: { pool: "a10g" }, taints: [] },
  );
  expect(
    nodes.map(({ metadata: { name, labels }, spec }) => [name, labels?.["kubernetes.io/hostname"], spec]),
  ).toEqual([
    ["a10g-0", "a10g-0", { taints: [] }],
    ["a10g-1", "a10g-1", { taints: [] }],
    ["a10g-2", "a10g-2", { taints: [] }],
  ]);
  expect(nodes[0]?.metadata.labels).toMatchObject({
    pool: "a10g",
    "node.kubernetes.io/instance-type": "g5.xlarge",
  });
  expect(poolNodes({ ...pool, nodes: { min: 1, max: 3 } }, { count: 1 }).length).toBe(1);
});

test("MIG partitions have their own resource name, and a pool without GPUs has neither GPUs nor a taint", () => {
  const gpusOf = (changes: Partial<PoolSpec>, options = {}) => {
    const [node] = poolNodes({ ...pool, ...changes }, options) as [KubernetesObject];
    const { capacity } = node.status as { readonly capacity: Readonly<Record<string, string>> };
    return Object.entries(capacity).filter(([name]) => name.startsWith("nvidia.com/"));
  };
  const gpu = { ...(pool.gpu as Gpu), memoryGiB: 80, migProfiles: { "3g.40gb": 39.25 } };
  expect(gpusOf({ gpu, sharing: { mode: "mig", profile: "3g.40gb" } })).toEqual([
    ["nvidia.com/mig-3g.40gb", "2"],
  ]);
  expect(gpusOf({}, { gpuResource: "nvidia.com/gpu.shared" })).toEqual([["nvidia.com/gpu.shared", "2"]]);
  expect(gpusOf({ gpu: null })).toEqual([]);
  expect(poolNodes({ ...pool, gpu: null })[0]?.spec).toEqual({ taints: [] });
});

const claim = {
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "store", namespace: "models" },
  spec: {
    accessModes: ["ReadWriteMany"],
    storageClassName: "shared",
    resources: { requests: { storage: "100Gi" } },
  },
};

test("each volume claim gets a volume of its size, class and modes, and a StatefulSet's claim gets one for each pod", () => {
  const { storageClassName: _, ...own } = claim.spec;
  const set = {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "mongo", namespace: "models" },
    spec: { replicas: 2, volumeClaimTemplates: [{ metadata: { name: "data" }, spec: own }] },
  };
  const volumes = claimVolumes([{ ...claim, kind: "Service" }, claim, set]);
  expect(volumes.map(({ metadata }) => metadata.name)).toEqual([
    "models-store",
    "models-data-mongo-0",
    "models-data-mongo-1",
  ]);
  expect(volumes[0]?.spec).toMatchObject({
    capacity: { storage: "100Gi" },
    accessModes: ["ReadWriteMany"],
    storageClassName: "shared",
    claimRef: { name: "store", namespace: "models" },
  });
  // An empty class, which differs from the default class.
  expect(volumes[1]?.spec).toMatchObject({ storageClassName: "", claimRef: { name: "data-mongo-0" } });
});

test("a volume claim without a size is an error", () => {
  const spec = { accessModes: ["ReadWriteOnce"] };
  expect(() => claimVolumes([{ ...claim, spec }])).toThrow(
    "v1 PersistentVolumeClaim models/store has no size or no access mode; a claim needs both.",
  );
});

test("namespaces, and claims that no object creates, are of the cluster's owner", () => {
  const volumes = ["store", "weights"].map((claimName) => ({
    name: claimName,
    persistentVolumeClaim: { claimName },
  }));
  const job = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "build", namespace: "models" },
    spec: { template: { spec: { volumes: [...volumes, { name: "scratch", emptyDir: {} }] } } },
  };
  const named = (objects: Parameters<typeof takenForGranted>[0]) =>
    takenForGranted(objects).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  expect(named([claim, job, { ...job, metadata: { name: "again", namespace: "models" } }])).toEqual([
    "Namespace models",
    "PersistentVolumeClaim weights",
  ]);
  expect(named([restrictedNamespace("models"), claim])).toEqual([]);
});
