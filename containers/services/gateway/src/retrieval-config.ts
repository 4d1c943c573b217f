/** The part of the configuration that retrieval reads: databases, images, limits. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { DEFAULT_MAX_TOP_K, DEFAULT_TOP_K } from "./config-problems.ts";
import { imageHostProblem } from "./images/image-hosts.ts";
import { DEFAULT_IMAGE_LIMITS } from "./images/limits.ts";

/** Wins over `databases.mongo.uri` and `uriFile`: the place for an address with a password where no file can be had. */
const MONGO_URI_VARIABLE = "ENGINE_ROOM_MONGO_URI";

/** Most matches that any gateway gives: more would not fit into one answer of a reasonable size. */
const MOST_MATCHES = 1000;

/** An HTTP address of a server behind the gateway. */
export const httpOrigin = z
  .string()
  .refine(
    (text) => /^https?:\/\/[^/?#@]+\/?$/.test(text) && URL.canParse(text),
    "must be http://HOST:PORT or https://HOST:PORT, without path, query and password",
  )
  .transform((text) => new URL(text).origin);

const mongoUri = z
  .string()
  .regex(/^mongodb(\+srv)?:\/\/[^/]/, "must begin with mongodb:// or mongodb+srv:// and a host")
  .refine(
    (text) => !/^[^/]*\/\/[^/?#]*@/.test(text),
    `holds a user or password: put the address into a file and name it in uriFile, or into ${MONGO_URI_VARIABLE}`,
  );

const secretFile = z.string().min(1);

export const databasesSchema = z.strictObject({
  mongo: z.strictObject({
    /** Address without user and password. */
    uri: mongoUri.optional(),
    /** File that holds the address and nothing else. */
    uriFile: secretFile.optional(),
    database: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,63}$/, "must be 1 to 63 letters, digits and _ -")
      .default("engine_room"),
  }),
  vector: z.strictObject({
    /** HTTP address of a Qdrant. */
    url: httpOrigin,
    /** File that holds its API key and nothing else. Absent: it has none. */
    apiKeyFile: secretFile.optional(),
    collection: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,200}$/, "must be 1 to 200 letters, digits and _ -")
      .default("documents"),
  }),
});

/** Hosts from which images may be fetched: `example.org`, `*.example.org`, `example.org:8443`. */
export const imageHostsSchema = z.array(
  z.string().superRefine((entry, context) => {
    const message = imageHostProblem(entry);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  }),
);

export const imagesSchema = z.strictObject({
  /** Largest image file. */
  maxBytes: z
    .int()
    .min(1024)
    .max(2 ** 28)
    .default(DEFAULT_IMAGE_LIMITS.bytes),
  /** Most pixels of an image, width × height, known before it is decoded. */
  maxPixels: z.int().min(1).max(400_000_000).default(DEFAULT_IMAGE_LIMITS.pixels),
  /** Longest side of an image, in pixels. */
  maxSide: z.int().min(1).max(65_500).default(DEFAULT_IMAGE_LIMITS.sidePixels),
  /** Longest side of the JPEG that is kept and embedded, in pixels; larger images are scaled down to it. */
  storedSide: z.int().min(64).max(8192).default(DEFAULT_IMAGE_LIMITS.storedSidePixels),
});

export const retrievalSchema = z.strictObject({
  /** Id of the language model of /v1/answer. Absent: the first model that chats. */
  answerModel: z.string().min(1).optional(),
  /** Matches of a request that does not say how many. */
  topK: z.int().min(1).max(MOST_MATCHES).default(DEFAULT_TOP_K),
  /** Matches that a request may ask for. */
  maxTopK: z.int().min(1).max(MOST_MATCHES).default(DEFAULT_MAX_TOP_K),
  /** Documents that the language model is given at most. */
  contextDocuments: z.int().min(1).max(100).default(3),
});

export type DatabasesConfig = z.infer<typeof databasesSchema>;

/** What the databases are opened with, files read. */
export interface DatabaseSecrets {
  readonly mongoUri: string;
  readonly vectorApiKey: string | undefined;
}

/**
 * Reads addresses and keys from where the configuration says they are.
 * @throws Error with one sentence for people when a file can't be read, or there is no address at all.
 */
export function readDatabaseSecrets(
  { mongo, vector }: DatabasesConfig,
  environment: Readonly<Record<string, string | undefined>>,
): DatabaseSecrets {
  const { [MONGO_URI_VARIABLE]: fromEnvironment } = environment;
  const mongoUri =
    fromEnvironment ||
    (mongo.uriFile === undefined ? mongo.uri : readSecret(mongo.uriFile, "databases.mongo.uriFile"));
  if (mongoUri === undefined) {
    throw new Error(
      `databases.mongo has no address: add uri or uriFile to the configuration, or set ${MONGO_URI_VARIABLE}`,
    );
  }
  return {
    mongoUri,
    vectorApiKey:
      vector.apiKeyFile === undefined
        ? undefined
        : readSecret(vector.apiKeyFile, "databases.vector.apiKeyFile"),
  };
}

function readSecret(file: string, key: string): string {
  let secret: string;
  try {
    secret = readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new Error(
      `${key} = ${file} can't be read (${(error as NodeJS.ErrnoException).code}); correct the path or its rights`,
    );
  }
  if (secret === "") throw new Error(`${key} = ${file} is empty; write the secret into it`);
  return secret;
}
