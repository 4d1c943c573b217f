/** NVIDIA's images of a stack's release, copied into the account's own registry as they are: by digest, and all platforms. */
import { MIRROR_REPOSITORY } from "../../infra/plan/aws/account.ts";
import { type BaseChoice, type ImageName, imageSources } from "../../infra/plan/docker/images.ts";
import { ecrHost, ecrImage } from "../aws/ecr.ts";
import { required } from "../aws/session.ts";
import { UserError } from "../errors.ts";
import { type HostProbe, lastLine } from "../preflight/host-probe.ts";
import { runDocker } from "./make-images.ts";

/** Layers go through this machine: 18 GB at some 3 MB/s. */
const COPY_TIMEOUT_SECONDS = 2 * 3600;

/** Digits of a digest in a tag, which ECR lets nobody move: a publisher may move his. */
const TAG_DIGITS = 12;

/** One image that others stand on. */
export interface MirroredBase {
  readonly image: ImageName;
  /** Of the publisher, by tag. */
  readonly source: string;
}

export interface MirroredImage extends MirroredBase {
  /** `sha256:…`, of the publisher's tag today. */
  readonly digest: string;
  /** In the account's registry, by the same digest. */
  readonly reference: string;
  /** Whether the registry has it already. */
  readonly isThere: boolean;
}

/** NVIDIA's own bases of the images that a stack needs, whatever its file puts in their place. Pure. */
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
 * @param registry - Of ECR, with the path before the names of images.
 * @throws UserError where the CLI has no buildx, or a registry does not answer.
 */
export async function mirrorStates(
  bases: readonly MirroredBase[],
  registry: string,
  probe: HostProbe,
): Promise<readonly MirroredImage[]> {
  const states: MirroredImage[] = [];
  if (bases.length > 0) await requireBuildx(probe);
  for (const base of bases) {
    const digest = await publishedDigest(base.source, probe);
    const image = { ...base, digest, reference: `${registry}/${MIRROR_REPOSITORY}@${digest}` };
    states.push({ ...image, isThere: await isInEcr(registry, digest) });
  }
  return states;
}

/** @throws UserError where it ends with an error, takes longer than two hours, or the registry has other bytes then. */
export async function mirrorImage(
  { source, digest }: MirroredImage,
  registry: string,
  uri: string,
): Promise<void> {
  const [repository = "", tag = ""] = source.split(":");
  const target = `${registry}/${MIRROR_REPOSITORY}:${tag}-${digest.slice("sha256:".length, "sha256:".length + TAG_DIGITS)}`;
  const from = `${repository}@${digest}`;
  // One source alone keeps its digest, whether it is an index or an image.
  const command = ["buildx", "imagetools", "create", "--prefer-index=false", "--tag", target, from];
  await runDocker(command, uri, COPY_TIMEOUT_SECONDS);
  if (!(await isInEcr(registry, digest)))
    throw new UserError(`ECR has no image ${digest} after it was copied; copy it again with a newer buildx.`);
}

/** What a stack file says to build on the copies. */
export function mirrorLines(images: readonly MirroredImage[]): string {
  const lines = images.map(({ image, reference }) =>
    image === "trtllm"
      ? `  engine-room:image: { base: "${reference}" }`
      : `  engine-room:images: { bases: { ${image}: "${reference}" } }`,
  );
  return `${lines.join("\n")}\n`;
}

/** Without the plug-in, or without anything, the CLI's last words are about its help. */
async function requireBuildx(probe: HostProbe): Promise<void> {
  const { exitCode, stderr } = await probe.docker(["buildx", "version"]);
  if (exitCode === 0) return;
  const lacks =
    exitCode === null && stderr.includes("ENOENT")
      ? "This machine has no `docker` command"
      : "The Docker CLI of this machine has no buildx";
  throw new UserError(
    `${lacks}, which reads digests of images and copies them, without an engine; install Docker's CLI with buildx (https://docs.docker.com/engine/install/; Debian: docker-cli, docker-buildx).`,
  );
}

async function publishedDigest(source: string, probe: HostProbe): Promise<string> {
  const { exitCode, stdout, stderr } = await probe.docker([
    "buildx",
    "imagetools",
    "inspect",
    "--format",
    "{{json .Manifest}}",
    source,
  ]);
  const digest = exitCode === 0 ? (JSON.parse(stdout) as { readonly digest?: string }).digest : undefined;
  if (digest !== undefined) return digest;
  throw new UserError(
    `\`docker buildx imagetools inspect ${source}\` says no digest: ${lastLine(stderr) || "it said nothing"}. It takes a way to the publisher's registry.`,
  );
}

async function isInEcr(registry: string, digest: string): Promise<boolean> {
  const [host = "", ...path] = registry.split("/");
  const own = ecrHost(host);
  if (own === null) throw new Error(`${host} is no registry of ECR.`);
  const answer = await ecrImage({ ...own, repository: [...path, MIRROR_REPOSITORY].join("/"), digest });
  if (answer.kind === "absent") return false;
  required(answer, "");
  return true;
}
