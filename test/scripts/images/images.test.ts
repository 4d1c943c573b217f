import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { imageStates } from "../../../scripts/images/image-states.ts";
import { type ImageTarget, imageTarget } from "../../../scripts/images/image-target.ts";
import { lockImage } from "../../../scripts/images/lock-file.ts";
import { makeImage, requireBuildKit } from "../../../scripts/images/make-images.ts";
import { downloadGB, missingImages } from "../../../scripts/images/missing-images.ts";
import { hostProbe } from "../../../scripts/preflight/host-probe.ts";
import { readPlan } from "../../../scripts/program/docker-target.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-images-"));
afterAll(() => rmSync(folder, { recursive: true }));
const stackFile = join(folder, "stack.yaml");
const lockFile = join(folder, "images.lock.json");
const log = join(folder, "docker.log");

function configure(values: Readonly<Record<string, unknown>>): void {
  writeFileSync(stackFile, stackFileText(values));
}

const cpu = {
  platform: "docker",
  tier: "cpu",
  images: { registry: "registry.example.org/room" },
  databases: "container",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
};

const gpu = {
  platform: "docker",
  models: [{ name: "gpt", model: "gpt2-medium" }],
  host: { instanceType: "g5.4xlarge" },
};

function target(values: Readonly<Record<string, unknown>> = cpu): ImageTarget {
  configure(values);
  const plan = readPlan({ name: "test", configFile: stackFile });
  return imageTarget(plan) ?? expect.fail("no images");
}

const built = (name: string, { images }: ImageTarget): string => {
  const image = images.find((one) => one.name === name);
  return image?.kind === "build" ? image.tag : expect.fail(`${name} is not built`);
};

describe("imageStates", () => {
  const steps = (push: boolean, onHost: readonly string[] = []) =>
    Object.fromEntries(
      imageStates(target(), { push, onHost: new Set(onHost) }).map(({ key, steps: all }) => [key, all]),
    );

  test("a host builds what it lacks, and only a push locks it", () => {
    expect(steps(false)).toEqual({
      services: ["build"],
      "cpu-models": ["build"],
      mongo: ["pull", "lock"],
      qdrant: ["pull", "lock"],
    });
    expect(steps(true).services).toEqual(["build", "push", "lock"]);
  });

  test("what the host has is not built again", () => {
    const services = built("services", target());
    expect(steps(false, [services]).services).toEqual([]);
    expect(steps(true, [services]).services).toEqual(["push", "lock"]);
    expect(steps(false, ["mongo:8.0.26"]).mongo).toEqual(["lock"]);
  });

  test("what is locked is left alone, whoever has it", () => {
    const one = target();
    const contentHash = one.options.contentHashes.services ?? "";
    const lock = { version: 1, images: { services: { contentHash, reference: "r@sha256:1" } } } as const;
    const states = imageStates(
      { ...one, options: { ...one.options, lock } },
      { push: true, onHost: new Set() },
    );
    expect(states.find(({ key }) => key === "services")).toMatchObject({ state: "locked", steps: [] });
  });
});

test("a cluster's images are built by this machine's own engine", () => {
  const registry = "registry.example.org/room";
  const of = target({
    platform: "kubernetes",
    databases: "container",
    images: { registry },
    models: [{ name: "gpt", model: "gpt2-medium" }],
    pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 2 } }],
  });
  expect(of).toMatchObject({ registry, uri: "unix:///var/run/docker.sock" });
  expect(imageStates(of, { push: true, onHost: new Set() }).map(({ key, steps }) => [key, steps])).toEqual([
    ["services", ["build", "push", "lock"]],
    ["trtllm-25.07", ["build", "push", "lock"]],
    ["encoders-25.07", ["build", "push", "lock"]],
    ["mongo", ["pull", "lock"]],
    ["qdrant", ["pull", "lock"]],
  ]);
});

describe("how much is missing", () => {
  test("NVIDIA's image counts once: a host that has it needs this project's layers", () => {
    const triton = { release: "25.07" };
    expect(downloadGB("trtllm", { triton, bases: {} }, new Set())).toBeCloseTo(18.301, 3);
    expect(
      downloadGB(
        "trtllm",
        { triton, bases: {} },
        new Set(["nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3"]),
      ),
    ).toBe(0.001);
    expect(downloadGB("trtllm", { triton: { release: "24.02" }, bases: {} }, new Set())).toBeGreaterThan(15);
  });

  test("an image is there by its tag or its digest", () => {
    const { images } = target();
    const all = new Set([...images.map((image) => (image.kind === "build" ? image.tag : image.reference))]);
    expect(missingImages(images, new Set())).toHaveLength(4);
    const short = new Set([...all].map((name) => name.replace(/^docker\.io\/(library\/)?/, "")));
    expect(missingImages(images, short)).toEqual([]);
  });
});

describe("lockImage", () => {
  const entry = (digit: string) => ({ contentHash: digit.repeat(64), reference: `r@sha256:${digit}` });

  test("keeps the others, sorted, whatever the order", () => {
    for (const key of ["trtllm-25.07", "services", "mongo"]) lockImage(key, entry("1"), lockFile);
    lockImage("services", entry("2"), lockFile);
    const text = readFileSync(lockFile, "utf8");
    const { images } = JSON.parse(text) as { images: Record<string, unknown> };
    expect(Object.keys(images)).toEqual(["mongo", "services", "trtllm-25.07"]);
    expect(images.services).toEqual(entry("2"));
    expect(text.endsWith("}\n")).toBe(true);
    rmSync(lockFile);
  });
});

/** A `docker` that writes down how it was called, and answers as an engine with a few images. */
const FAKE_DOCKER = `#!/bin/sh
printf '%s|%s\\n' "$DOCKER_HOST" "$*" >> "$FAKE_LOG"
case "$1 $2" in
  "info --format") printf '{"ServerVersion":"28.2.2","DockerRootDir":"%s","Runtimes":{"runc":{}}}' "$FAKE_ROOT" ;;
  "image ls") printf '%b' "$FAKE_IMAGES" ;;
  "image inspect") printf 'other/repository@sha256:%064d\\nregistry.example.org/room/services@sha256:%064d\\nmongo@sha256:%064d\\n' 1 2 3 ;;
  "buildx version") [ -z "$FAKE_CLI" ] ;;
  "version --format") echo "$FAKE_CLI" ;;
  "push "*) [ -z "$FAKE_PUSH_FAILS" ] ;;
esac
`;

describe("with a Docker CLI", () => {
  beforeEach(() => {
    writeFileSync(join(folder, "docker"), FAKE_DOCKER);
    chmodSync(join(folder, "docker"), 0o755);
    writeFileSync(log, "");
    vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
    vi.stubEnv("FAKE_LOG", log);
    vi.stubEnv("FAKE_ROOT", folder);
    vi.stubEnv("FAKE_IMAGES", "");
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(lockFile, { force: true });
  });

  const calls = () =>
    readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => line.split("|"));
  const uri = "ssh://me@gpu.example.org";
  const make = (key: string, push: boolean, secrets: readonly string[] = []) => {
    const state = imageStates(target(), { push, onHost: new Set() }).find((one) => one.key === key);
    if (state === undefined) throw new Error(`no ${key}`);
    return makeImage(state, { uri, probe: hostProbe(uri), secrets, lockFile });
  };

  test("an image is built on the host, tagged, pushed, and locked by the registry's digest", async () => {
    await make("services", true, ["id=npmrc,src=/home/me/.npmrc"]);
    const tag = built("services", target());
    const pushed = tag.replace("engine-room/", "registry.example.org/room/");
    expect(calls().map(([, line]) => line)).toEqual([
      `build --file containers/services/Dockerfile --secret id=npmrc,src=/home/me/.npmrc --tag ${tag} .`,
      `tag ${tag} ${pushed}`,
      `push ${pushed}`,
      expect.stringContaining("image inspect"),
    ]);
    expect(calls().every(([host]) => host === uri)).toBe(true);
    const { images } = JSON.parse(readFileSync(lockFile, "utf8")) as ImageTarget["options"]["lock"];
    expect(images.services?.reference).toBe(
      `registry.example.org/room/services@sha256:${"2".padStart(64, "0")}`,
    );
  });

  test("a push that fails locks nothing", async () => {
    vi.stubEnv("FAKE_PUSH_FAILS", "1");
    await expect(make("services", true)).rejects.toThrow(/docker push .* ended with exit code 1/);
    expect(() => readFileSync(lockFile)).toThrow("ENOENT");
  });

  test("a database's own image is pulled and locked by its full name", async () => {
    await make("mongo", false);
    expect(calls()[0]?.[1]).toBe("pull docker.io/library/mongo:8.0.26");
    const { images } = JSON.parse(readFileSync(lockFile, "utf8")) as ImageTarget["options"]["lock"];
    expect(images.mongo?.reference).toBe(`docker.io/library/mongo@sha256:${"3".padStart(64, "0")}`);
  });

  test.each([
    ["", true],
    ["20.10.24+dfsg1", true],
    ["28.2.2", false],
  ])("BuildKit is in old CLIs and in a plug-in of new ones: %j", async (version, isThere) => {
    vi.stubEnv("FAKE_CLI", version);
    const asked = requireBuildKit(hostProbe(uri));
    if (isThere) await asked;
    else await expect(asked).rejects.toThrow("The Docker CLI 28.2.2 of this machine has no buildx");
  });

  const command = (...options: readonly string[]) =>
    runCommand("images", "--stack", "test", "--config-file", stackFile, ...options);

  test("--dry-run says what is there, what is left to do and what it takes, and does none of it", async () => {
    configure(cpu);
    const { exitCode, stdout } = await command("--dry-run", "--push");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/services +not there +build, push, lock +registry\.example\.org\/room\/services:/);
    expect(stdout).toMatch(/About 2\.4 GB of the host's disk, and 41 s/);
    expect(calls().filter(([, line]) => /^(build|pull|push|tag)/.test(line ?? ""))).toEqual([]);
  });

  test("NVIDIA's images are told with their size, and refused on a disk that does not hold them", async () => {
    configure(gpu);
    const { stdout } = await command("--dry-run");
    expect(stdout).toMatch(/trtllm-25\.07 +not there +build +engine-room\/trtllm:25\.07-/);
    expect(stdout).toMatch(/encoders-25\.07 +not there +build +engine-room\/encoders:25\.07-/);
    expect(stdout).toMatch(/About 34\.9 GB of the host's disk, and 10 min/);
    vi.stubEnv("FAKE_ROOT", "/proc");
    const { exitCode, stderr } = await command("--only", "trtllm");
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/\/proc has 0\.0 GB free\..*GB are needed: 18\.3 images trtllm, 5 in reserve/s);
    expect(calls().filter(([, line]) => line?.startsWith("build"))).toEqual([]);
  });

  test("nothing is done where nothing is left to do", async () => {
    const one = target();
    const names = one.images.map((image) => (image.kind === "build" ? image.tag : image.reference));
    vi.stubEnv(
      "FAKE_IMAGES",
      names.map((name) => `${name.replace(/:([^:]+)$/, "\\t$1")}\\t<none>\\n`).join(""),
    );
    const { exitCode, stdout } = await command("--only", "services", "--only", "cpu-models");
    expect(exitCode).toBe(0);
    expect(stdout).not.toContain("Done");
    expect(calls().filter(([, line]) => line?.startsWith("build"))).toEqual([]);
  });

  test("a disk that is too small is refused before anything is built", async () => {
    configure(cpu);
    vi.stubEnv("FAKE_ROOT", "/proc");
    const { exitCode, stderr } = await command("--only", "mongo");
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/\/proc has 0\.0 GB free\..*GB are needed: 0\.9 images mongo, 5 in reserve/s);
    expect(calls().filter(([, line]) => line?.startsWith("pull"))).toEqual([]);
  });

  test("a push without registry, an image of another stack, and another platform are refused", async () => {
    configure({ ...cpu, images: {} });
    expect((await command("--push")).stderr).toContain("set images.registry");
    expect((await command("--only", "trtllm")).stderr).toContain("--only trtllm is no image of this stack");
    configure({ platform: "local", models: cpu.models });
    expect((await command()).stderr).toContain("platform: docker");
  });
});
