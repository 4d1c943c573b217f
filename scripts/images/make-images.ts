/** Builds, pulls and pushes images with the Docker CLI, and locks their digests. */
import { spawn } from "node:child_process";
import type { BuiltImage } from "../../infra/plan/docker/images.ts";
import { UserError } from "../errors.ts";
import { isOlder } from "../preflight/finding.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import { projectRoot } from "../program/stack-file.ts";
import { type ImageState, lockImage } from "./image-states.ts";

interface MakeOptions {
  /** The host's engine, as DOCKER_HOST names it. */
  readonly uri: string;
  readonly probe: HostProbe;
  /** Of `docker build --secret`: settings of mirrors, which no layer keeps. */
  readonly secrets: readonly string[];
  /** Absolute path of the lock file. @default images.lock.json of the project */
  readonly lockFile?: string;
}

/** @throws UserError where a step fails; what was locked before stays locked. */
export async function makeImage(state: ImageState, options: MakeOptions): Promise<void> {
  const { image } = state;
  for (const step of state.steps) {
    switch (step) {
      case "build":
        if (image.kind === "build") await build(image, options);
        break;
      case "pull":
        if (image.kind === "locked") await runDocker(["pull", image.reference], options.uri);
        break;
      case "push":
        if (image.kind === "build") await push(image.reference, pushReference(state), options.uri);
        break;
      case "copy":
        // The same bytes: one source alone keeps its digest.
        if (image.kind === "locked")
          await runDocker(
            [
              "buildx",
              "imagetools",
              "create",
              "--prefer-index=false",
              "--tag",
              pushReference(state),
              image.reference,
            ],
            options.uri,
          );
        break;
      case "lock":
        lockImage(state.key, await lockEntry(state, options), options.lockFile);
    }
  }
}

/** First CLI that leaves BuildKit to the plug-in buildx; older ones have it in themselves. */
const BUILDKIT_IS_A_PLUGIN = "23.0";

/** @throws UserError where the CLI has no BuildKit, which the Dockerfiles need. */
export async function requireBuildKit(probe: HostProbe): Promise<void> {
  const buildx = await probe.docker(["buildx", "version"]);
  if (buildx.exitCode === 0) return;
  const client = await probe.docker(["version", "--format", "{{.Client.Version}}"]);
  const version = client.stdout.trim();
  if (version !== "" && isOlder(version, BUILDKIT_IS_A_PLUGIN)) return;
  throw new UserError(
    `The Docker CLI ${version} of this machine has no buildx, and the Dockerfiles mount caches with it; install docker-buildx-plugin (Debian: docker-buildx).`,
  );
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

async function push(tag: string, reference: string, uri: string): Promise<void> {
  await runDocker(["tag", tag, reference], uri);
  await runDocker(["push", reference], uri);
}

function pushReference({ pushReference: reference, image }: ImageState): string {
  if (reference !== null) return reference;
  throw new Error(`The image ${image.name} has no registry to be pushed to.`);
}

/** The registry's digest, which the engine knows after a push or a pull. */
async function lockEntry(
  state: ImageState,
  { probe }: MakeOptions,
): Promise<{ contentHash: string; reference: string }> {
  const { image, contentHash } = state;
  const tagged = image.kind === "build" ? pushReference(state) : image.reference;
  const { stdout, stderr } = await probe.docker([
    "image",
    "inspect",
    "--format",
    "{{range .RepoDigests}}{{println .}}{{end}}",
    tagged,
  ]);
  const repository = tagged.replace(/:[^:/]+$/, "");
  const digests = stdout.split("\n").map((line) => line.trim());
  const isOfRepository = (line: string) => repository.endsWith(line.slice(0, line.lastIndexOf("@")));
  const found = digests.find((line) => line.includes("@sha256:") && isOfRepository(line));
  if (found === undefined)
    throw new UserError(
      `The engine knows no digest of ${tagged}${stderr === "" ? "" : ` (${stderr.trim()})`}; push it again.`,
    );
  return { contentHash, reference: `${repository}${found.slice(found.lastIndexOf("@"))}` };
}

/**
 * With its output on standard error.
 *
 * @param timeoutSeconds - @default as long as it takes: builds and pulls say how far they are
 * @throws UserError where it ends with an error, or does not end in time.
 */
export function runDocker(args: readonly string[], uri: string, timeoutSeconds?: number): Promise<void> {
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
      reject(new UserError(`\`docker ${args.join(" ")}\` ${end}; its lines above say why.`));
    });
  });
}
