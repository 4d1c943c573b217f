import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import {
  imageContentHash,
  imageInputs,
  imageLockFile,
  readImageLock,
} from "../../../../infra/image-inputs.ts";
import {
  dockerImages,
  IMAGE_NAMES,
  type ImageName,
  type ImageOptions,
  imageSources,
  imageTag,
  lockKey,
} from "../../../../infra/plan/docker/images.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";

const triton = { release: "25.07" };
const hash = (digit: string) => digit.repeat(64);
const contentHashes = Object.fromEntries(IMAGE_NAMES.map((name, index) => [name, hash(String(index))]));
const options = (images: ImageOptions["lock"]["images"] = {}): ImageOptions => ({
  lock: { version: 1, images },
  contentHashes,
  triton,
  bases: {},
});
const named = (name: ImageName, given: ImageOptions) => dockerImages([name], given)[0];

test("an image missing from the lock file is built, on the release's image if it needs one", () => {
  expect(named("services", options())).toEqual({
    kind: "build",
    name: "services",
    reference: "engine-room/services:000000000000",
    contentHash: hash("0"),
    dockerfile: "containers/services/Dockerfile",
    buildArguments: {},
  });
  expect(named("trtllm", options())).toMatchObject({
    reference: "engine-room/trtllm:25.07-222222222222",
    buildArguments: { BASE: "nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3" },
  });
  expect(named("encoders", options())).toMatchObject({
    buildArguments: { BASE: "nvcr.io/nvidia/tritonserver:25.07-py3" },
  });
});

test("a custom Triton image is the base of trtllm only", () => {
  const own = { ...options(), triton: { ...triton, image: "registry.example.org/tritonserver:25.07" } };
  expect(named("trtllm", own)).toMatchObject({
    buildArguments: { BASE: "registry.example.org/tritonserver:25.07" },
  });
  expect(named("encoders", own)).toEqual(named("encoders", options()));
});

test("an image of a release before 25.01 has the backend's commit on any base", () => {
  const old = { ...options(), triton: { release: "24.02" } };
  const BACKEND_COMMIT = "41fe3a6a9daa12c64403e084298c6169b07d489d";
  expect(named("trtllm", old)).toMatchObject({
    buildArguments: { BACKEND_COMMIT, BASE: "nvcr.io/nvidia/tritonserver:24.02-trtllm-python-py3" },
  });
  for (const own of [
    { ...old, triton: { ...old.triton, image: "registry.example.org/own:1" } },
    { ...old, bases: { trtllm: "registry.example.org/own:1" } },
  ])
    expect(named("trtllm", own)).toMatchObject({
      buildArguments: { BACKEND_COMMIT, BASE: "registry.example.org/own:1" },
    });
  expect(named("encoders", old)).not.toHaveProperty("buildArguments.BACKEND_COMMIT");
  expect(named("trtllm", options())).not.toHaveProperty("buildArguments.BACKEND_COMMIT");
});

test("an image of a release whose packages are too old for its TensorRT-LLM has newer ones, with their hashes", () => {
  const upgrades = named("trtllm", { ...options(), triton: { release: "26.07" } });
  expect(upgrades).toMatchObject({
    buildArguments: {
      PYTHON_UPGRADES: expect.stringMatching(/^openai==1\.109\.1 --hash=sha256:[0-9a-f]{64}$/),
    },
  });
  for (const release of ["25.07", "26.02"])
    expect(named("trtllm", { ...options(), triton: { release } })).not.toHaveProperty(
      "buildArguments.PYTHON_UPGRADES",
    );
});

test("a base of the stack file replaces that of the Dockerfile or release", () => {
  const bases = {
    services: "mirror.example.org/node:24-slim",
    encoders: "mirror.example.org/triton:25.07",
  };
  const given = { ...options(), bases };
  expect(named("services", given)).toMatchObject({ buildArguments: { BASE: bases.services } });
  expect(named("encoders", given)).toMatchObject({ buildArguments: { BASE: bases.encoders } });
  expect(named("cpu-models", given)).toMatchObject({ buildArguments: {} });
});

test("a digest of the lock file is used only for the same content and release", () => {
  const reference = `ghcr.io/example/trtllm@sha256:${hash("a")}`;
  const entry = { contentHash: hash("2"), reference };
  const kind = (lock: ImageOptions["lock"]["images"]) => named("trtllm", options(lock))?.kind;
  expect(named("trtllm", options({ "trtllm-25.07": entry }))).toEqual({
    kind: "locked",
    name: "trtllm",
    reference,
  });
  expect(kind({ "trtllm-25.07": { ...entry, contentHash: hash("f") } })).toBe("build");
  expect(kind({ "trtllm-25.06": entry })).toBe("build");
});

test("official images have a fixed version, or a digest if the lock file has one", () => {
  for (const name of ["mongo", "qdrant"] as const) {
    const image = named(name, options());
    expect(image).toMatchObject({
      kind: "locked",
      reference: expect.stringMatching(/^docker\.io\/.+:v?\d+\.\d+\.\d+(-unprivileged)?$/),
    });
  }
  const reference = `docker.io/library/mongo@sha256:${hash("b")}`;
  const lock = { mongo: { contentHash: hash("4"), reference } };
  expect(named("mongo", options(lock))).toMatchObject({ reference });
});

test("images keep their order, and a missing hash or release is an error", () => {
  const images = dockerImages(["trtllm", "services"], options());
  expect(images.map(({ name }) => name)).toEqual(["trtllm", "services"]);
  const withoutHash = { ...options(), contentHashes: {} };
  expect(() => named("services", withoutHash)).toThrow("content hash of the image services");
  expect(() => named("trtllm", { ...options(), triton: null })).toThrow("image trtllm is based on a release");
});

test("the lock key of an image on a release has the release", () => {
  expect(IMAGE_NAMES.map((name) => lockKey(name, triton))).toEqual([
    "services",
    "cpu-models",
    "trtllm-25.07",
    "encoders-25.07",
    "mongo",
    "qdrant",
  ]);
  expect(imageTag("services", hash("c"), null)).toBe("cccccccccccc");
});

test("stacks of one release with different packages have lock keys of their own for the image that has them", () => {
  const keys = (name: ImageName, ...hashes: readonly string[]) =>
    hashes.map((digit) =>
      lockKey(name, {
        ...triton,
        requirements: [{ name: "einops", version: "0.8.1", hashes: [hash(digit)] }],
      }),
    );
  const [first, again, other] = keys("trtllm", "1", "1", "2");
  expect(first).toMatch(/^trtllm-25\.07-[0-9a-f]{12}$/);
  expect(again).toBe(first);
  expect(other).not.toBe(first);
  expect(keys("encoders", "1")).toEqual(["encoders-25.07"]);
});

test("content hashes differ between images, releases and bases", () => {
  const hashes = [
    ...IMAGE_NAMES.map((name) => imageContentHash(name, { triton, bases: {} })),
    imageContentHash("trtllm", { triton: { release: "25.06" }, bases: {} }),
    imageContentHash("trtllm", { triton: { ...triton, image: "other:25.07" }, bases: {} }),
    imageContentHash("services", { triton, bases: { services: "mirror.example.org/node:24-slim" } }),
  ];
  expect(new Set(hashes).size).toBe(hashes.length);
  for (const one of hashes) expect(one).toMatch(/^[0-9a-f]{64}$/);
});

test("the content hash of services does not depend on the release", () => {
  expect(imageContentHash("services", { triton, bases: {} })).toBe(
    imageContentHash("services", { triton: null, bases: {} }),
  );
});

test("`imageInputs` reads the needed hashes and the project's lock file", () => {
  const { contentHashes: read, lock } = imageInputs(["services"], { triton: null, bases: {} });
  expect(Object.keys(read)).toEqual(["services"]);
  expect(lock).toEqual(JSON.parse(readFileSync(join(projectRoot, "images.lock.json"), "utf8")));
});

/** Paths that a Dockerfile copies out of the context, without options and stages. */
function copied(dockerfile: string): string[] {
  const text = readFileSync(join(projectRoot, dockerfile), "utf8").replace(/\\\n/g, " ");
  return [...text.matchAll(/^(?:COPY|ADD)\s+(.+)$/gm)].flatMap(([, words = ""]) => {
    const all = words.trim().split(/\s+/);
    if (all.some((word) => word.startsWith("--from="))) return [];
    return all.filter((word) => !word.startsWith("--")).slice(0, -1);
  });
}

const builtImages = IMAGE_NAMES.flatMap((name) => {
  const source = imageSources[name];
  return source.kind === "official" ? [] : [{ name, ...source }];
});

test.each(builtImages)(
  "the table lists exactly the files that the Dockerfile of $name copies",
  ({ dockerfile, paths, base, hasRelease }) => {
    // An extra file would count as a change of the image.
    expect(copied(dockerfile).toSorted()).toEqual(paths.toSorted());
    expect(paths.filter((path) => !existsSync(join(projectRoot, path)))).toEqual([]);
    const text = readFileSync(join(projectRoot, dockerfile), "utf8");
    // With a release, the default base is the newest that documents use, as the Dockerfile's comment says.
    expect(text).toContain(`ARG BASE=${base(hasRelease ? triton : { release: "" })}\n`);
  },
);

describe("the lock file", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-lock-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  test("a missing lock file is read as empty, and another version is refused", () => {
    const file = join(folder, "images.lock.json");
    expect(readImageLock(file)).toEqual({ version: 1, images: {} });
    writeFileSync(file, '{"version": 2}');
    expect(() => readImageLock(file)).toThrow("not a lock file of version 1");
  });

  test("ENGINE_ROOM_IMAGE_LOCK names the lock file in place of the project's", () => {
    expect(imageLockFile()).toBe(join(projectRoot, "images.lock.json"));
    vi.stubEnv("ENGINE_ROOM_IMAGE_LOCK", "/elsewhere/lock.json");
    expect(imageLockFile()).toBe("/elsewhere/lock.json");
  });
});
