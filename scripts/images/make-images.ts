/** Builds, pulls, pushes and copies images with the Docker CLI, and locks their digests. */
import { spawn } from "node:child_process";
import { MIRROR_REPOSITORY } from "../../infra/plan/aws/bootstrap.ts";
import {
  type BaseChoice,
  type BuiltImage,
  type ImageName,
  imageSources,
  type LockEntry,
} from "../../infra/plan/docker/images.ts";
import { ecrHost, hasEcrImage } from "../aws/ecr.ts";
import { UserError } from "../errors.ts";
import { type HostProbe, lastLine } from "../preflight/host-probe.ts";
import { projectRoot } from "../program/stack-file.ts";
import { type ImageState, lockImage } from "./image-states.ts";

interface MakeOptions {
  /** The host's engine, as DOCKER_HOST names it. */
  readonly uri: string;
  readonly probe: HostProbe;
  /** Values for `docker build --secret`: settings of mirrors, which no layer keeps. */
  readonly secrets: readonly string[];
  /** Absolute path of the lock file. @default images.lock.json of the project */
  readonly lockFile?: string;
}

/** @throws UserError if a step fails; locked digests stay locked. */
export async function makeImage(state: ImageState, options: MakeOptions): Promise<void> {
  const { image, key } = state;
  const { uri, lockFile } = options;
  const { reference } = image;
  for (const step of state.steps) {
    if (step === "build" && image.kind === "build") await build(image, options);
    if (step === "pull") await runDocker(["pull", reference], uri);
    if (step === "push") {
      await runDocker(["tag", reference, pushReference(state)], uri);
      await runDocker(["push", pushReference(state)], uri);
    }
    if (step === "copy") await copyImage(reference, pushReference(state), uri);
    if (step === "lock") lockImage(key, await lockEntry(state, options), lockFile);
  }
}

function build(
  { dockerfile, buildArguments, reference }: BuiltImage,
  { uri, secrets }: MakeOptions,
): Promise<void> {
  const values = Object.entries(buildArguments).flatMap(([name, value]) => [
    "--build-arg",
    `${name}=${value}`,
  ]);
  const files = secrets.flatMap((secret) => ["--secret", secret]);
  return runDocker(["build", "--file", dockerfile, ...values, ...files, "--tag", reference, "."], uri);
}

/** All platforms, without an engine. A copy of a single source keeps its digest. @param from - By digest. */
function copyImage(from: string, to: string, uri: string, timeoutSeconds?: number): Promise<void> {
  const command = ["buildx", "imagetools", "create", "--prefer-index=false", "--tag", to, from];
  return runDocker(command, uri, timeoutSeconds);
}

function pushReference({ pushReference: reference, image }: ImageState): string {
  if (reference !== null) return reference;
  throw new Error(`The image ${image.name} has no registry to be pushed to.`);
}

/** The registry's digest, which the engine knows after a push or a pull. */
async function lockEntry(state: ImageState, { probe }: MakeOptions): Promise<LockEntry> {
  const { image, contentHash } = state;
  const tagged = image.kind === "build" ? pushReference(state) : image.reference;
  const format = "{{range .RepoDigests}}{{println .}}{{end}}";
  const { stdout, stderr } = await probe.docker(["image", "inspect", "--format", format, tagged]);
  const repository = tagged.replace(/:[^:/]+$/, "");
  const found = stdout
    .split("\n")
    .map((line) => line.trim().split("@"))
    // Docker leaves `docker.io/library/` out.
    .find(([name = "", digest]) => digest?.startsWith("sha256:") && repository.endsWith(name));
  if (found === undefined)
    throw new UserError(
      `The engine has no digest of ${tagged}${stderr === "" ? "" : ` (${stderr.trim()})`}; push it again.`,
    );
  return { contentHash, reference: `${repository}@${found[1]}` };
}

/**
 * Runs the Docker CLI with its output on standard error.
 *
 * @param timeoutSeconds - @default none: builds and pulls show their progress
 * @throws UserError if it ends with an error, or does not end in time.
 */
function runDocker(args: readonly string[], uri: string, timeoutSeconds?: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("docker", args, {
      cwd: projectRoot,
      env: { ...process.env, DOCKER_HOST: uri, DOCKER_BUILDKIT: "1" },
      stdio: ["ignore", process.stderr, process.stderr],
      timeout: timeoutSeconds === undefined ? undefined : timeoutSeconds * 1000,
    });
    child.on("error", (error) => reject(new UserError(`docker can't be started: ${error.message}.`)));
    child.on("close", (code, signal) => {
      if (code === 0) return resolve();
      const end = code === null ? `was ended by ${signal}` : `ended with exit code ${code}`;
      reject(new UserError(`\`docker ${args.join(" ")}\` ${end}; the lines above give the reason.`));
    });
  });
}

/** Layers go through this machine: 18 GB at some 3 MB/s. */
const COPY_TIMEOUT_SECONDS = 2 * 3600;

/** Digits of a digest in a tag: ECR's tags are immutable, and a publisher may move a tag. */
const TAG_DIGITS = 12;

/** An image that is the base of others. */
interface MirroredBase {
  readonly image: ImageName;
  /** Publisher's reference, by tag. */
  readonly source: string;
}

interface MirroredImage extends MirroredBase {
  /** `sha256:…`, of the publisher's tag today. */
  readonly digest: string;
  /** In the account's registry, by the same digest. */
  readonly reference: string;
  /** Whether the registry has it already. */
  readonly isMirrored: boolean;
}

/** NVIDIA's own bases of the images that a stack needs, even if its file replaces them. Pure. */
export function mirroredBases(
  needed: readonly ImageName[],
  triton: BaseChoice["triton"],
): readonly MirroredBase[] {
  if (triton === null) return [];
  return needed.flatMap((image) => {
    const source = imageSources[image];
    if (source.kind !== "built" || !source.hasRelease) return [];
    return [{ image, source: source.base({ release: triton.release }) }];
  });
}

/**
 * Asks both registries; nothing changes.
 *
 * @param registry - Registry of ECR, with the path before the names of images.
 * @throws UserError if a registry does not answer.
 */
export async function mirrorStates(
  bases: readonly MirroredBase[],
  registry: string,
  probe: HostProbe,
): Promise<readonly MirroredImage[]> {
  const states: MirroredImage[] = [];
  for (const base of bases) {
    const digest = await publishedDigest(base.source, probe);
    const reference = `${registry}/${MIRROR_REPOSITORY}@${digest}`;
    states.push({ ...base, digest, reference, isMirrored: await isMirrored(registry, digest) });
  }
  return states;
}

/** @throws UserError if it fails, takes longer than two hours, or ECR has another digest afterwards. */
export async function mirrorImage(
  { source, digest }: MirroredImage,
  registry: string,
  uri: string,
): Promise<void> {
  const [repository = "", tag = ""] = source.split(":");
  const short = digest.slice("sha256:".length, "sha256:".length + TAG_DIGITS);
  const target = `${registry}/${MIRROR_REPOSITORY}:${tag}-${short}`;
  await copyImage(`${repository}@${digest}`, target, uri, COPY_TIMEOUT_SECONDS);
  if (!(await isMirrored(registry, digest)))
    throw new UserError(`ECR has no image ${digest} after it was copied; copy it again with a newer buildx.`);
}

/** Lines of the stack file that use the copies. */
export function mirrorLines(images: readonly MirroredImage[]): string {
  const lines = images.map(({ image, reference }) =>
    image === "trtllm"
      ? `  engine-room:image: { base: "${reference}" }`
      : `  engine-room:images: { bases: { ${image}: "${reference}" } }`,
  );
  return `${lines.join("\n")}\n`;
}

async function publishedDigest(source: string, probe: HostProbe): Promise<string> {
  const command = ["buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", source];
  const { exitCode, stdout, stderr } = await probe.docker(command);
  const digest = exitCode === 0 ? (JSON.parse(stdout) as { readonly digest?: string }).digest : undefined;
  if (digest !== undefined) return digest;
  // Without the plug-in, the first line names it; the last line is about the CLI's help.
  const words = /buildx/.test(stderr) ? (stderr.split("\n")[0] ?? "") : lastLine(stderr);
  throw new UserError(
    `The digest of ${source} is not known: ${words}. This takes Docker's CLI with buildx (https://docs.docker.com/engine/install/; Debian: docker-cli, docker-buildx), and a connection to the publisher's registry.`,
  );
}

function isMirrored(registry: string, digest: string): Promise<boolean> {
  const [host = "", ...path] = registry.split("/");
  const own = ecrHost(host);
  if (own === null) throw new Error(`${host} is not a registry of ECR.`);
  return hasEcrImage({ ...own, repository: [...path, MIRROR_REPOSITORY].join("/"), digest });
}
