/** Content of the images, and errors of their programs when they can't start. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { imageBuildArguments } from "../../infra/plan/docker/images.ts";
import { readRequirements } from "../../infra/plan/docker/python-packages.ts";
import { describeWithEngine } from "../harness/docker/describe.ts";
import {
  baseImage,
  buildImage,
  builtImage,
  docker,
  secretToken,
  type TestImage,
} from "../harness/docker/images.ts";
import { LOCAL_REPOSITORIES } from "../harness/docker/nvidia-bases.ts";
import { run } from "../harness/docker/run.ts";

const IMAGES: readonly TestImage[] = ["services", "cpu-models", "trtllm", "encoders"];

describeWithEngine("images", ({ socketPath, api }) => {
  const tags = new Map<TestImage, string>();
  const tagOf = (image: TestImage) => tags.get(image) ?? "";

  beforeAll(async () => {
    for (const image of IMAGES) tags.set(image, await builtImage(socketPath, image));
  });

  /** Runs a container to its end. */
  const outcome = (image: TestImage, options: readonly string[], args: readonly string[]) =>
    outcomeOf(tagOf(image), options, args);

  async function outcomeOf(tag: string, options: readonly string[], args: readonly string[]) {
    const name = `test-${randomUUID()}`;
    await docker(socketPath, ["create", "--name", name, ...options, tag, ...args]);
    try {
      await api.startContainer(name);
      return { code: await api.waitForExit(name, 120), output: await api.logs(name) };
    } finally {
      await api.removeContainer(name);
    }
  }

  test.each(IMAGES)("the image %s runs as uid 1000, has a title, and has no health check", async (image) => {
    const { Config } = await api.inspectImage(tagOf(image));
    expect(Config.User).toBe("1000:1000");
    expect(Config.Labels?.["org.opencontainers.image.title"]).toBe(`engine-room ${image}`);
    // Each platform has its own health check.
    expect(Config.Healthcheck).toBeUndefined();
  });

  test.concurrent.each([
    ["services", "/data"],
    ["cpu-models", "/model-repository /cache"],
    ["trtllm", "/store /scratch /model-repository /home/engine-room"],
    ["encoders", "/store /scratch /model-repository /home/engine-room"],
  ] as const)("the user of the image %s writes only to %s and /tmp", async (image, writable) => {
    const find =
      "find / -xdev -type d -writable -not -path '/proc/*' -not -path '/dev/*' -not -path '/run/lock' 2>/dev/null | sort";
    const { output } = await outcome(image, ["--entrypoint", "sh"], ["-c", find]);
    const expected = [...writable.split(" "), "/tmp", "/var/tmp"].toSorted();
    expect(output.trim().split("\n")).toEqual(expected);
  });

  /** Builds a user's base image, with a clone of another commit in the folder of the backend's files. @returns Its tag. */
  async function baseWithClone(): Promise<string> {
    const [name, tag] = [`test-${randomUUID()}`, "engine-room/own-base:test"];
    const clone = "git init --quiet /tensorrtllm_backend && touch /tensorrtllm_backend/of-another-commit";
    const base = await baseImage(socketPath, "trtllm");
    await docker(socketPath, ["create", "--name", name, "--entrypoint", "sh", base, "-c", clone]);
    try {
      await api.startContainer(name);
      expect(await api.waitForExit(name, 120)).toBe(0);
      await docker(socketPath, ["commit", name, tag]);
    } finally {
      await api.removeContainer(name);
    }
    return tag;
  }

  test.concurrent("the image trtllm takes only converters, templates and tools from the named commit of the backend", async () => {
    const git = ["--user", "0:0", "--entrypoint", "git"];
    const { backend, tensorRtLlm } = LOCAL_REPOSITORIES;
    const commit = (await outcome("trtllm", git, ["-C", backend, "rev-parse", "HEAD"])).output.trim();
    const tag = await buildImage(socketPath, "trtllm", {
      version: "old",
      base: await baseWithClone(),
      buildArguments: {
        BACKEND_COMMIT: commit,
        BACKEND: `file://${backend}`,
        TENSORRT_LLM: `file://${tensorRtLlm}`,
      },
    });
    const list = ["--entrypoint", "find"];
    const folder = "/tensorrtllm_backend";
    const depth = [folder, "-mindepth", "1", "-maxdepth", "2", "-printf", "%P\\n"];
    expect((await outcome("trtllm", list, depth)).output).toBe("");
    const { output } = await outcomeOf(tag, list, depth);
    expect(output.trim().split("\n").toSorted()).toEqual([
      ...["LICENSE", "all_models", "all_models/gpt", "all_models/inflight_batcher_llm", "all_models/llmapi"],
      ...["all_models/multimodal", "scripts", "scripts/launch_triton_server.py", "tensorrt_llm"],
      ...["tensorrt_llm/LICENSE", "tensorrt_llm/examples", "tools", "tools/fill_template.py"],
    ]);
  });

  test.concurrent("the image trtllm has the Python packages of the release and of the models' own files", async () => {
    // The second hash is of no file.
    const own =
      "einops==0.8.1 \\\n  --hash=sha256:919387eb55330f5757c6bea9165c5ff5cfe63a642682ea788a6d472576d81737 \\\n" +
      `  --hash=sha256:${"0".repeat(64)}\n`;
    const triton = { release: "26.07", requirements: readRequirements(own).requirements };
    const { PYTHON_UPGRADES = "" } = imageBuildArguments("trtllm", { triton, bases: {} });
    const tag = await buildImage(socketPath, "trtllm", {
      version: "upgraded",
      buildArguments: { PYTHON_UPGRADES },
    });
    const versions = [
      "-c",
      "import importlib.metadata as m; print(m.version('openai'), m.version('einops'))",
    ];
    expect(await outcomeOf(tag, ["--entrypoint", "python3"], versions)).toEqual({
      code: 0,
      output: "1.109.1 0.8.1\n",
    });
  });

  test.concurrent("the image services refuses a first argument that names no service", async () => {
    expect(await outcome("services", [], ["mongo"])).toEqual({
      code: 2,
      output:
        "There is no service mongo; the first argument must be one of gateway, mock-mongo, mock-vector.\n",
    });
  });

  test.concurrent("the image services has no packages for development", async () => {
    const wanted = ["fastify", "lmdb", "sharp", "typescript", "vitest", "@pulumi", "playwright-core", "tsx"];
    const list = ["-d", ...wanted.map((name) => `/app/node_modules/${name}`)];
    const { output } = await outcome("services", ["--entrypoint", "ls"], list);
    const found = output.split("\n").filter((line) => line.startsWith("/app/"));
    expect(found.map((path) => path.slice("/app/node_modules/".length))).toEqual([
      "fastify",
      "lmdb",
      "sharp",
    ]);
  });

  test.concurrent("the image cpu-models reports a missing server.json", async () => {
    expect(await outcome("cpu-models", [], [])).toEqual({
      code: 1,
      output:
        "triton_entrypoint: /etc/engine-room/server.json can't be read: No such file or directory; mount the spec there.\n",
    });
  });

  test.concurrent("the image cpu-models reports too little shared memory before Triton starts", async () => {
    const { code, output } = await outcome("cpu-models", ["--shm-size", "8m"], []);
    expect(code).toBe(1);
    expect(output).toMatch(/^triton_entrypoint: \/dev\/shm has 8 MiB free, .* a larger --shm-size\.\n$/);
  });

  test.concurrent("the image cpu-models has its weights once, linked for the models that use them", async () => {
    const count =
      "find /opt -name '*.gguf' -printf '%i\\n' | sort -u | wc -l; find /opt -name '*.gguf' | wc -l";
    const { output } = await outcome("cpu-models", ["--entrypoint", "sh"], ["-c", count]);
    expect(output).toBe("1\n2\n");
  });

  test.concurrent("no layer of the image services keeps a secret of its build", async () => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-secret-"));
    const token = secretToken(socketPath);
    try {
      const saved = join(folder, "image.tar");
      await docker(socketPath, ["save", "--output", saved, tagOf("services")]);
      // The second word is in the image, which shows that the search works.
      const search = `grep --text --only-matching --fixed-strings -e ${token} -e mock-vector ${saved} | sort --unique`;
      expect(await run(["sh", "-c", search], 120)).toBe("mock-vector");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
