/** What each image is made from, and how much room it takes. */
import { isReleaseTag, releases } from "../catalogue/releases.ts";
import type { ImageName } from "./types.ts";

/** NVIDIA's image that builds engines and serves them, with the release that its parts are of. */
export interface TritonBase {
  /** Tag of the catalogue: `25.07`. */
  readonly release: string;
  /** Of the stack file, where it has an image of its own. */
  readonly image?: string | undefined;
}

/** What images stand on. */
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
  /** What is laid on it, in GB (10^9): measured, as `npm run test:docker` prints it. */
  readonly ownGB: number;
}

/** Somebody else's image, taken as it is. */
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

const IMAGE_SOURCES = {
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
      "containers/cpu-models/engine_room_models",
      "containers/cpu-models/models",
      "containers/cpu-models/requirements.lock",
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
      "containers/container-program/container_program",
      "containers/container-program/requirements.lock",
      "containers/trtllm/engine_builder",
      "containers/trtllm/golden",
      "containers/trtllm/patches",
      "containers/trtllm/triton_entrypoint",
    ],
    hasRelease: true,
    base: ({ release, image }) => image ?? `${REGISTRY}:${release}-trtllm-python-py3`,
    buildArguments: ({ release }) => {
      const commit = isReleaseTag(release) ? releases[release].backendCommit : undefined;
      return commit === undefined ? {} : { BACKEND_COMMIT: commit };
    },
    baseGB: ({ release }) => (isReleaseTag(release) ? releases[release].imageGB : null),
    // Without the backend's files of releases before 25.01, which are not measured.
    ownGB: 0.001,
  },
  encoders: {
    kind: "built",
    dockerfile: "containers/encoders/Dockerfile",
    paths: [
      "containers/container-program/container_program",
      "containers/container-program/requirements.lock",
      "containers/cpu-models/engine_room_models",
      "containers/cpu-models/models/encoders",
      "containers/encoders/encoder_builder",
      "containers/encoders/requirements.lock",
      "containers/trtllm/triton_entrypoint",
    ],
    hasRelease: true,
    base: ({ release }) => `${REGISTRY}:${release}-py3`,
    baseGB: () => TRITON_PY3_GB,
    ownGB: 0.3,
  },
  mongo: { kind: "official", reference: "docker.io/library/mongo:8.0.26", sizeGB: 0.9 },
  // The version whose client the mock is tested with.
  qdrant: { kind: "official", reference: "docker.io/qdrant/qdrant:v1.17.1-unprivileged", sizeGB: 0.3 },
} as const satisfies Readonly<Record<ImageName, BuiltSource | OfficialSource>>;

/** A row of the table. */
export function imageSource(name: ImageName): BuiltSource | OfficialSource {
  return IMAGE_SOURCES[name];
}
