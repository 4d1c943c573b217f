/** Which images a stack runs, by digest or by what they are built from. Pure: hashes and lock file are given. */
import { type BaseChoice, imageSource, type TritonBase } from "./image-sources.ts";
import type { DockerImage, ImageName } from "./types.ts";

/** images.lock.json: images that were pushed, by {@link lockKey}. */
export interface ImageLock {
  readonly version: 1;
  readonly images: Readonly<Record<string, LockEntry>>;
}

export interface LockEntry {
  /** Of what the image was made from: 64 hexadecimal digits. */
  readonly contentHash: string;
  /** `registry/repository@sha256:…`. */
  readonly reference: string;
}

export interface ImageOptions extends BaseChoice {
  readonly lock: ImageLock;
  /** By image, of at least those that are needed: 64 hexadecimal digits each. */
  readonly contentHashes: Readonly<Partial<Record<ImageName, string>>>;
}

/** Digits of a content hash in a tag: no two contents of one project meet in them. */
const TAG_DIGITS = 12;

/**
 * Each image by its digest, where the lock file has one of the same content; else to be built on the stack's own host.
 * Official images without a digest are taken by their tag.
 *
 * @returns In the order of `needed`.
 * @throws Error where a content hash, or the release that is the base of an image, was not given.
 */
export function dockerImages(
  needed: readonly ImageName[],
  { lock, contentHashes, triton, bases }: ImageOptions,
): readonly DockerImage[] {
  return needed.map((name) => {
    const contentHash = contentHashes[name];
    if (contentHash === undefined) throw new Error(`No content hash of the image ${name} was given.`);
    const locked = lock.images[lockKey(name, triton)];
    if (locked?.contentHash === contentHash) return { kind: "locked", name, reference: locked.reference };
    const source = imageSource(name);
    if (source.kind === "official") return { kind: "locked", name, reference: source.reference };
    return {
      kind: "build",
      name,
      tag: `engine-room/${name}:${imageTag(name, contentHash, triton)}`,
      contentHash,
      dockerfile: source.dockerfile,
      buildArguments: imageBuildArguments(name, { triton, bases }),
    };
  });
}

/** Under which the lock file keeps an image: `services`, `trtllm-25.07`. */
export function lockKey(name: ImageName, triton: TritonBase | null): string {
  return hasRelease(name) ? `${name}-${known(triton, name).release}` : name;
}

/** Tag of a built image: `0123456789ab`, `25.07-0123456789ab`. */
export function imageTag(name: ImageName, contentHash: string, triton: TritonBase | null): string {
  const digits = contentHash.slice(0, TAG_DIGITS);
  return hasRelease(name) ? `${known(triton, name).release}-${digits}` : digits;
}

/** What `docker build` gets with `--build-arg`; empty for an official image. */
export function imageBuildArguments(
  name: ImageName,
  { triton, bases }: BaseChoice,
): Readonly<Record<string, string>> {
  const source = imageSource(name);
  if (source.kind === "official") return {};
  const own = bases[name];
  if (!source.hasRelease) return own === undefined ? {} : { BASE: own };
  const release = known(triton, name);
  return { ...source.buildArguments?.(release), BASE: own ?? source.base(release) };
}

function hasRelease(name: ImageName): boolean {
  const source = imageSource(name);
  return source.kind === "built" && source.hasRelease;
}

function known(triton: TritonBase | null, name: ImageName): TritonBase {
  if (triton === null)
    throw new Error(`The image ${name} stands on a release of Triton, and none was given.`);
  return triton;
}
