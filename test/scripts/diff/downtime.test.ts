import { expect, test } from "vitest";
import { unavailableModels } from "../../../scripts/diff/downtime.ts";
import { textReport } from "../../../scripts/diff/print.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { diffOfFiles } from "./fixtures.ts";

const gpt = { name: "gpt", model: "gpt2-medium" };
const cpu = { name: "cpu", machine: { vcpus: 16, memoryGiB: 64 } };

const cluster = {
  platform: "kubernetes",
  namespace: "models",
  images: { registry: "registry.example.org/engine-room" },
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  engines: { whenFull: "stopServer" },
  databases: "container",
  pools: [{ name: "gpu", instanceType: "g5.xlarge", nodes: { min: 1, max: 1 } }, cpu],
  models: [gpt],
};

const onAws = {
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  access: { apiCidrs: ["203.0.113.7/32"] },
  namespace: "models",
  databases: "container",
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 2 } },
    { name: "cpu", instanceType: "m7i.2xlarge" },
  ],
  models: [gpt],
};

const onEc2 = {
  platform: "aws",
  compute: "ec2",
  account: "111122223333",
  region: "us-east-1",
  pools: [{ name: "gpu", instanceType: "g5.xlarge", diskGiB: 150 }],
  engines: { whenFull: "stopServer" },
  models: [gpt],
};

const onHost = {
  platform: "docker",
  host: { instanceType: "g5.xlarge", diskGiB: 150 },
  models: [{ ...gpt, gpuIndices: [0] }],
};

/** Entries of the section on downtime, in one line each. */
async function downtime(before: object, after: object) {
  const diff = await diffOfFiles(stackFileText({ ...before }), stackFileText({ ...after }));
  expect([diff.base.problems, diff.head.problems]).toEqual([[], []]);
  const section = /\nDowntime.*?\n(.*?)\n\n/s.exec(textReport(diff))?.[1] ?? "";
  const entries = section.replaceAll(/\n {4}/g, " ").split("\n");
  return {
    unavailable: unavailableModels(diff),
    entries: entries.map((entry) => entry.trim()).filter((entry) => entry !== ""),
  };
}

const smaller = (model: object) => ({ ...model, limits: { maxBatchSize: 2 } });

test("the time without a model is shown for a build that takes the GPU of its only server", async () => {
  expect(await downtime(cluster, { ...cluster, models: [smaller(gpt)] })).toEqual({
    unavailable: 1,
    entries: [
      expect.stringMatching(
        /^- gpt: unavailable for \d+ (s|min); its GPU builds an engine \(\d+ (s|min), whenFull: stopServer\), then it starts \(\d+ s\)$/,
      ),
    ],
  });
});

test("a report with thousands of servers and engines has the usual words", async () => {
  const diff = await diffOfFiles(
    stackFileText(cluster),
    stackFileText({ ...cluster, models: [smaller(gpt)] }),
  );
  const [server, build] = [diff.plan?.servers[0], diff.plan?.newBuilds[0]];
  if (diff.plan === null || server === undefined || build === undefined)
    throw new Error("The change has no plan of a server and its build.");
  const names = Array.from({ length: 4000 }, (_, index) => `model-${index}`);
  const plan = {
    ...diff.plan,
    engines: {
      ...diff.plan.engines,
      added: names.map((model) => ({ model, engine: `${model}/1`, elsewhere: false })),
    },
    newBuilds: names.map((model) => ({ ...build, engine: `${model}/1` })),
    servers: names.map((model) => ({ ...server, model })),
  };
  expect(unavailableModels({ ...diff, plan })).toBe(4000);
});

test("a server stays while its successor starts if there is room, and ends first otherwise", async () => {
  const wide = {
    ...cluster,
    engines: undefined,
    pools: [{ ...cluster.pools[0], nodes: { min: 1, max: 2 } }, cpu],
  };
  expect(await downtime(wide, { ...wide, models: [smaller(gpt)] })).toEqual({
    unavailable: 0,
    entries: [
      expect.stringMatching(
        /^- gpt: no downtime; a new server starts first \(surge; ready after \d+ s: engine copy and load\)$/,
      ),
    ],
  });
  const inPlace = (model: object) => ({ ...wide, models: [{ ...model, rollout: "inPlace" }] });
  expect(await downtime(inPlace(gpt), inPlace(smaller(gpt)))).toEqual({
    unavailable: 1,
    entries: [
      expect.stringMatching(
        /^- gpt: unavailable for \d+ s \(engine copy and load\); the old server ends first, after up to 6 min for the last answers$/,
      ),
    ],
  });
});

test("several servers are replaced in place one at a time", async () => {
  const several = (model: object) => ({
    ...cluster,
    engines: undefined,
    pools: [{ ...cluster.pools[0], nodes: { min: 1, max: 3 } }, cpu],
    models: [{ ...model, replicas: 2, rollout: "inPlace" }],
  });
  expect(await downtime(several(gpt), several(smaller(gpt)))).toEqual({
    unavailable: 0,
    entries: [
      expect.stringMatching(/^- gpt: no downtime; one of 2 servers at a time is unavailable for \d+ s/),
    ],
  });
});

test("another image has to be pulled before a server starts", async () => {
  const { entries } = await downtime({ ...cluster, release: "25.06" }, cluster);
  expect(entries.join("\n")).toMatch(
    /gpt: unavailable for \d+ min \(image, engine copy and load\); the old server ends first/,
  );
});

test("models of replaced machines are unavailable, unless a new server waits for other GPUs", async () => {
  const typed = (instanceType: string) => ({
    ...onAws,
    pools: [{ ...onAws.pools[0], instanceType }, onAws.pools[1]],
  });
  expect(await downtime(onAws, typed("g5.2xlarge"))).toEqual({
    unavailable: 1,
    entries: [
      expect.stringMatching(
        /^- gpt: unavailable for up to \d+ min; the machines of pool gpu are replaced \(machine, image, engine copy and load\)$/,
      ),
    ],
  });
  expect(await downtime(onAws, typed("g6.xlarge"))).toEqual({
    unavailable: 0,
    entries: [
      expect.stringMatching(
        /^- gpt: no downtime; the machines of pool gpu are replaced, and a new server starts there first \(\d+ min\)$/,
      ),
    ],
  });
});

test("a removed model is no longer served, and a new model has no downtime", async () => {
  const two = {
    ...cluster,
    pools: [{ ...cluster.pools[0], nodes: { min: 1, max: 2 } }, cpu],
    models: [gpt, { ...gpt, name: "other" }],
  };
  const one = { ...two, models: [gpt] };
  expect((await downtime(two, one)).entries).toEqual(["- other: no longer served"]);
  expect((await downtime(one, two)).unavailable).toBe(0);
});

test("a container of a Docker host ends before the next one starts", async () => {
  const { entries, unavailable } = await downtime(onHost, { ...onHost, models: onHost.models.map(smaller) });
  expect(unavailable).toBe(1);
  expect(entries.join("\n")).toMatch(/- gpt: unavailable for \d+ (s|min)/);
});

test("a container of a machine on EC2 ends before Compose starts the next, and its model has the downtime", async () => {
  const queued = { ...onEc2, models: [{ ...gpt, triton: { maxQueueSize: 8 } }] };
  expect(await downtime(onEc2, queued)).toEqual({
    unavailable: 1,
    entries: [
      expect.stringMatching(
        /^- gpt: unavailable for \d+ s \(engine copy and load\); the old server ends first, after up to .+ for the last answers$/,
      ),
    ],
  });
});

test("the gateway on EC2 has downtime if its configuration or a secret that it reads changes", async () => {
  const external = (uri: string) => ({
    ...onEc2,
    databases: "external",
    externalDatabases: {
      mongo: { uri: { secure: uri } },
      vector: { url: "https://vector.example.com" },
    },
  });
  const unavailable = [
    expect.stringMatching(/^- gateway: unavailable; its old container ends before the new container starts$/),
  ];
  expect((await downtime(external("a"), external("b"))).entries).toEqual(unavailable);
  const limited = { ...onEc2, gateway: { limits: { queuedRequests: 7 } } };
  expect((await downtime(onEc2, limited)).entries).toEqual(unavailable);
});
