import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { Finding } from "../../../scripts/preflight/finding.ts";
import { dockerPreflight } from "../../../scripts/preflight/preflight.ts";
import { pulumiFindings } from "../../../scripts/preflight/pulumi-check.ts";
import { dockerTarget } from "../../../scripts/program/docker-target.ts";
import { A10G, type FakeHost, fakeProbe } from "./hosts.ts";

const gpu = {
  platform: "docker",
  host: { instanceType: "g5.4xlarge", diskGiB: 250 },
  encoders: false,
  models: [{ name: "llava", model: "llava-1.5-7b" }],
};
const twoGpus = {
  ...gpu,
  host: { instanceType: "g5.12xlarge", diskGiB: 250 },
  models: [
    { name: "a", model: "gpt2-medium", gpuIndices: [0] },
    { name: "b", model: "gpt2-medium", gpuIndices: [3] },
  ],
};
const cpu = {
  platform: "docker",
  tier: "cpu",
  databases: "container",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
};

function findings(
  host: FakeHost,
  values: Readonly<Record<string, unknown>> = gpu,
): Promise<readonly Finding[]> {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "docker") throw new Error("not a Docker stack");
  return dockerPreflight(dockerTarget(plan, "room"), fakeProbe(host));
}

const sentences = (all: readonly Finding[]) =>
  all.map(({ severity, check, what, why }) => `${severity} ${check}: ${what} ${why}`);

describe("a host with all that a stack needs", () => {
  test.each([
    ["one GPU", {}, gpu],
    ["four GPUs", { gpus: [0, 1, 2, 3].map((index) => A10G.replace("0,", `${index},`)) }, twoGpus],
    [
      "an H200, as its nvidia-smi prints it",
      { gpus: ["0, NVIDIA H200, 143771, 0, 580.159.04, Disabled"] },
      { ...gpu, host: { machine: { gpu: "H200", vcpus: 16, memoryGiB: 128 }, diskGiB: 250 } },
    ],
    ["no GPU", { gpus: null, info: { Runtimes: { runc: {} } } }, cpu],
    ["GPUs by the toolkit's hook alone", { info: { Runtimes: { runc: {} } }, hook: true }, gpu],
    [
      "GPUs by CDI alone",
      {
        info: {
          ServerVersion: "29.0.1",
          Runtimes: { runc: {} },
          DiscoveredDevices: [{ Source: "cdi", ID: "nvidia.com/gpu=0" }],
        },
      },
      gpu,
    ],
  ] as const)("%s", async (_, host, values) => {
    expect(await findings(host, values)).toEqual([]);
  });
});

/** What is wrong with a host, the stack if another, and what is found: severity, check, and words that must be there. */
const wrong: Readonly<
  Record<
    string,
    readonly [FakeHost, readonly [Finding["severity"], string, RegExp], Record<string, unknown>?]
  >
> = {
  "no CLI": [
    { dockerFails: { exitCode: null, stderr: "spawn docker ENOENT" } },
    ["problem", "docker", /no `docker` command/],
  ],
  "no rights on the socket": [
    {
      dockerFails: {
        stderr:
          "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
      },
    },
    ["problem", "docker", /no rights on the Docker engine/],
  ],
  "an engine that is away, from a CLI that ends with 0 all the same": [
    {
      info: {
        ServerVersion: "",
        ServerErrors: ["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."],
      },
    },
    ["problem", "docker", /No Docker engine answers.*Cannot connect/],
  ],
  "an engine that is away behind ssh": [
    { dockerFails: { stderr: "Cannot connect to the Docker daemon at http://docker.example.com." } },
    ["problem", "docker", /other side of ssh.*ssh connects, and nobody answers/],
    { ...gpu, host: { ...gpu.host, uri: "ssh://me@gpu.example.org" } },
  ],
  "ssh that does not know the host": [
    {
      dockerFails: {
        stderr:
          'error during connect: Get "http://docker.example.com/v1.50/version": command [ssh -T -- gpu docker system dial-stdio] has exited with exit status 255, make sure the URL is valid, and Docker 18.09 or later is installed on the remote host: stderr=ssh: Could not resolve hostname gpu: Name or service not known',
      },
    },
    ["problem", "docker", /answers on the other side of ssh:\S+\. ssh: Could not resolve hostname gpu/],
    { ...gpu, host: { ...gpu.host, uri: "ssh://me@gpu.example.org" } },
  ],
  "ssh that is refused": [
    {
      dockerFails: {
        stderr: "error during connect: command [ssh -o …] has exited: me@gpu: Permission denied (publickey).",
      },
    },
    ["problem", "docker", /answers on the other side.*publickey/],
    { ...gpu, host: { ...gpu.host, uri: "ssh://me@gpu.example.org" } },
  ],
  "no shell": [
    { shellFails: "ssh: connect to host gpu port 22: timed out" },
    ["problem", "shell", /timed out/],
  ],
  "another processor": [{ system: "Linux riscv64" }, ["problem", "architecture", /riscv64/]],
  "an old engine": [
    { info: { ServerVersion: "19.03.15" } },
    ["problem", "engineVersion", /is 19\.03\.15\. The stack needs 20\.10/],
  ],
  "no container toolkit": [
    { info: { Runtimes: { runc: {} } } },
    ["problem", "toolkit", /runtimes runc and 0 GPUs by CDI/],
  ],
  "CDI on an engine that does not take it": [
    {
      info: { Runtimes: { runc: {} }, DiscoveredDevices: [{ Source: "cdi", ID: "nvidia.com/gpu=0" }] },
    },
    ["problem", "toolkit", /1 GPUs by CDI/],
  ],
  "no driver": [{ gpus: null }, ["problem", "gpus", /nvidia-smi: not found/]],
  "another GPU": [
    { gpus: ["0, NVIDIA L4, 23034, 0, 575.57.08, [N/A]"] },
    ["problem", "gpus", /GPU 0 is NVIDIA L4\. The stack is planned for A10G/],
  ],
  "less memory than its name says": [
    { gpus: ["0, NVIDIA A10G, 11514, 0, 575.57.08, [N/A]"] },
    ["problem", "gpus", /has 11514 MiB\..*with 22888 MiB/],
  ],
  partitions: [
    { gpus: ["0, NVIDIA A100-SXM4-40GB, 40960, 0, 575.57.08, Enabled"] },
    ["problem", "gpus", /MIG mode/],
    {
      ...gpu,
      host: { machine: { gpu: "A100-SXM4-40GB", vcpus: 12, memoryGiB: 96 }, diskGiB: 250 },
    },
  ],
  "too few GPUs": [
    { gpus: [A10G] },
    ["problem", "gpus", /has 1 GPU\. Containers are given the GPUs .*3.*not there/],
    twoGpus,
  ],
  "a driver that is too old for the release": [
    { gpus: [A10G.replace("575.57.08", "470.42.01")] },
    ["problem", "driver", /is 470\.42\.01\. Release 25\.07 has CUDA 12\.9.*needs 575\.51\.03/],
  ],
  "a driver of a branch without compatibility package": [
    { gpus: [A10G.replace("575.57.08", "545.23.08")] },
    ["problem", "driver", /545\.23\.08/],
  ],
  "an older driver that a data-centre GPU gets along with": [
    { gpus: [A10G.replace("575.57.08", "535.183.01")] },
    ["warning", "driver", /compatibility package/],
  ],
  "the same driver on a consumer's GPU": [
    { gpus: ["0, NVIDIA GeForce RTX 4090, 24564, 0, 535.183.01, [N/A]"] },
    ["problem", "driver", /does not cover NVIDIA GeForce RTX 4090/],
    { ...gpu, host: { machine: { gpu: "RTX 4090", vcpus: 16, memoryGiB: 128 }, diskGiB: 250 } },
  ],
  "a GPU that others use": [
    { gpus: [A10G.replace(" 0, 575", " 9000, 575")] },
    ["warning", "busyGpus", /9000 of its 23028 MiB/],
  ],
  "a port of a process": [
    { listening: [8001] },
    ["problem", "ports", /Port 8001 is in use\..*room-llava.*a process/],
  ],
  "a port of another stack's container": [
    { listening: [8080], containers: [["other-gateway", "other", "127.0.0.1:8080->8080/tcp"]] },
    ["problem", "ports", /room-gateway.*the container other-gateway/],
  ],
  "a full disk": [
    { freeGB: { "/var/lib/docker": 40 } },
    ["problem", "disk", /\/var\/lib\/docker has 40\.0 GB free\..*image trtllm.*weights and engines/],
  ],
  "a full disk of the store alone": [
    { freeGB: { "/data": 10 } },
    [
      "problem",
      "disk",
      /\/data has 10\.0 GB free\. 3\d\.\d GB are needed: \d+\.\d weights and engines, 5 in reserve/,
    ],
    { ...gpu, engineStore: { path: "/data/store" } },
  ],
  "little memory": [
    { memoryAvailableKiB: 8 * 2 ** 20 },
    ["warning", "memory", /8192 MiB of memory are free/],
  ],
  "a rootless engine": [
    { info: { SecurityOptions: ["name=seccomp,profile=builtin", "name=rootless"] } },
    ["problem", "rootless", /memlock/],
  ],
  "few areas to map": [
    { limits: { "vm.max_map_count": 65_530 }, gpus: null },
    ["warning", "limits", /vm\.max_map_count is 65530.*102400/],
    cpu,
  ],
  "few watchers": [
    { limits: { "fs.inotify.max_user_instances": 64 } },
    ["warning", "limits", /max_user_instances is 64.*128/],
  ],
};

describe("what is wrong is found, and nothing else", () => {
  test.each(Object.keys(wrong))("%s", async (name) => {
    const [host, [severity, check, words], values] = wrong[name] ?? expect.fail();
    const all = await findings(host, values);
    expect(sentences(all)).toHaveLength(1);
    expect(sentences(all)[0]).toMatch(words);
    expect(all[0]).toMatchObject({ severity, check, fix: expect.stringMatching(/\w.+/) });
  });
});

describe("a stack that is up", () => {
  const up: FakeHost = {
    listening: [8000, 8001, 8002, 8080],
    containers: [
      ["room-llava", "room", "127.0.0.1:8000-8002->8000-8002/tcp"],
      ["room-gateway", "room", "127.0.0.1:8080->8080/tcp, 9000/tcp"],
    ],
    gpus: [A10G.replace(" 0, 575", " 20000, 575")],
    memoryAvailableKiB: 2 ** 20,
  };

  test("holds its ports, its GPU and its memory with right", async () => {
    expect(await findings(up)).toEqual([]);
  });

  test("has its weights and engines on the disk already, and not the images that are new", async () => {
    const { images } = dockerTarget(
      checkedPlan(gpu).plan as Parameters<typeof dockerTarget>[0],
      "room",
    ).stack;
    const onHost = images.map((image) => {
      const [, repository = "", tag = ""] =
        /^(.*):([^:]+)$/.exec(image.kind === "build" ? image.tag : image.reference) ?? [];
      return [repository, tag, "<none>"] as const;
    });
    const full = { ...up, freeGB: { "/": 6 } };
    expect(await findings({ ...full, images: onHost })).toEqual([]);
    expect(sentences(await findings(full))[0]).toMatch(
      /needed: 0\.3 image services, 18\.3 image trtllm, 5 in reserve/,
    );
  });
});

test("a machine without the Pulumi CLI is a problem before anything is downloaded", () => {
  expect(pulumiFindings("/usr/bin/pulumi", "AWS")).toEqual([]);
  expect(sentences(pulumiFindings(undefined, "a Docker host"))).toEqual([
    expect.stringMatching(/^problem pulumi: .*no Pulumi CLI/),
  ]);
});
