/** Images of a stack: what each is made from, and by which reference or tag a stack runs it. Pure: hashes and lock file are given. */
import { isReleaseTag, releases } from "../catalogue/releases.ts";
import type { Release } from "../catalogue/types.ts";
import { jsonDigest, shortKey } from "../plain-data.ts";
import { type Requirement, releaseRequirements, requirementLines } from "./python-packages.ts";

/** Images by use; `mongo` and `qdrant` are the databases' own. */
export type ImageName = "services" | "cpu-models" | "trtllm" | "encoders" | "mongo" | "qdrant";

interface NamedImage {
  readonly name: ImageName;
  /** `registry/repository@sha256:…`, or `engine-room/services:<hash12>` of an image that is built. */
  readonly reference: string;
}

/** A published image: its digest is in images.lock.json, or its publisher does not move its tag. */
interface LockedImage extends NamedImage {
  readonly kind: "locked";
}

/** An image that the stack's own host builds, because the lock file lacks its content. */
export interface BuiltImage extends NamedImage {
  readonly kind: "build";
  /** Hash of all files that the build reads and of its arguments: 64 hexadecimal digits. */
  readonly contentHash: string;
  /** Relative to the project's root, which is the context. */
  readonly dockerfile: string;
  readonly buildArguments: Readonly<Record<string, string>>;
}

export type DockerImage = LockedImage | BuiltImage;

/** NVIDIA's image that builds engines and serves them, with the release that its parts are of. */
interface TritonBase {
  /** Tag of the catalogue: `25.07`. */
  readonly release: string;
  /** Own image of the stack file. */
  readonly image?: string | undefined;
  /** Python packages of the models' own files. @default none */
  readonly requirements?: readonly Requirement[];
}

/** Bases of a stack's images. */
export interface BaseChoice {
  /** null for a stack without NVIDIA's images. */
  readonly triton: TritonBase | null;
  /** References of the stack file that replace the usual bases, by image. */
  readonly bases: Readonly<Partial<Record<ImageName, string | undefined>>>;
}

/** An image that this project builds. */
interface BuiltSource {
  readonly kind: "built";
  /** Relative to the project's root. */
  readonly dockerfile: string;
  /** Files and folders that the Dockerfile copies, relative to the project's root. */
  readonly paths: readonly string[];
  /** Whether its base is NVIDIA's image of a release: one image for each release. */
  readonly hasRelease: boolean;
  /** The image that `FROM` names unless the stack file says otherwise: the Dockerfile's default, or one of the release. */
  base(triton: TritonBase): string;
  /** Further arguments of `docker build`, by name. @default none */
  buildArguments?(triton: TritonBase): Readonly<Record<string, string>>;
  /** The base, unpacked, in GB (10^9); null for a release whose size no document names. */
  baseGB(triton: TritonBase): number | null;
  /** Size on top of the base, in GB (10^9): measured, as `npm test docker` prints it. */
  readonly ownGB: number;
}

/** An image of another publisher, taken as it is. */
interface OfficialSource {
  readonly kind: "official";
  /** With a tag that its publisher does not move to another version. */
  readonly reference: string;
  /** Unpacked, in GB (10^9). */
  readonly sizeGB: number;
}

/** An image with every backend of Triton but TensorRT-LLM's. 24.06-py3 has 15.5 GB unpacked; an assumption for the others. */
const TRITON_PY3_GB = 16;

const REGISTRY = "nvcr.io/nvidia/tritonserver";

export const imageSources: Readonly<Record<ImageName, BuiltSource | OfficialSource>> = {
  services: {
    kind: "built",
    dockerfile: "containers/services/Dockerfile",
    paths: [
      ".npmrc",
      "containers/services/entrypoint.ts",
      "containers/services/gateway/package.json",
      "containers/services/gateway/public",
      "containers/services/gateway/src",
      "containers/services/mock-mongo/package.json",
      "containers/services/mock-mongo/src",
      "containers/services/mock-vector/package.json",
      "containers/services/mock-vector/src",
      "containers/services/service-process/package.json",
      "containers/services/service-process/src",
      "containers/services/triton-requests/package.json",
      "containers/services/triton-requests/src",
      "package-lock.json",
      "package.json",
    ],
    hasRelease: false,
    base: () => "node:24-slim",
    baseGB: () => 0.2,
    ownGB: 0.09,
  },
  "cpu-models": {
    kind: "built",
    dockerfile: "containers/cpu-models/Dockerfile",
    paths: [
      "containers/cpu-models/default-artifacts.json",
      "containers/cpu-models/models",
      "containers/cpu-models/requirements.lock",
      "containers/python/engine_room/cpu_models",
      "containers/python/engine_room/shared",
      "containers/python/engine_room/triton_entrypoint",
    ],
    hasRelease: false,
    base: () => "debian:12-slim",
    baseGB: () => 0.1,
    ownGB: 0.85,
  },
  trtllm: {
    kind: "built",
    dockerfile: "containers/trtllm/Dockerfile",
    paths: [
      "containers/cpu-models/models/encoders/image_address.py",
      "containers/cpu-models/models/encoders/image_input.py",
      "containers/cpu-models/models/encoders/llmapi_pictures.py",
      "containers/cpu-models/models/encoders/picture_preprocessing.py",
      "containers/cpu-models/models/encoders/several_pictures.py",
      "containers/python/engine_room/engine_builder",
      "containers/python/engine_room/shared",
      "containers/python/engine_room/triton_entrypoint",
      "containers/trtllm/golden",
      "containers/trtllm/patches",
    ],
    hasRelease: true,
    base: ({ release, image }) => image ?? `${REGISTRY}:${release}-trtllm-python-py3`,
    buildArguments: ({ release, requirements = [] }) => {
      const row: Partial<Release> = isReleaseTag(release) ? releases[release] : {};
      const { backendCommit } = row;
      const packages = requirementLines([...releaseRequirements(row), ...requirements]);
      return {
        ...(backendCommit === undefined ? {} : { BACKEND_COMMIT: backendCommit }),
        ...(packages.length === 0 ? {} : { PYTHON_UPGRADES: packages.join("\n") }),
      };
    },
    baseGB: ({ release }) => (isReleaseTag(release) ? releases[release].imageGB : null),
    // Without the backend's files of releases before 25.01, which are not measured.
    ownGB: 0.001,
  },
  encoders: {
    kind: "built",
    dockerfile: "containers/encoders/Dockerfile",
    paths: [
      "containers/cpu-models/models/encoders",
      "containers/encoders/requirements.lock",
      "containers/python/engine_room/cpu_models",
      "containers/python/engine_room/encoder_builder",
      "containers/python/engine_room/shared",
      "containers/python/engine_room/triton_entrypoint",
    ],
    hasRelease: true,
    base: ({ release }) => `${REGISTRY}:${release}-py3`,
    baseGB: () => TRITON_PY3_GB,
    ownGB: 0.3,
  },
  mongo: { kind: "official", reference: "docker.io/library/mongo:8.0.26", sizeGB: 0.9 },
  // The version whose client the mock is tested with.
  qdrant: { kind: "official", reference: "docker.io/qdrant/qdrant:v1.17.1-unprivileged", sizeGB: 0.3 },
};

/** In the order of the table. */
export const IMAGE_NAMES = Object.keys(imageSources) as readonly ImageName[];

/** images.lock.json: images that were pushed, by {@link lockKey}. */
export interface ImageLock {
  readonly version: 1;
  readonly images: Readonly<Record<string, LockEntry>>;
}

export interface LockEntry {
  /** Hash of all sources of the image: 64 hexadecimal digits. */
  readonly contentHash: string;
  /** `registry/repository@sha256:…`. */
  readonly reference: string;
}

export interface ImageOptions extends BaseChoice {
  readonly lock: ImageLock;
  /** By image, of at least those that are needed: 64 hexadecimal digits each. */
  readonly contentHashes: Readonly<Partial<Record<ImageName, string>>>;
}

/**
 * Each image by its digest, if the lock file has one of the same content; else to be built on the stack's own host.
 * Official images without a digest are taken by their tag.
 *
 * @returns In the order of `needed`.
 * @throws Error if a content hash, or the release that is the base of an image, was not given.
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
    const source = imageSources[name];
    if (source.kind === "official") return { kind: "locked", name, reference: source.reference };
    return {
      kind: "build",
      name,
      reference: `engine-room/${name}:${imageTag(name, contentHash, triton)}`,
      contentHash,
      dockerfile: source.dockerfile,
      buildArguments: imageBuildArguments(name, { triton, bases }),
    };
  });
}

/** Key of an image in the lock file: `services`, `trtllm-25.07`, and with packages of the models' own files `trtllm-25.07-0123456789ab`. */
export function lockKey(name: ImageName, triton: TritonBase | null): string {
  const base = releaseBase(name, triton);
  if (base === null) return name;
  const packages = name === "trtllm" ? requirementLines(base.requirements ?? []) : [];
  const own = packages.length === 0 ? "" : `-${shortKey(jsonDigest(packages))}`;
  return `${name}-${base.release}${own}`;
}

/** Tag of a built image: `0123456789ab`, `25.07-0123456789ab`. No two contents of one project meet in 12 digits. */
export function imageTag(name: ImageName, contentHash: string, triton: TritonBase | null): string {
  const base = releaseBase(name, triton);
  const digits = contentHash.slice(0, 12);
  return base === null ? digits : `${base.release}-${digits}`;
}

/** Arguments of `docker build --build-arg`; empty for an official image. */
export function imageBuildArguments(
  name: ImageName,
  { triton, bases }: BaseChoice,
): Readonly<Record<string, string>> {
  const source = imageSources[name];
  if (source.kind === "official") return {};
  const own = bases[name];
  const base = releaseBase(name, triton);
  if (base === null) return own === undefined ? {} : { BASE: own };
  return { ...source.buildArguments?.(base), BASE: own ?? source.base(base) };
}

/** null for an image that does not depend on a release. */
function releaseBase(name: ImageName, triton: TritonBase | null): TritonBase | null {
  const source = imageSources[name];
  if (source.kind === "official" || !source.hasRelease) return null;
  if (triton === null)
    throw new Error(`The image ${name} is based on a release of Triton, and no release was given.`);
  return triton;
}
