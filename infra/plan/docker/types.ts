/**
 * What one Docker host runs, as data: the components of components/docker register it, and the tests turn it back into
 * `docker run` lines. Pure, as all of the plan.
 */
import type { Endpoints } from "../endpoints.ts";

/** Images by what they are for; `mongo` and `qdrant` are the databases' own. */
export const IMAGE_NAMES = ["services", "cpu-models", "trtllm", "encoders", "mongo", "qdrant"] as const;
export type ImageName = (typeof IMAGE_NAMES)[number];

/** An image that is there: its digest is in images.lock.json. */
export interface LockedImage {
  readonly kind: "locked";
  readonly name: ImageName;
  /** `registry/repository@sha256:…`. */
  readonly reference: string;
}

/** An image that the stack's own host builds, because the lock file has none of this content. */
export interface BuiltImage {
  readonly kind: "build";
  readonly name: ImageName;
  /** `engine-room/services:<hash12>`. */
  readonly tag: string;
  /** Of all files that the build reads and of its arguments: 64 hexadecimal digits. */
  readonly contentHash: string;
  /** Relative to the project's root, which is the context. */
  readonly dockerfile: string;
  readonly buildArguments: Readonly<Record<string, string>>;
}

export type DockerImage = LockedImage | BuiltImage;

/**
 * Secrets of a stack, by the path of the stack file that holds each. No plan has their values: a container names them, and
 * the platform writes them into its files.
 */
export const SECRET_PATHS = {
  hubToken: "hub.token",
  mongoUri: "externalDatabases.mongo.uri",
  vectorApiKey: "externalDatabases.vector.apiKey",
} as const;
export type SecretName = keyof typeof SECRET_PATHS;

/** What Docker keeps of the output of each container. */
export const LOG_LIMITS = { driver: "json-file", files: 3, fileMiB: 10 } as const;

/** Data that outlive containers. */
export interface DockerVolume {
  /** Name of the volume on the host. */
  readonly name: string;
  readonly purpose: "store" | "mongo" | "vector" | "scratch";
  /** Sorted. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whether `down` leaves it: weights and engines take hours to make, documents can't be made again. */
  readonly isKept: boolean;
  /** Number of the user and the group whose data they are; null: as the image has the folder. */
  readonly userId: number | null;
}

/** A volume by name, or a folder of the host by absolute path, at a path of the container. */
export interface DockerMount {
  readonly source: { readonly volume: string } | { readonly hostPath: string };
  readonly path: string;
  readonly readOnly: boolean;
}

export interface DockerPort {
  readonly containerPort: number;
  readonly hostPort: number;
  /** Address of the host that it is bound to; `127.0.0.1` unless the stack says otherwise. */
  readonly hostAddress: string;
}

export interface DockerHealth {
  /** Program and arguments, run in the container without a shell; exit code 0 means healthy. */
  readonly test: readonly string[];
  readonly intervalSeconds: number;
  readonly timeoutSeconds: number;
  readonly retries: number;
  /** Failures within it do not count: models are loading. */
  readonly startPeriodSeconds: number;
}

export type ContainerRole =
  | "engineBuild"
  | "encoderBuild"
  | "triton"
  | "encoders"
  | "gateway"
  | "mongo"
  | "vector";

/** One container, with the options of `docker run`. */
export interface DockerContainer {
  /** On the host: `<stack>-llava`; of a build `<stack>-<model>-<key12>`, which a new key makes another one. */
  readonly name: string;
  readonly role: ContainerRole;
  /** Model of the stack that it builds or serves; null for the others. */
  readonly model: string | null;
  readonly image: ImageName;
  /** null: the image's own. */
  readonly entrypoint: readonly string[] | null;
  readonly command: readonly string[];
  /** Sorted. */
  readonly environment: Readonly<Record<string, string>>;
  /** Files by absolute path, written before it starts. No secret is among them. */
  readonly files: Readonly<Record<string, string>>;
  /** Files by absolute path that hold a secret and nothing else. */
  readonly secretFiles: Readonly<Record<string, SecretName>>;
  readonly mounts: readonly DockerMount[];
  /** Numbers as `nvidia-smi` has them; null: none. */
  readonly gpus: "all" | readonly number[] | null;
  readonly ipc: "private" | "host";
  /** `/dev/shm`; null: Docker's 64 MiB. */
  readonly shmBytes: number | null;
  /** Soft and hard limit, -1 for none, by name of the resource: `memlock`, `stack`. */
  readonly ulimits: Readonly<Record<string, number>>;
  /** Name by which the other containers of the stack's network reach it. */
  readonly networkAlias: string;
  readonly ports: readonly DockerPort[];
  readonly health: DockerHealth | null;
  /** `task`: runs once, and `up` waits for exit code 0. `service`: runs until it is removed. */
  readonly lifecycle: "task" | "service";
  /** How long a task may take. */
  readonly timeoutSeconds: number | null;
  readonly stopTimeoutSeconds: number;
  /** null: the image's own, which is not root. */
  readonly user: string | null;
  /** Only where no file is written into it: Docker copies none into a container whose root is read-only. */
  readonly readOnlyRoot: boolean;
  /** Writable folders in memory, by path with their size. */
  readonly tmpfsBytes: Readonly<Record<string, number>>;
  readonly memoryMiB: number | null;
  /** Sorted. */
  readonly labels: Readonly<Record<string, string>>;
  /** Names of tasks that must have ended, or services that must have been started, before. */
  readonly after: readonly string[];
}

/** Everything on the host. */
export interface DockerStack {
  /** Network of the stack's containers. */
  readonly network: string;
  /** Of network and images, sorted. */
  readonly labels: Readonly<Record<string, string>>;
  readonly volumes: readonly DockerVolume[];
  readonly images: readonly DockerImage[];
  /** Builds first; a container stands behind all that it comes after. */
  readonly containers: readonly DockerContainer[];
  readonly endpoints: Endpoints;
  /** What users have to know, as in the outputs. */
  readonly notes: readonly string[];
}
