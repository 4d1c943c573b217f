/** Reads the configuration and the files that it names, and says what is wrong with them. No secret is in a message. */
import { readFileSync } from "node:fs";
import { StartError } from "@engine-room/service-process";
import type { z } from "zod";
import { type DatabasesConfig, type GatewayConfig, gatewayConfigSchema } from "./config.ts";
import { dotPath } from "./errors.ts";

/**
 * Reads and checks a configuration file. In place of `apiKeys` it may have `apiKeysFile`, the path of a JSON file with
 * nothing but that list, so that the hashes can be kept apart.
 *
 * @throws StartError with every problem: path, value, reason and fix.
 */
export function loadConfig(file: string): GatewayConfig {
  const values = readJson(file, "give the configuration with --config FILE.json");
  if (typeof values !== "object" || values === null || !("apiKeysFile" in values))
    return parseConfig(values, file);
  const { apiKeysFile, ...rest } = values;
  if ("apiKeys" in rest)
    throw new StartError(`${file}: apiKeys and apiKeysFile are both given; keep one of them`);
  if (typeof apiKeysFile !== "string")
    throw new StartError(`${file}: apiKeysFile is no text; write the path of a JSON file`);
  return parseConfig({ ...rest, apiKeys: readJson(apiKeysFile, "correct apiKeysFile") }, file);
}

/** The content of a file is in no message: it may be a secret. */
function readJson(file: string, fix: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new StartError(`${file} can't be read (${(error as Error).message}); ${fix}`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /at position \d+/.exec((error as Error).message)?.[0];
    const place = position === undefined ? "" : `: it can't be read on ${position}`;
    throw new StartError(`${file} is not JSON${place}; correct it`);
  }
}

/** Checks values that are already in memory. `source` names them in the message. @throws StartError */
export function parseConfig(values: unknown, source = "configuration"): GatewayConfig {
  const { data, error } = gatewayConfigSchema.safeParse(values, { error: sentence });
  if (error === undefined) return data;
  const lines = error.issues.flatMap((issue) => describe(issue, values));
  const count = lines.length === 1 ? "1 problem" : `${lines.length} problems`;
  throw new StartError(`${source}: ${count}\n${lines.map((line) => `  ${line}`).join("\n")}`);
}

/** Reason and fix of a problem for which the schema has no words of its own. */
function sentence(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined) return "is required; add it";
  switch (issue.code) {
    case "invalid_value":
      return `is not known here; use one of ${issue.values.join(", ")}`;
    case "too_small":
      return issue.inclusive === false
        ? `is too small; use more than ${issue.minimum}`
        : `is too small; use ${issue.minimum}${UNITS[issue.origin] ?? ""} or more`;
    case "too_big":
      return `is too large; use ${issue.maximum}${UNITS[issue.origin] ?? ""} or less`;
    case "invalid_type":
      return `must be ${KINDS[issue.expected] ?? `a ${issue.expected}`}`;
    default:
      return undefined;
  }
}

const UNITS: Readonly<Record<string, string>> = { string: " characters", array: " entries" };

const KINDS: Readonly<Record<string, string>> = {
  array: "a list",
  object: "an object",
  int: "a whole number",
};

/** Lines for people: path, value, reason and fix. */
function describe(issue: z.core.$ZodIssue, values: unknown): string[] {
  const { path, message } = issue;
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map(
      (key) => `${dotPath([...path, key])}: there is no such key; remove it or correct its name`,
    );
  }
  const value = path.reduce<unknown>((inner, key) => (inner as Fields | undefined)?.[key], values);
  return [`${dotPath(path) || "(file)"} = ${shown(path, value)}: ${message}`];
}

type Fields = Readonly<Record<PropertyKey, unknown>>;

const LONGEST_SHOWN_VALUE = 80;

/** Where a secret may stand by mistake, as the last name of a path: a key instead of its hash, an address with its password. */
const HIDDEN: readonly unknown[] = [undefined, "apiKeys", "sha256", "uri", "mongo", "databases"];

/** A value as JSON, cut. A secret must not reach a log. */
function shown(path: readonly PropertyKey[], value: unknown): string {
  const name = path.findLast((part) => typeof part === "string");
  if (HIDDEN.includes(name) && value !== undefined) return "[hidden]";
  const text = JSON.stringify(value) ?? "(absent)";
  return text.length > LONGEST_SHOWN_VALUE ? `${text.slice(0, LONGEST_SHOWN_VALUE)}…` : text;
}

/** What the databases are opened with, files read. */
export interface DatabaseSecrets {
  readonly mongoUri: string;
  readonly vectorApiKey: string | undefined;
}

/**
 * Reads addresses and keys from where the configuration says they are.
 * @throws StartError when a file can't be read, or there is no address at all.
 */
export function readDatabaseSecrets({ mongo, vector }: DatabasesConfig): DatabaseSecrets {
  const mongoUri =
    mongo.uriFile === undefined ? mongo.uri : readSecret(mongo.uriFile, "databases.mongo.uriFile");
  if (mongoUri === undefined)
    throw new StartError("databases.mongo has no address: add uri or uriFile to the configuration");
  const { apiKeyFile } = vector;
  return {
    mongoUri,
    vectorApiKey:
      apiKeyFile === undefined ? undefined : readSecret(apiKeyFile, "databases.vector.apiKeyFile"),
  };
}

function readSecret(file: string, key: string): string {
  let secret: string;
  try {
    secret = readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new StartError(
      `${key} = ${file} can't be read (${(error as NodeJS.ErrnoException).code}); correct the path or its rights`,
    );
  }
  if (secret === "") throw new StartError(`${key} = ${file} is empty; write the secret into it`);
  return secret;
}
