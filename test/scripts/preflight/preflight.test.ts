import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { LocalPlan } from "../../../infra/plan/cpu-stack.ts";
import { dockerPreflight } from "../../../scripts/preflight/docker.ts";
import { type Finding, findingsReport, problem, warning } from "../../../scripts/preflight/finding.ts";
import { hostProbe } from "../../../scripts/preflight/host-probe.ts";
import { type LocalReading, localFindings } from "../../../scripts/preflight/local.ts";
import { type MachineReading, readMachine } from "../../../scripts/preflight/machine-facts.ts";

import { pulumiCheck } from "../../../scripts/preflight/programs.ts";
import { dockerTarget } from "../../../scripts/program/targets.ts";
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

test.each([
  ["one GPU", {}, gpu],
  ["four GPUs", { gpus: [0, 1, 2, 3].map((index) => A10G.replace("0,", `${index},`)) }, twoGpus],
  [
    "an H200, as its nvidia-smi prints it",
    { gpus: ["0, NVIDIA H200, 143771, 0, 580.159.04, Disabled"] },
    { ...gpu, host: { machine: { gpu: "H200", vcpus: 16, memoryGiB: 128 }, diskGiB: 250 } },
  ],
  ["no GPU", { gpus: null, info: { Runtimes: { runc: {} } } }, cpu],
  ["Docker Desktop on macOS", { system: "Darwin arm64", info: { Architecture: "aarch64" }, gpus: null }, cpu],
  [
    "a rootless engine, without servers that lock memory",
    { info: { SecurityOptions: ["name=rootless"] } },
    cpu,
  ],
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
] as const)("preflight finds nothing wrong with a host with %s", async (_, host, values) => {
  expect(await findings(host, values)).toEqual([]);
});

/** A wrong host, its finding (severity, check and required words), and another stack if needed. */
const wrong: Readonly<
  Record<
    string,
    readonly [FakeHost, readonly [Finding["severity"], string, RegExp], Record<string, unknown>?]
  >
> = {
  "a missing Docker CLI": [
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
  "an unreachable engine although the CLI exits with 0": [
    {
      info: {
        ServerVersion: "",
        ServerErrors: ["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."],
      },
    },
    ["problem", "docker", /No Docker engine answers.*Cannot connect/],
  ],
  "an unreachable engine behind ssh": [
    { dockerFails: { stderr: "Cannot connect to the Docker daemon at http://docker.example.com." } },
    ["problem", "docker", /other side of ssh.*daemon at ssh:\/\/me@gpu\.example\.org/],
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
  "a failing shell": [
    { shellFails: "ssh: connect to host gpu port 22: timed out" },
    ["problem", "shell", /timed out/],
  ],
  "another processor": [
    { info: { Architecture: "riscv64" } },
    ["problem", "architecture", /engine is linux on riscv64/],
  ],
  "containers of Windows": [
    { info: { OSType: "windows" } },
    ["problem", "architecture", /windows on x86_64/],
  ],
  "a rootless engine": [
    { info: { SecurityOptions: ["name=seccomp,profile=builtin", "name=rootless"] } },
    ["problem", "rootless", /rootless\. The servers lock memory/],
  ],
  "a disk that can't be measured": [
    { unmeasured: "/var/lib/docker" },
    ["warning", "disk", /free space of \/var\/lib\/docker can't be measured\..*GB of image trtllm/],
  ],
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
    ["problem", "gpus", /host \(GPU 0\) is NVIDIA L4\. The stack is planned for A10G/],
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
    ["problem", "gpus", /has 1 GPU\. The stack needs 4 × A10G; containers are given the numbers 0, 1, 3/],
    twoGpus,
  ],
  "a driver that is too old for the release": [
    { gpus: [A10G.replace("575.57.08", "460.106.00")] },
    ["problem", "driver", /is 460\.106\.00\. Release 25\.07 has CUDA 12\.9.*needs 575\.51\.03/],
  ],
  "a driver of a branch without compatibility package": [
    { gpus: [A10G.replace("575.57.08", "545.23.08")] },
    ["problem", "driver", /545\.23\.08/],
  ],
  "an older driver on a data-centre GPU": [
    { gpus: [A10G.replace("575.57.08", "535.183.01")] },
    ["warning", "driver", /compatibility package/],
  ],
  "an older driver on a consumer GPU": [
    { gpus: ["0, NVIDIA GeForce RTX 4090, 24564, 0, 535.183.01, [N/A]"] },
    ["problem", "driver", /does not cover NVIDIA GeForce RTX 4090/],
    { ...gpu, host: { machine: { gpu: "RTX 4090", vcpus: 16, memoryGiB: 128 }, diskGiB: 250 } },
  ],
  "a GPU that others use": [
    { gpus: [A10G.replace(" 0, 575", " 9000, 575")] },
    ["warning", "busyGpus", /9000 of its 23028 MiB/],
  ],
  "a port in use by a process": [
    { listening: [8001] },
    ["problem", "ports", /Port 8001 is taken by a process of the host\. The container room-llava asks/],
  ],
  "a port in use by another stack's container": [
    { listening: [8080], containers: [["other-gateway", "other", [8080]]] },
    ["problem", "ports", /the container other-gateway.*room-gateway/],
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
};

test.each(Object.keys(wrong))("preflight reports only %s", async (name) => {
  const [host, [severity, check, words], values] = wrong[name] ?? expect.fail();
  const all = await findings(host, values);
  expect(sentences(all)).toHaveLength(1);
  expect(sentences(all)[0]).toMatch(words);
  expect(all[0]).toMatchObject({ severity, check, fix: expect.stringMatching(/\w.+/) });
});

describe("a stack that is up", () => {
  const up: FakeHost = {
    listening: [8000, 8001, 8002, 8080],
    containers: [
      ["room-llava", "room", [8000, 8001, 8002]],
      ["room-gateway", "room", [8080]],
    ],
    gpus: [A10G.replace(" 0, 575", " 20000, 575")],
    memoryAvailableKiB: 2 ** 20,
  };

  test("preflight accepts a running stack's own ports, GPU and memory", async () => {
    expect(await findings(up)).toEqual([]);
  });

  test("preflight of a running stack needs disk space only for new images", async () => {
    const { images } = dockerTarget(
      checkedPlan(gpu).plan as Parameters<typeof dockerTarget>[0],
      "room",
    ).stack;
    const onHost = images.map((image) => {
      const [, repository = "", tag = ""] = /^(.*):([^:]+)$/.exec(image.reference) ?? [];
      return [repository, tag, "<none>"] as const;
    });
    const full = { ...up, freeGB: { "/": 6 } };
    expect(await findings({ ...full, images: onHost })).toEqual([]);
    expect(sentences(await findings(full))[0]).toMatch(
      /needed: 0\.3 image services, 18\.3 image trtllm, 5 in reserve/,
    );
  });
});

test("a machine without the Pulumi CLI is a problem", () => {
  expect(pulumiCheck("AWS", "/usr/bin/pulumi").findings).toEqual([]);
  expect(sentences(pulumiCheck("a Docker host", null).findings)).toEqual([
    expect.stringMatching(/^problem pulumi: .*no Pulumi CLI/),
  ]);
});

describe("a machine for a local stack", () => {
  const plan = checkedPlan({
    platform: "local",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", ports: { grpc: 9001 } }],
    gateway: { port: 8080 },
  }).plan as LocalPlan;

  async function findings(host: FakeHost, changes: Partial<LocalReading> = {}) {
    const machine = await readMachine(fakeProbe(host), ["/cache", "/project/.stacks/a", "/project/.data/a"]);
    if ("unreachable" in machine) throw new Error(machine.unreachable);
    return localFindings(plan, {
      machine,
      node: "20.19.0",
      pythonProblem: null,
      isUp: false,
      holders: new Map((host.listening ?? []).map((port) => [port, "python3 (pid 4711)"])),
      folders: {
        cache: { path: "/cache", isFilled: false },
        stack: { path: "/project/.stacks/a", isFilled: false },
        data: { path: "/project/.data/a", isFilled: false },
      },
      project: "/project with a space (1)",
      ...changes,
    });
  }

  const wrong: Readonly<Record<string, readonly [FakeHost, Partial<LocalReading>, string, RegExp]>> = {
    "another system": [{ system: "Darwin arm64" }, {}, "architecture", /Darwin on arm64/],
    "an old C library": [{ glibc: "glibc 2.31" }, {}, "glibc", /glibc 2\.31\. .*2\.35/],
    "no glibc": [{ glibc: "" }, {}, "glibc", /no glibc/],
    "an old Node": [{}, { node: "20.18.3" }, "node", /Node 20\.18\.3.*20\.19\.0/],
    "a Node that is too new": [{}, { node: "25.0.0" }, "node", /below 25/],
    "no Python": [
      {},
      { pythonProblem: "The stack needs CPython: apt-get install python3" },
      "python",
      /apt-get/,
    ],
    "little memory": [{ memoryAvailableKiB: 2 ** 20 }, {}, "memory", /1024 MiB.*3072 MiB/],
    "a full disk of the project": [
      { freeGB: { "/project": 1.2 } },
      {},
      "disk",
      /^\/project has 1\.2 GB free\. 1\.4 GB are needed: 0\.8 the stack, 0\.1 documents, 0\.5 in reserve\./,
    ],
    "a full disk of the cache": [
      { freeGB: { "/cache": 1 } },
      {},
      "disk",
      /^\/cache has 1\.0 GB free\. 1\.7 GB are needed: 1\.2 downloads, .* set ENGINE_ROOM_CACHE_DIR/,
    ],
    "a cache without inodes": [
      { freeFiles: { "/cache": 12 } },
      {},
      "inodes",
      /^\/cache has 12 inodes free, .* About 8000 are needed for downloads\. Delete 7988 files/,
    ],
    "a cache that can't be measured": [
      { unmeasured: "/cache" },
      {},
      "disk",
      /^The free space of \/cache can't be measured\. .*1\.2 GB of downloads/,
    ],
    "a cache that can't be written": [
      { readOnly: "/cache" },
      {},
      "writable",
      /^\/cache can't be written.* Make \/cache writable for this user, or set ENGINE_ROOM_CACHE_DIR to a folder on a writable disk\./,
    ],
    "a path with a colon": [{}, { project: "/a:b" }, "path", /The project is in \/a:b\./],
    "a port in use": [
      { listening: [9001] },
      {},
      "ports",
      /Port 9001 is taken by python3 \(pid 4711\)\. models\[0\]\.ports\.grpc of/,
    ],
  };

  test("preflight finds nothing wrong with a complete machine", async () => {
    expect(await findings({})).toEqual([]);
  });

  test.each(Object.keys(wrong))("preflight reports only %s", async (name) => {
    const [host, changes, check, words] = wrong[name] ?? expect.fail();
    const all = await findings(host, changes);
    expect(all.map((one) => one.check)).toEqual([check]);
    expect(`${all[0]?.what} ${all[0]?.why} ${all[0]?.fix}`).toMatch(words);
  });

  test("preflight accepts a running local stack's own ports, memory and disk, and reports a port of another program", async () => {
    const host = { listening: [8080, 9001], memoryAvailableKiB: 1024, freeGB: { "/": 0 } };
    expect(await findings(host, { isUp: true, holders: new Map() })).toEqual([]);
    const [taken, ...rest] = await findings(host, {
      isUp: true,
      holders: new Map([[8080, "nginx (pid 1)"]]),
    });
    expect(rest).toEqual([]);
    expect(taken?.what).toBe("Port 8080 is taken by nginx (pid 1).");
    expect((await findings(host)).length).toBeGreaterThan(2);
  });

  test.each([
    [
      "GNU",
      'case $1 in -Pk) echo "H"; echo "/dev/sd a 100 40 60 40% /mnt/a b" ;; -Pi) echo "Filesystem Inodes IUsed IFree IUse% Mounted on"; echo "/dev/sd a 50 20 30 40% /mnt/a b" ;; esac',
      { freeBytes: 60 * 1024, freeFiles: 30, mount: "/mnt/a b" },
    ],
    [
      "GNU without a number of inodes",
      'case $1 in -Pk) echo "H"; echo "btrfs 100 40 60 40% /b" ;; -Pi) echo "Filesystem Inodes IUsed IFree IUse% Mounted on"; echo "btrfs 0 0 0 - /b" ;; esac',
      { freeBytes: 60 * 1024, freeFiles: null, mount: "/b" },
    ],
    [
      "macOS",
      'case $1 in -Pk) echo "H"; echo "/dev/disk3s1 100 40 60 40% /" ;; -Pi) echo "Filesystem 512-blocks Used Available Capacity Mounted on"; echo "/dev/disk3s1 200 80 120 40% /" ;; -i) echo "Filesystem 512-blocks Used Available Capacity iused ifree %iused Mounted on"; echo "/dev/disk3s1 200 80 120 40% 70 700 9% /" ;; esac',
      { freeBytes: 60 * 1024, freeFiles: 700, mount: "/" },
    ],
    ["none", "return 1", undefined],
  ])("free space is read as df of %s prints it", async (_, df, expected) => {
    const { shell, ...probe } = hostProbe(null);
    const faked = { ...probe, shell: (script: string) => shell(`df() { ${df}; }\n${script}`) };
    const machine = (await readMachine(faked, ["/"])) as MachineReading;
    if (expected === undefined) expect(machine.space.has("/")).toBe(false);
    else expect(machine.space.get("/")).toMatchObject(expected);
  });

  test("the script reads this machine, and a missing folder as its nearest parent", async () => {
    const machine = (await readMachine(hostProbe(null), ["/", "/none/it's $(here)"])) as MachineReading;
    expect(machine.system).toBe("Linux");
    expect(machine.architecture).toMatch(/^(x86_64|aarch64)$/);
    expect(machine.glibc).toMatch(/^2\.\d+$/);
    expect(machine.availableMiB).toBeGreaterThan(100);
    expect(machine.space.get("/")?.freeBytes).toBeGreaterThan(0);
    expect(machine.space.get("/none/it's $(here)")).toMatchObject({
      folder: "/",
      mount: machine.space.get("/")?.mount,
      isWritable: machine.space.get("/")?.isWritable,
    });
  });
});

describe("reports of findings", () => {
  const WIDTH = 40;

  const ARN = "arn:aws:iam::111122223333:role/a-role-with-a-long-name";

  const findings = [
    warning(
      "quotas",
      "The quota lacks 2 vCPUs.",
      "It has 10, and the stack takes 12 of them.",
      "Ask for more.",
    ),
    problem(
      "credentials",
      "Who you are is not known.",
      `You may be ${ARN}, or another one.`,
      "Log in again.",
    ),
  ];

  test("findings are wrapped at spaces below their number", () => {
    expect(findingsReport("The account", findings, WIDTH).split("\n")).toEqual([
      "The account: 1 problem, 1 warning.",
      "Nothing was changed.",
      "  1. Who you are is not known.",
      "     You may be",
      `     ${ARN},`,
      "     or another one.",
      "     Fix: Log in again.",
      "  2. Warning: The quota lacks 2 vCPUs.",
      "     It has 10, and the stack takes 12",
      "     of them.",
      "     Fix: Ask for more.",
      "",
    ]);
  });

  test("the finding of a missing Pulumi CLI names its purpose", () => {
    const words = pulumiCheck("AWS", null).findings.map(({ why }) => why);
    expect(words).toEqual([expect.stringMatching(/^`npx engine-room up` deploys to AWS with it;/)]);
    expect(words.join()).not.toMatch(/Docker|cluster/);
  });
});
