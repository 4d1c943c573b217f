/** Images for tests, built as a person builds them, on bases that need no registry of images. */
import { existsSync, realpathSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { DockerApi } from "./api.ts";
import { debianRootArchive } from "./debian-root.ts";
import { nodeBinary } from "./node-binary.ts";
import { NVIDIA_BASE_PACKAGES, withNvidiaContext } from "./nvidia-bases.ts";
import { run } from "./run.ts";

const BUILD_TIMEOUT_SECONDS = 1200;

interface ImageRecipe {
  readonly dockerfile: string;
  readonly base: (socketPath: string) => Promise<string>;
}

export type TestImage = "services" | "cpu-models" | "trtllm" | "encoders";

/** The images of the project; those of the GPU tier stand on stand-ins for NVIDIA's. */
const IMAGES: Readonly<Record<TestImage, ImageRecipe>> = {
  services: { dockerfile: "containers/services/Dockerfile", base: nodeBase },
  "cpu-models": { dockerfile: "containers/cpu-models/Dockerfile", base: debianBase },
  trtllm: {
    dockerfile: "containers/trtllm/Dockerfile",
    base: (socketPath) => nvidiaBase(socketPath, "trtllm-python-py3"),
  },
  encoders: {
    dockerfile: "containers/encoders/Dockerfile",
    base: (socketPath) => nvidiaBase(socketPath, "py3"),
  },
};

/** Files of build secrets, by id. */
type Secrets = Readonly<Record<string, string>>;

interface BuildOptions {
  /** In place of {@link machineSettings}. */
  readonly secrets?: Secrets;
  /** Tag of another base. @default {@link baseImage} */
  readonly base?: string;
  /** Beside the base. @default none */
  readonly buildArguments?: Readonly<Record<string, string>>;
  /** After the image's name. @default test */
  readonly version?: string;
  /** Whether to build what was built before. */
  readonly noCache?: boolean;
}

/** Builds an image of the project. @returns Its tag. */
export async function buildImage(
  socketPath: string,
  name: TestImage,
  {
    secrets = machineSettings(),
    base: own,
    buildArguments = {},
    version = "test",
    noCache = false,
  }: BuildOptions = {},
): Promise<string> {
  const { dockerfile } = IMAGES[name];
  const tag = `engine-room/${name}:${version}`;
  const baseTag = own ?? (await baseImage(socketPath, name));
  const started = performance.now();
  await docker(socketPath, [
    ...["build", "--progress", "plain", "--tag", tag, "--file", dockerfile],
    ...Object.entries({ ...buildArguments, BASE: baseTag }).flatMap(([key, value]) => [
      "--build-arg",
      `${key}=${value}`,
    ]),
    ...Object.entries(secrets).flatMap(([id, path]) => ["--secret", `id=${id},src=${path}`]),
    ...(noCache ? ["--no-cache"] : []),
    ".",
  ]);
  const api = new DockerApi(socketPath);
  const [{ Size }, base] = await Promise.all([api.inspectImage(tag), api.inspectImage(baseTag)]);
  const seconds = (performance.now() - started) / 1000;
  process.stderr.write(
    `Built ${tag} in ${seconds.toFixed(1)} s; ${(Size / 1e6).toFixed(1)} MB, ${((Size - base.Size) / 1e6).toFixed(1)} MB without its base\n`,
  );
  return tag;
}

/** Tag of what an image stands on here, made where it is missing. */
export function baseImage(socketPath: string, name: TestImage): Promise<string> {
  return IMAGES[name].base(socketPath);
}

/** Where a Docker CLI of the tests keeps its settings: those of the user have no part in them. */
export function dockerConfigDirectory(socketPath: string): string {
  return join(dirname(socketPath), "docker-config");
}

/** Runs Docker's command line at the root of the project. @returns The last lines that it printed. */
export async function docker(socketPath: string, args: readonly string[]): Promise<string> {
  return run(["docker", ...args], BUILD_TIMEOUT_SECONDS, {
    cwd: projectRoot,
    environment: {
      ...process.env,
      DOCKER_HOST: `unix://${socketPath}`,
      DOCKER_CONFIG: dockerConfigDirectory(socketPath),
      DOCKER_BUILDKIT: "1",
    },
  });
}

/** How this machine reaches its package registries, for builds to reach them the same way. */
export function machineSettings(): Secrets {
  const candidates: Record<string, readonly (string | undefined)[]> = {
    npmrc: [process.env.NPM_CONFIG_USERCONFIG, join(homedir(), ".npmrc")],
    "pip.conf": [process.env.PIP_CONFIG_FILE, join(homedir(), ".config/pip/pip.conf"), "/etc/pip.conf"],
    "ca-certificates": [process.env.SSL_CERT_FILE, "/etc/ssl/certs/ca-certificates.crt"],
  };
  return Object.fromEntries(
    Object.entries(candidates).flatMap(([id, paths]) => {
      const path = paths.find((candidate) => candidate !== undefined && existsSync(candidate));
      return path === undefined ? [] : [[id, path]];
    }),
  );
}

function debianBase(socketPath: string): Promise<string> {
  return importedDebian(socketPath, "engine-room/debian:test", ["ca-certificates"]);
}

async function importedDebian(socketPath: string, tag: string, packages: readonly string[]): Promise<string> {
  if (!(await hasImage(socketPath, tag)))
    await docker(socketPath, ["import", await debianRootArchive(packages), tag]);
  return tag;
}

async function nvidiaBase(socketPath: string, kind: "trtllm-python-py3" | "py3"): Promise<string> {
  const tag = `engine-room/nvidia-${kind}:test`;
  if (await hasImage(socketPath, tag)) return tag;
  const debian = await importedDebian(socketPath, "engine-room/debian-python:test", NVIDIA_BASE_PACKAGES);
  return withNvidiaContext(debian, kind, async (directory) => {
    await docker(socketPath, ["build", "--quiet", "--tag", tag, directory]);
    return tag;
  });
}

/** As Node's own image: Debian with Node, npm and the user `node`. */
async function nodeBase(socketPath: string): Promise<string> {
  const tag = "engine-room/node:test";
  if (await hasImage(socketPath, tag)) return tag;
  const directory = await mkdtemp(join(tmpdir(), "engine-room-node-"));
  try {
    const [debian, node] = await Promise.all([debianBase(socketPath), nodeBinary()]);
    await cp(node, join(directory, "node"));
    await cp(npmFolder(), join(directory, "npm"), { recursive: true });
    const dockerfile = [
      `FROM ${debian}`,
      "COPY node /usr/local/bin/node",
      "COPY npm /usr/local/lib/node_modules/npm",
      "RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 node",
    ];
    await writeFile(join(directory, "Dockerfile"), dockerfile.join("\n"));
    await docker(socketPath, ["build", "--quiet", "--tag", tag, directory]);
    return tag;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The one that belongs to the Node of this process. */
function npmFolder(): string {
  return join(dirname(realpathSync(process.execPath)), "../lib/node_modules/npm");
}

async function hasImage(socketPath: string, tag: string): Promise<boolean> {
  return (await new DockerApi(socketPath).imageTags()).includes(tag);
}
