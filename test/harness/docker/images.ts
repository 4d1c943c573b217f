/** Images for tests, built as a person builds them, on bases that need no registry of images. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { cp, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { tell } from "../progress.ts";
import { eventually } from "../stack.ts";
import { DockerApi } from "./api.ts";
import { debianRootArchive } from "./debian-root.ts";
import { nodeBinary } from "./node-binary.ts";
import { NVIDIA_BASE_PACKAGES, withNvidiaContext } from "./nvidia-bases.ts";
import { run } from "./run.ts";

const BUILD_TIMEOUT_SECONDS = 1200;
const ALL_BUILDS_TIMEOUT_SECONDS = 2 * BUILD_TIMEOUT_SECONDS;

interface ImageRecipe {
  readonly dockerfile: string;
  readonly base: (socketPath: string) => Promise<string>;
}

export type TestImage = "services" | "cpu-models" | "trtllm" | "encoders";

/** Images of the project; those of the GPU tier are built on stand-ins for NVIDIA's. */
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
  /** Tag of another base. @default {@link baseImage} */
  readonly base?: string;
  /** In addition to the base. @default none */
  readonly buildArguments?: Readonly<Record<string, string>>;
  /** After the image's name. @default test */
  readonly version?: string;
}

/** In the order in which tests need them. A lane builds one image after the other, for pip and npm take a core each. */
const LANES: readonly (readonly TestImage[])[] = [["trtllm", "encoders", "services"], ["cpu-models"]];

/** Builds all images while tests without images run. Never fails: {@link builtImage} reports errors. */
export async function buildAllImages(socketPath: string): Promise<void> {
  await Promise.all(
    LANES.map(async (names) => {
      for (const name of names) await buildOnce(socketPath, name);
    }),
  );
}

/** The result of a build. */
type BuildOutcome = { readonly tag: string } | { readonly error: string };

async function buildOnce(socketPath: string, name: TestImage): Promise<void> {
  const outcome: BuildOutcome = await buildImage(socketPath, name).then(
    (tag) => ({ tag }),
    (error: Error) => ({ error: error.message }),
  );
  const file = outcomeFile(socketPath, name);
  // Without the folder the engine has stopped, and no one waits.
  await writeFile(`${file}.tmp`, JSON.stringify(outcome)).then(
    () => rename(`${file}.tmp`, file),
    () => {},
  );
}

function outcomeFile(socketPath: string, name: TestImage): string {
  return join(dirname(socketPath), `${name}.image.json`);
}

/** Waits for an image's build in this run. @returns Its tag. @throws Error with the end of a failed build's output. */
export async function builtImage(socketPath: string, name: TestImage): Promise<string> {
  const file = outcomeFile(socketPath, name);
  const outcome = await eventually(
    async () => JSON.parse(await readFile(file, "utf8")) as BuildOutcome,
    ALL_BUILDS_TIMEOUT_SECONDS,
  );
  if ("error" in outcome) throw new Error(outcome.error);
  return outcome.tag;
}

/** Builds an image of the project. @returns Its tag. */
export async function buildImage(
  socketPath: string,
  name: TestImage,
  { base: own, buildArguments = {}, version = "test" }: BuildOptions = {},
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
    ...Object.entries(buildSecrets(socketPath)).flatMap(([id, path]) => ["--secret", `id=${id},src=${path}`]),
    ".",
  ]);
  const api = new DockerApi(socketPath);
  const [{ Size }, base] = await Promise.all([api.inspectImage(tag), api.inspectImage(baseTag)]);
  const seconds = (performance.now() - started) / 1000;
  tell(
    `Built ${tag} in ${seconds.toFixed(1)} s; ${(Size / 1e6).toFixed(1)} MB, ${((Size - base.Size) / 1e6).toFixed(1)} MB without its base`,
  );
  return tag;
}

/** Tag of an image's base here, which is built if missing. */
export function baseImage(socketPath: string, name: TestImage): Promise<string> {
  return IMAGES[name].base(socketPath);
}

/** Folder of the settings of the tests' Docker CLI, which ignores those of the user. */
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

/** A secret of every build that no layer of an image contains; different in each run. */
export function secretToken(socketPath: string): string {
  return `token-${createHash("sha256").update(socketPath).digest("hex")}`;
}

/** This machine's settings of package registries, for builds to use the same; with a token for npm. */
export function buildSecrets(socketPath: string): Secrets {
  const { npmrc: own, ...others } = machineSettings();
  const npmrc = join(dirname(socketPath), "npmrc");
  const settings = own === undefined ? "" : readFileSync(own, "utf8");
  writeFileSync(npmrc, `${settings}\n//registry.invalid/:_authToken=${secretToken(socketPath)}\n`);
  return { ...others, npmrc };
}

function machineSettings(): Secrets {
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

/** Imports in progress, by tag: images of both lanes have the same base. */
const imports = new Map<string, Promise<void>>();

async function importedDebian(socketPath: string, tag: string, packages: readonly string[]): Promise<string> {
  const imported = imports.get(tag) ?? importMissing(socketPath, tag, packages);
  imports.set(tag, imported);
  await imported;
  return tag;
}

async function importMissing(socketPath: string, tag: string, packages: readonly string[]): Promise<void> {
  if (!(await hasImage(socketPath, tag)))
    await docker(socketPath, ["import", await debianRootArchive(packages), tag]);
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

/** A base like Node's own image: Debian with Node, npm and the user `node`. */
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

/** The npm of this process's Node. */
function npmFolder(): string {
  return join(dirname(realpathSync(process.execPath)), "../lib/node_modules/npm");
}

async function hasImage(socketPath: string, tag: string): Promise<boolean> {
  return (await new DockerApi(socketPath).imageTags()).includes(tag);
}
