/**
 * One container of a stack, on Docker, Compose on an EC2 instance, or Kubernetes. Platforms add ports of the host, volumes,
 * placement, requests for resources and labels. Pure data.
 */

import type { SecretName } from "../docker/host.ts";
import type { ImageName } from "../docker/images.ts";
import { sortedByKey } from "../plain-data.ts";

/** User of builders, servers and gateway in every image of this project; Node's images call it `node`. */
export const IMAGE_USER_ID = 1000;

export type ContainerRole =
  | "engineBuild"
  | "encoderBuild"
  | "triton"
  | "encoders"
  | "gateway"
  | "mongo"
  | "vector";

/**
 * A folder that is not part of the image.
 *
 * - `store`: weights and engines. Only builds write.
 * - `scratch`: checkpoints and downloads of builds.
 * - `repository`: model repository, made at each start. `cache`: models that the image of the CPU tier lacks.
 * - `engineCopy`: copy of the engine on the machine's disk.
 * - `data`: documents of a database.
 * - `weights`: folder of the host with weights that the user keeps, at the same path.
 *
 * Only `store`, `data` and `weights` outlive the container. The others need a volume if the root is read-only.
 */
export interface ContainerMount {
  readonly purpose: "store" | "scratch" | "repository" | "cache" | "engineCopy" | "data" | "weights";
  /** Absolute. */
  readonly path: string;
  readonly readOnly: boolean;
}

/** Asks the container whether it works. */
export type ContainerCheck =
  | { readonly kind: "http"; readonly path: string; readonly port: number }
  /** Program with arguments, without a shell: exit code 0 is success. */
  | { readonly kind: "exec"; readonly command: readonly string[] };

export interface Container {
  readonly role: ContainerRole;
  /** Name of the model in the stack that it builds or serves; null for the others. */
  readonly model: string | null;
  /** Content address of the files that it builds or serves, 64 hexadecimal digits; null for the others. */
  readonly key: string | null;
  /**
   * Name in the stack's network: `llava`, `encoders`, `gateway`, `mongo`, `vector`; of a build `<catalogue model>-<key12>` or
   * `encoders-<key12>`. Catalogue names may have dots.
   */
  readonly name: string;
  readonly image: ImageName;
  /** Also the entry point of the image; null if Docker needs none. */
  readonly entrypoint: readonly string[] | null;
  readonly arguments: readonly string[];
  /** Sorted. */
  readonly environment: Readonly<Record<string, string>>;
  /** Texts by absolute path. No secret is among them. */
  readonly files: Readonly<Record<string, string>>;
  /** Files by absolute path that hold one secret and nothing else. */
  readonly secretFiles: Readonly<Record<string, SecretName>>;
  readonly mounts: readonly ContainerMount[];
  /** By name: `http`, `grpc`, `metrics`, `mongo`. */
  readonly ports: Readonly<Record<string, number>>;
  /** Success: requests may be sent. null for tasks. */
  readonly readiness: ContainerCheck | null;
  /** Failure: the container is started again; null: its process ends by itself when it can't work. */
  readonly liveness: ContainerCheck | null;
  /** How long a service may take until it is ready; null for tasks. */
  readonly startSeconds: number | null;
  /** From the signal to end until it is killed. */
  readonly stopSeconds: number;
  /** How long a task may take; null for services. */
  readonly timeoutSeconds: number | null;
  /** Size of `/dev/shm`; null: the runtime's own, 64 MiB. */
  readonly sharedMemoryBytes: number | null;
  /** User that has to be named because the image starts as root; null: the image's own. */
  readonly user: string | null;
  /** Number of the user that it runs as, to whom its data belong. */
  readonly userId: number;
  /** Whether it works with a root that is read-only wherever it runs; a cluster makes all roots read-only. */
  readonly readOnlyRoot: boolean;
  /** Number of GPUs. */
  readonly gpus: number;
}

/** A container that runs once, before the servers that load its result. */
export interface BuildContainer extends Container {
  /** Names of the models that need its result; none for the encoders. */
  readonly models: readonly string[];
  readonly timeoutSeconds: number;
}

/** Where platforms differ. */
export interface ContainerSettings {
  /** Path of the model hub's token in builds; null: no model needs one. */
  readonly hubTokenFile: string | null;
  /** Path of the gateway's hashes of API keys; null: its configuration has them. */
  readonly apiKeysFile: string | null;
  /** HOME of Python programs; null: the image's own. */
  readonly home: string | null;
  /**
   * Whether a server that ends still answers all requests that the gateway waits for, because another server takes its place
   * meanwhile; else its program's own limit of 20 or 30 s holds.
   */
  readonly answersBeforeEnd: boolean;
  /** Names of models whose servers copy their engine to the machine's disk. */
  readonly copiedEngines: readonly string[];
}

export type ContainerOptions = Partial<Container> &
  Pick<Container, "role" | "name" | "image" | "stopSeconds">;

/** Fills in what few containers have. */
export function container(options: ContainerOptions): Container {
  return {
    model: null,
    key: null,
    entrypoint: null,
    arguments: [],
    files: {},
    secretFiles: {},
    mounts: [],
    ports: {},
    readiness: null,
    liveness: null,
    startSeconds: null,
    timeoutSeconds: null,
    sharedMemoryBytes: null,
    user: null,
    userId: IMAGE_USER_ID,
    readOnlyRoot: false,
    gpus: 0,
    ...options,
    environment: sortedByKey(options.environment ?? {}),
  };
}

/** Whether a container runs once; the others run until they are removed. */
export function isTask({ timeoutSeconds }: Container): boolean {
  return timeoutSeconds !== null;
}
