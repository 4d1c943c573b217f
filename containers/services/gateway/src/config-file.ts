/** Reads and checks the configuration and the files that it names. Messages never contain secrets. */
import { readFileSync } from "node:fs";
import { StartError } from "@engine-room/service-process";
import { type DatabasesConfig, type GatewayConfig, gatewayConfigSchema } from "./config.ts";
import { checked, problemsOf } from "./schema-problems.ts";

/**
 * Reads and checks a configuration file. In place of `apiKeys` it may have `apiKeysFile`, the path of a JSON file with
 * nothing but that list, so that the hashes can be kept apart.
 *
 * @throws StartError with every problem, its place and its fix.
 */
export function loadConfig(file: string): GatewayConfig {
  const values = readJson(file, "give the configuration with --config FILE.json");
  if (typeof values !== "object" || values === null || !("apiKeysFile" in values))
    return parseConfig(values, file);
  const { apiKeysFile, ...rest } = values;
  if ("apiKeys" in rest)
    throw new StartError(`${file}: apiKeys and apiKeysFile are both given; keep one of them`);
  return parseConfig({ ...rest, apiKeys: readJson(String(apiKeysFile), "correct apiKeysFile") }, file);
}

/** Messages never show a file's content: it may be a secret. */
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
    const place = position === undefined ? "" : ` ${position}`;
    throw new StartError(`${file} is not valid JSON${place}; correct it`);
  }
}

/** Checks values that are already in memory. `source` names them in the message. @throws StartError */
export function parseConfig(values: unknown, source = "configuration"): GatewayConfig {
  const { data, error } = checked(gatewayConfigSchema, values);
  if (error === undefined) return data;
  // Without the values: any may hold a secret by mistake.
  const lines = problemsOf(error.issues).map(({ at, message }) => `  ${at || "(file)"}: ${message}`);
  const count = lines.length === 1 ? "1 problem" : `${lines.length} problems`;
  throw new StartError(`${source}: ${count}\n${lines.join("\n")}`);
}

/** The databases' secrets, from the configuration or its files. @throws StartError for an unreadable file. */
export function readDatabaseSecrets({
  mongo: { uri = "", uriFile },
  vector: { apiKeyFile },
}: DatabasesConfig) {
  return {
    mongoUri: uriFile === undefined ? uri : readSecret(uriFile, "databases.mongo.uriFile"),
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
      `${key} = ${file} can't be read (${(error as NodeJS.ErrnoException).code}); correct the path or its permissions`,
    );
  }
  if (secret === "") throw new StartError(`${key} = ${file} is empty; write the secret into it`);
  return secret;
}
