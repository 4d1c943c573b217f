/** Credentials that `docker login` left on this machine: https://docs.docker.com/reference/cli/docker/login/ */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { probeProgram } from "../preflight/host-probe.ts";

/** What a registry is asked with. It stays in memory, and is never printed. */
export type Credential =
  | { readonly kind: "password"; readonly user: string; readonly password: string }
  /** A refresh token of OAuth2, which only the registry's own server of tokens takes. */
  | { readonly kind: "identityToken"; readonly token: string };

/** The credentials of a registry, by its key in Docker's configuration; null: none, and it is asked as anybody. */
export type CredentialSource = (registry: string) => Promise<Credential | null>;

/** The part of config.json that is read. */
interface DockerConfig {
  readonly auths?: Readonly<Record<string, { readonly auth?: string; readonly identitytoken?: string }>>;
  readonly credHelpers?: Readonly<Record<string, string>>;
  readonly credsStore?: string;
}

/** User that credential helpers give for a refresh token. */
const TOKEN_USER = "<token>";

/**
 * Of DOCKER_CONFIG or ~/.docker; helpers run as the Docker CLI runs them, and one that fails is as one that has none.
 *
 * @param folder - @default that of the environment
 */
export function dockerCredentials(
  folder: string = process.env.DOCKER_CONFIG ?? join(homedir(), ".docker"),
): CredentialSource {
  let config: DockerConfig | undefined;
  return async (registry) => {
    config ??= readConfig(join(folder, "config.json"));
    const helper = config.credHelpers?.[registry] ?? config.credsStore;
    if (helper !== undefined) {
      const found = await helperCredential(helper, registry);
      if (found !== null) return found;
    }
    const entry = config.auths?.[registry];
    if (entry?.identitytoken !== undefined && entry.identitytoken !== "")
      return { kind: "identityToken", token: entry.identitytoken };
    return passwordOf(entry?.auth);
  };
}

function readConfig(file: string): DockerConfig {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as DockerConfig;
  } catch {
    // Nobody logged in, or not so that it could be read.
    return {};
  }
}

/** `user:password` in base64. */
function passwordOf(auth: string | undefined): Credential | null {
  const text = Buffer.from(auth ?? "", "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 1) return null;
  return { kind: "password", user: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** The registry goes to standard input, and the secret comes from standard output: neither is an argument. */
async function helperCredential(helper: string, registry: string): Promise<Credential | null> {
  // It is part of a program's name.
  if (!/^[A-Za-z0-9._-]+$/.test(helper)) return null;
  const { exitCode, stdout } = await probeProgram([`docker-credential-${helper}`, "get"], `${registry}\n`);
  if (exitCode !== 0) return null;
  try {
    const { Username = "", Secret = "" } = JSON.parse(stdout) as {
      readonly Username?: string;
      readonly Secret?: string;
    };
    if (Secret === "") return null;
    return Username === TOKEN_USER
      ? { kind: "identityToken", token: Secret }
      : { kind: "password", user: Username, password: Secret };
  } catch {
    return null;
  }
}
