/** Images and secrets of a stack by name. */

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

/** Names of Secrets in a cluster, of secrets in Compose, and of their files. */
export const SECRET_NAMES: Readonly<Record<SecretName, string>> = {
  hubToken: "hub-token",
  mongoUri: "mongo-uri",
  vectorApiKey: "vector-api-key",
};
