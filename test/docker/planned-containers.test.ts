/**
 * The command lines of builds and servers as each platform starts them: with its user, its root, its volumes and its
 * environment, in the images of the Dockerfiles. Triton is a stand-in, which calls the library of the real Open MPI.
 */

import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { SPEC_FILES } from "../../infra/plan/container-specs.ts";
import type { DockerContainer } from "../../infra/plan/docker/container-args.ts";
import { dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { ImageName } from "../../infra/plan/docker/images.ts";
import type { ClusterGpuPlan, DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import { neededImages } from "../../infra/plan/images.ts";
import { kubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { PodPlan } from "../../infra/plan/kubernetes/pods.ts";
import { archiveOf } from "../harness/docker/archive.ts";
import { createBody } from "../harness/docker/create-body.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import { builtImage } from "../harness/docker/images.ts";
import { podBody } from "../harness/docker/pod-body.ts";
import { eventually } from "../harness/stack.ts";
import { stackFileValues } from "../infra/plan/kubernetes/stacks.ts";
import { type EncodersSpec, fillEncoders } from "./gpu-tier-stack.ts";

type Values = Readonly<Record<string, unknown>>;
const PLATFORMS = ["docker", "ec2", "kubernetes", "eks"] as const;
type PlatformName = (typeof PLATFORMS)[number];

const BUILD_SECONDS = 300;
const START_SECONDS = 120;
const STOP_SECONDS = 60;

const STACK = "demo";
const IMAGES = ["trtllm", "encoders"] as const;

/** A folder of the store: no hub answers here. */
const weights = (name: string) => ({ from: "folder", path: `/store/own/${name}`, revision: "of-the-test" });

function values(platform: PlatformName): Values {
  const isCluster = platform === "kubernetes" || platform === "eks";
  const gpu = { name: "gpu", instanceType: "g5.12xlarge" };
  const aws = { platform: "aws", account: "111122223333", region: "us-east-1" };
  const onprem = stackFileValues("Pulumi.onprem.yaml");
  const [own, ...others] = onprem.pools as readonly { readonly machine: object }[];
  const places: Readonly<Record<PlatformName, Values>> = {
    docker: { platform: "docker", host: { instanceType: gpu.instanceType } },
    ec2: { ...aws, compute: "ec2", pools: [gpu] },
    kubernetes: { ...onprem, pools: [{ ...own, machine: { ...own?.machine, gpus: 4 } }, ...others] },
    eks: {
      ...aws,
      access: { apiCidrs: ["203.0.113.7/32"] },
      pools: [gpu, { name: "cpu", instanceType: "m7i.2xlarge" }],
    },
  };
  return {
    ...places[platform],
    encoders: { device: "cpu" },
    engines: { whenFull: "stopServer" },
    models: [
      { name: "llava", model: "llava-1.5-7b", flavour: "llava", weights: weights("llava") },
      {
        ...{ name: "gpt", model: "gpt2-medium", tensorParallel: 2, weights: weights("gpt") },
        ...(isCluster ? { copyEngine: true } : {}),
      },
      { name: "chat", model: "llama-2-7b-chat", runtime: "llmapi", weights: weights("chat") },
    ],
  };
}

/** A container that a platform would start. */
interface Planned {
  readonly role: "engineBuild" | "encoderBuild" | "triton" | "encoders";
  readonly model: string | null;
  readonly files: Readonly<Record<string, string>>;
  readonly gpus: number;
  /** @param store - Folder of the host that replaces the engine store. */
  readonly body: (store: string, image: string) => object;
}

function planned(config: Values): readonly Planned[] {
  const { plan } = checkedPlan(config);
  if (!("tier" in plan) || plan.tier !== "gpu") throw new Error("The stack has no GPU.");
  return "host" in plan ? hostContainers(plan) : clusterPods(plan);
}

function hostContainers(plan: DockerGpuPlan): readonly Planned[] {
  const images = neededImages(plan).map((name) => ({ kind: "locked" as const, name, reference: name }));
  return dockerStack(plan, { stack: STACK, images }).containers.flatMap((container): readonly Planned[] => {
    const { role, model, files, gpus } = container.container;
    if (!isTested(role)) return [];
    return [{ role, model, files, gpus, body: (store, image) => hostBody(container, store, image) }];
  });
}

/** Request to create a container with its store in another folder of the host, without network and GPU. */
function hostBody(container: DockerContainer, store: string, image: string): object {
  const { args } = container;
  const mounts = args.mounts.flatMap((mount) => {
    if (mount.target === "/scratch") return [{ ...mount, source: "" }];
    // Weights of a folder are copied to the store by this test.
    return mount.target === "/store" ? [{ ...mount, type: "bind", source: store }] : [];
  });
  // A service that ends is not started again.
  const alone = { ...container, gpus: null, args: { ...args, mounts, ports: [], restart: "no" } };
  return { ...createBody(alone, image, "none"), NetworkingConfig: {} };
}

function clusterPods(plan: ClusterGpuPlan): readonly Planned[] {
  const images = neededImages(plan).map((name) => ({ name, reference: name }));
  const { builds, models, encoders } = kubernetesStack(plan, { stack: STACK, images });
  const pods = [...builds, ...models, ...(encoders === null ? [] : [encoders])].map(({ pod }) => pod);
  return pods.flatMap((pod): readonly Planned[] => {
    const { role, model, resources } = pod;
    if (!isTested(role)) return [];
    const files = Object.fromEntries(
      Object.entries(pod.config?.data ?? {}).map(([name, text]) => [`/etc/engine-room/${name}`, text]),
    );
    return [
      {
        role,
        model,
        files,
        gpus: resources.gpus?.count ?? 0,
        body: (store, image) => bodyOf(pod, store, image),
      },
    ];
  });
}

function bodyOf(pod: PodPlan, store: string, image: string): object {
  const configMaps = mkdtempSync(`${store}.configs-`);
  chmodSync(configMaps, 0o755);
  const folder = join(configMaps, pod.config?.metadata.name ?? "");
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(pod.config?.data ?? {})) writeFileSync(join(folder, name), text);
  return podBody(pod.template, image, { claim: store, configMaps });
}

function isTested(role: string): role is Planned["role"] {
  return ["engineBuild", "encoderBuild", "triton", "encoders"].includes(role);
}

describeWithEngine("planned containers", ({ socketPath, api }) => {
  const directory = mkdtempSync(join(tmpdir(), "engine-room-planned-"));
  const tags = new Map<ImageName, string>();
  let count = 0;

  beforeAll(async () => {
    chmodSync(directory, 0o755);
    for (const image of IMAGES) tags.set(image, await builtImage(socketPath, image));
  });

  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  /** Creates a container and starts it. @returns Its name. */
  async function start(
    { role, gpus, files, body }: Planned,
    store: string,
    environment: readonly string[] = [],
  ): Promise<string> {
    const image = tags.get(role === "encoders" || role === "encoderBuild" ? "encoders" : "trtllm") ?? "";
    const { gpu } = JSON.parse(Object.values(files)[0] ?? "{}") as {
      gpu?: { name: string; computeCapability: string };
    };
    const seen =
      gpu == null ? [] : [`STAND_IN_GPU=NVIDIA ${gpu.name}`, `STAND_IN_CAPABILITY=${gpu.computeCapability}`];
    const made = body(store, image) as {
      readonly Env: readonly string[];
      readonly HostConfig: { readonly ReadonlyRootfs: boolean };
    };
    const name = `test-planned-${process.pid}-${++count}`;
    await api.createContainer(name, {
      ...made,
      Env: [...made.Env, ...seen, `STAND_IN_GPUS=${gpus}`, ...environment],
    });
    // A pod's root is read-only: its ConfigMap is mounted.
    if (!made.HostConfig.ReadonlyRootfs) await api.putArchive(name, await archiveOf(files));
    await api.startContainer(name);
    return name;
  }

  /** @returns The log so far. @throws Error with the log of a container that ends before, or does not print it in time. */
  async function untilSaid(name: string, line: string): Promise<string> {
    const log = () => api.logs(name, 500);
    const outcome = await eventually(async () => {
      if ((await log()).includes(line)) return "said";
      return (await api.inspectContainer(name)).State.Status === "exited" ? "ended" : undefined;
    }, START_SECONDS).catch(() => "too late");
    if (outcome === "said") return log();
    throw new Error(`${name} did not say "${line.trim()}" (${outcome}): ${await log()}`);
  }

  async function endsInOrder(name: string): Promise<void> {
    await api.stopContainer(name, STOP_SECONDS);
    expect((await api.inspectContainer(name)).State.ExitCode).toBe(0);
    await api.removeContainer(name);
  }

  // Concurrent, because all wait: for the hub, and for the ranks of a server that stops.
  test.concurrent("builds of encoders of all platforms fail only at the unreachable hub", async () => {
    // Each tries the hub for half a minute.
    const names = await Promise.all(
      PLATFORMS.map(async (platform) => {
        const store = join(directory, `${platform}-empty`);
        mkdirSync(store);
        chownSync(store, 1000, 1000);
        const build = planned(values(platform)).find(({ role }) => role === "encoderBuild");
        if (build === undefined) throw new Error(`${platform} builds no encoders.`);
        return start(build, store);
      }),
    );
    await Promise.all(
      names.map(async (name) => {
        await untilSaid(name, "huggingface.co");
        await api.removeContainer(name);
      }),
    );
  });

  describe.concurrent.each(PLATFORMS)("%s", (platform) => {
    const containers = planned(values(platform));
    const store = join(directory, platform);
    const of = (role: Planned["role"], model: string | null = null) => {
      const found = containers.find((one) => one.role === role && one.model === model);
      if (found === undefined) throw new Error(`${platform} has no ${role} of ${model}.`);
      return found;
    };

    beforeAll(() => {
      for (const name of ["llava", "gpt", "chat"]) {
        const folder = join(store, "own", name);
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, "config.json"), "{}");
        writeFileSync(join(folder, "model.safetensors"), "weights");
      }
      fillEncoders(store, JSON.parse(of("encoders").files[SPEC_FILES.server] ?? "") as EncodersSpec);
      // As fsGroup and the image's folder have it.
      chownSync(store, 1000, 1000);
    });

    const builds = new Map<string, Promise<void>>();
    /** Builds the engine of a model, once for all tests. */
    function built(model: string): Promise<void> {
      const build = builds.get(model) ?? buildEngine(model);
      builds.set(model, build);
      return build;
    }
    async function buildEngine(model: string): Promise<void> {
      const name = await start(of("engineBuild", model), store);
      const code = await api.waitForExit(name, BUILD_SECONDS);
      const log = await api.logs(name, 200);
      await api.removeContainer(name);
      expect([code, log]).toEqual([0, expect.stringContaining('"event": "complete"')]);
    }

    test.each(["llava", "gpt"])(`a build on ${platform} makes the engine of %s`, (model) => built(model));

    test.each([
      ["llava", 1],
      ["gpt", 2],
    ])(
      `Open MPI on ${platform} starts each of the ranks of %s (%i) unbound, and they stop in order`,
      async (model, ranks) => {
        await built(model);
        const server = of("triton", model);
        const name = await start(server, store);
        const log = await untilSaid(name, "\nmodels: ");
        for (let rank = 0; rank < ranks; rank++)
          expect(log).toMatch(new RegExp(`^rank ${rank} of ${ranks}, on (\\d+) of \\1 CPUs$`, "m"));
        expect(log).not.toMatch(/orte|PMIX ERROR|WARNING/i);
        await endsInOrder(name);
      },
    );

    test(`a server of the PyTorch backend on ${platform} starts without MPI`, async () => {
      const name = await start(of("triton", "chat"), store);
      expect(await untilSaid(name, "\nmodels: ")).not.toContain("rank 0 of");
      await endsInOrder(name);
    });

    test(`the encoders on ${platform} start and stop in order`, async () => {
      const name = await start(of("encoders"), store);
      await untilSaid(name, "\nmodels: ");
      await endsInOrder(name);
    });
  });

  test("Open MPI fails if its folder is on the read-only root of a pod", async () => {
    const server = planned(values("kubernetes")).find(
      ({ role, model }) => role === "triton" && model === "llava",
    );
    if (server === undefined) throw new Error("The stack has no server of llava.");
    const name = await start(server, join(directory, "kubernetes"), ["TMPDIR=/scratch"]);
    expect(await api.waitForExit(name, START_SECONDS)).not.toBe(0);
    expect(await api.logs(name, 500)).toContain("orte_session_dir failed");
    await api.removeContainer(name);
  });
});
