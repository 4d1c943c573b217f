import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { StackOutputs } from "../../../infra/outputs.ts";
import { runProgram } from "../../../scripts/program/run-program.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { renderJson } from "../../../scripts/render.ts";
import { Engine, last, program, rendered, runtimeConfig, type StackValues } from "./program.ts";

const CPU_STACK: StackValues = {
  platform: "docker",
  tier: "cpu",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  host: { uri: "ssh://ubuntu@gpu.example.org" },
};

/** A stack whose only GPU builds engines and serves them. */
const ONE_GPU = example("gpt2-medium-encoders");
/** A stack whose build has its own GPU. */
const FREE_GPU = example("llama-2-7b-tutorial");

function example(name: string): StackValues {
  const file = parse(readFileSync(join(projectRoot, `examples/${name}.yaml`), "utf8")) as {
    config: StackValues;
  };
  return Object.fromEntries(
    Object.entries(file.config).map(([key, value]) => [key.replace("engine-room:", ""), value]),
  );
}

/** A host where everything succeeds except the given results of containers, by name on the host. */
class Host extends Engine {
  constructor(ends: Readonly<Record<string, { exitCode: number; containerLogs: string }>> = {}) {
    super(({ type, name, inputs }) => ({
      ...inputs,
      ...(type === "docker:index/remoteImage:RemoteImage" ? { imageId: `sha256:${name}` } : {}),
      ...(inputs.attach === true
        ? (ends[String(inputs.name)] ?? { exitCode: 0, containerLogs: "done\n" })
        : {}),
    }));
  }
}

async function up(file: StackValues, host = new Host()): Promise<Host> {
  const config = runtimeConfig(file);
  await runProgram({ stack: "demo", config, preview: false, owner: host, program: program(config) });
  return host;
}

const names = (urns: readonly string[] | undefined) => (urns ?? []).map(last).sort();
const ofContainers = <T extends { readonly type: string }>(resources: readonly T[]) =>
  resources.filter(({ type }) => type === "docker:index/container:Container");

const stack = await rendered(CPU_STACK);
const byName = new Map(stack.resources.map((resource) => [resource.name, resource]));

test("a CPU stack on Docker has exactly these resources", () => {
  expect(
    stack.resources.map(({ type, name, parent }) => `${type} ${name} in ${last(parent)}`).sort(),
  ).toEqual([
    "docker:index/container:Container encoders-container in encoders",
    "docker:index/container:Container gateway-container in gateway",
    "docker:index/container:Container mongo-container in mongo",
    "docker:index/container:Container smollm2-container in smollm2",
    "docker:index/container:Container vector-container in vector",
    "docker:index/network:Network network-bridge in network",
    "docker:index/remoteImage:RemoteImage cpu-models-image in cpu-models",
    "docker:index/remoteImage:RemoteImage services-image in services",
    "docker:index/volume:Volume volumes-mongo in volumes",
    "docker:index/volume:Volume volumes-vector in volumes",
    "engine-room:docker:Database mongo in engine-room-demo",
    "engine-room:docker:Database vector in engine-room-demo",
    "engine-room:docker:Encoders encoders in engine-room-demo",
    "engine-room:docker:Gateway gateway in engine-room-demo",
    "engine-room:docker:Image cpu-models in engine-room-demo",
    "engine-room:docker:Image services in engine-room-demo",
    "engine-room:docker:Network network in engine-room-demo",
    "engine-room:docker:TritonServer smollm2 in engine-room-demo",
    "engine-room:docker:Volumes volumes in engine-room-demo",
    "pulumi:providers:docker host in engine-room-demo",
    "pulumi:pulumi:Stack engine-room-demo in ",
  ]);
});

test("SSH to the host never asks for a password", () => {
  const host = byName.get("host");
  expect(host?.inputs).toMatchObject({ host: "ssh://ubuntu@gpu.example.org" });
  expect(JSON.parse(String(host?.inputs.sshOpts))).toEqual([
    ...["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"],
    ...["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"],
  ]);
  const docker = stack.resources.filter(({ type }) => type.startsWith("docker:"));
  expect(new Set(docker.map(({ provider }) => provider))).toEqual(new Set([host?.urn]));
});

test("images are built on the host, and again only when their sources change", () => {
  const image = byName.get("services-image")?.inputs as Record<string, Record<string, string>>;
  const { contentHash = "" } = image.triggers ?? {};
  expect(contentHash).toMatch(/^[0-9a-f]{64}$/);
  expect(image).toEqual({
    name: `engine-room/services:${contentHash.slice(0, 12)}`,
    build: { context: "..", dockerfile: "containers/services/Dockerfile", buildArgs: {} },
    triggers: { contentHash },
    keepLocally: true,
  });
});

test("`down` keeps documents; containers and networks are deleted before their replacements are created", () => {
  const options = Object.fromEntries(
    stack.resources
      .filter(({ type }) => type.startsWith("docker:") && !type.includes("Image"))
      .map(({ name, options: { retainOnDelete, deleteBeforeReplace } }) => [
        name,
        retainOnDelete ? "kept" : deleteBeforeReplace ? "goes first" : "goes last",
      ]),
  );
  expect(options).toEqual({
    "network-bridge": "goes first",
    "volumes-mongo": "kept",
    "volumes-vector": "kept",
    "encoders-container": "goes first",
    "gateway-container": "goes first",
    "mongo-container": "goes first",
    "smollm2-container": "goes first",
    "vector-container": "goes first",
  });
});

test("a change of the health check or of tmpfs replaces a container, as its failed start does", () => {
  for (const { options } of ofContainers(stack.resources))
    expect(options.replaceOnChanges).toEqual(["healthcheck", "tmpfs", "#initerror"]);
});

test("volumes, network and image are created before a container, and databases before the gateway", () => {
  const { propertyDependencies } = byName.get("mongo-container") ?? {};
  expect(names(propertyDependencies?.mounts)).toEqual(["volumes-mongo"]);
  expect(names(propertyDependencies?.networksAdvanced)).toEqual(["network-bridge"]);
  expect(names(propertyDependencies?.image)).toEqual(["services-image"]);
  expect(names(byName.get("gateway-container")?.dependencies)).toEqual(
    expect.arrayContaining(["mongo-container", "vector-container"]),
  );
});

test("a Docker stack is rendered to the same bytes whatever the order of its file", async () => {
  const reordered = Object.fromEntries(Object.entries(CPU_STACK).toReversed());
  expect(renderJson(await rendered(reordered))).toBe(renderJson(stack));
});

test("`up` of a CPU stack returns the promised outputs", async () => {
  const { stackOutputs } = await up(CPU_STACK);
  const { endpoints, ...outputs } = stackOutputs as unknown as StackOutputs;
  expect(endpoints.gateway).toBe("http://127.0.0.1:8080");
  expect(outputs).toMatchObject({
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", engineKey: null, nodePool: "host" }],
    engineStore: "image",
    cost: { hourlyUsd: 0, monthlyUsd: 0, withoutPrice: [], buildUsd: 0, pricesAsOf: null },
  });
});

describe("a host with GPUs", async () => {
  const { resources } = await rendered(ONE_GPU);
  const host = await up(ONE_GPU);

  test("a build that needs the servers' GPU keeps its name and is a property of the servers: they are deleted before it is replaced", async () => {
    const byName = new Map(resources.map((resource) => [resource.name, resource]));
    const builds = ["encoders-build-container", "gpt2-medium-build-container"];
    expect(
      names(ofContainers(resources).flatMap(({ name, inputs }) => (inputs.attach ? [name] : []))),
    ).toEqual(builds);
    for (const server of ["gpt2-medium-container", "encoders-container"])
      expect(names(byName.get(server)?.propertyDependencies.image)).toEqual(expect.arrayContaining(builds));
    expect(names(byName.get("gateway-container")?.propertyDependencies.image)).toEqual(["services-image"]);
    expect(names(byName.get("encoders-build-container")?.propertyDependencies.image)).toEqual([
      "encoders-image",
    ]);
  });

  test("a build on a free GPU has the engine's key in its name, and servers depend on it", async () => {
    const { resources } = await rendered(FREE_GPU);
    const [build] = resources.filter(({ inputs }) => inputs.attach === true);
    expect(build?.name).toMatch(/^demo-llama-2-7b-[0-9a-f]{12}-container$/);
    const server = resources.find(({ name }) => name === "llama-2-7b-container");
    expect(names(server?.dependencies)).toContain(build?.name);
    expect(
      Object.values(server?.propertyDependencies ?? {})
        .flat()
        .map(last),
    ).not.toContain(build?.name);
    // The other name is known too, or a container of the same name would be made twice when a GPU becomes free.
    expect(resources.find(({ urn }) => urn === build?.parent)?.options.aliases?.join()).toContain(
      "llama-2-7b-build",
    );
  });

  test("a build may take the planned time, and its logs are a secret", async () => {
    const build = resources.find(({ name }) => name === "gpt2-medium-build-container");
    expect(build?.options.additionalSecretOutputs).toEqual(["containerLogs"]);
    const [seconds = 0] = /^\d+(?=s$)/.exec(build?.options.customTimeouts?.create ?? "") ?? [];
    expect(Number(seconds)).toBeGreaterThan(20 * 60);
  });

  test("servers are created after a build that succeeded", async () => {
    const { made, stackOutputs } = host;
    const order = ofContainers(made).map(({ name }) => name);
    for (const server of ["gpt2-medium-container", "encoders-container"])
      expect(order.indexOf(server)).toBeGreaterThan(order.indexOf("encoders-build-container"));
    const outputs = stackOutputs as unknown as StackOutputs;
    expect(outputs.models[0]?.engineKey).toMatch(/^[0-9a-f]{64}$/);
    expect(Object.keys(outputs.cost).sort()).toEqual([
      "buildUsd",
      "hourlyUsd",
      "monthlyUsd",
      "pricesAsOf",
      "withoutPrice",
    ]);
  });

  test("a failed build ends `up` with its last log lines, masks secrets in them, and creates no server", async () => {
    const file = { ...ONE_GPU, hub: { token: "hf_hush" } };
    const build = host.made.find(({ name }) => name === "gpt2-medium-build-container");
    const name = String(build?.inputs.name);
    const failing = new Host({
      [name]: { exitCode: 1, containerLogs: "GET ?token=hf_hush\nno space left\n" },
    });
    const error: Error = await up(file, failing).then(
      () => expect.unreachable(),
      (thrown: Error) => thrown,
    );
    expect(error.message).toContain(`The container ${name} ended with exit code 1.`);
    expect(error.message).toContain("  GET ?token=[secret]\n  no space left\n");
    expect(ofContainers(failing.made).map((one) => one.name)).not.toContain("gpt2-medium-container");
  });
});

const file = {
  ...CPU_STACK,
  databases: "external",
  externalDatabases: {
    mongo: { uri: "mongodb://u:hush-uri@db.example.org" },
    vector: { url: "https://v.example.org", apiKey: "hush-key" },
  },
};

test("secrets are only in uploads of the containers that need them, marked as secrets", async () => {
  const { made } = await up(file);
  const holders = made.filter(({ inputs }) => JSON.stringify(inputs).includes("hush"));
  expect(
    holders.map(({ name, inputs }) => [
      name,
      Object.keys(inputs).filter((key) => JSON.stringify(inputs[key]).includes("hush")),
    ]),
  ).toEqual([["gateway-container", ["uploads"]]]);
  // The SDK's mark of a secret: the engine encrypts what has it.
  expect(holders[0]?.inputs.uploads).toMatchObject({
    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
  });
  expect(renderJson(await rendered(file))).not.toContain("hush");
});
