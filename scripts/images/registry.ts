/**
 * Asks registries whether they have an image: HEAD of its manifest, which no registry counts as a pull, with the credentials of
 * `docker login`. `docker manifest inspect` fails at OCI indexes and says of a refused image that it does not exist, and
 * `docker buildx imagetools` needs a plug-in that a machine without builds may lack.
 * https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#checking-if-content-exists-in-the-registry,
 * https://distribution.github.io/distribution/spec/auth/token/ and https://docs.docker.com/reference/cli/docker/login/
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { errorWords, UserError } from "../errors.ts";
import { probeProgram } from "../preflight/host-probe.ts";

export type ManifestAnswer =
  | { readonly kind: "present" }
  /** `isAnonymous`: asked without credentials, in which case some registries hide an image. */
  | { readonly kind: "missing"; readonly isAnonymous: boolean }
  | { readonly kind: "refused"; readonly isAnonymous: boolean }
  /** No registry answered. */
  | { readonly kind: "silent"; readonly words: string };

/** Whether a registry has an image, by its full reference. Never throws. */
export type AskRegistry = (reference: string) => Promise<ManifestAnswer>;

const TIMEOUT_SECONDS = 15;

const MANIFESTS = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** Hosts of Docker Hub: in references, of its API, and in Docker's configuration. */
const DOCKER_HUB = {
  host: "docker.io",
  api: "registry-1.docker.io",
  credentials: "https://index.docker.io/v1/",
} as const;

/** @param credentials - Credentials of this machine's user. */
export function askRegistry(credentials: CredentialSource): AskRegistry {
  return async (reference) => {
    try {
      return await ask(reference, credentials);
    } catch (error) {
      return { kind: "silent", words: errorWords(error) };
    }
  };
}

async function ask(reference: string, credentials: CredentialSource): Promise<ManifestAnswer> {
  const [, host = "", repository = "", tag = "latest", digest = tag] =
    /^([^/]+)\/([^:@]+)(?::([^@]+))?(?:@(.+))?$/.exec(reference) ?? [];
  const isHub = host === DOCKER_HUB.host;
  const api = isHub ? DOCKER_HUB.api : host;
  // As in Docker, TLS is optional for registries of this machine.
  const isPlain = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(api);
  const url = `${isPlain ? "http" : "https"}://${api}/v2/${repository}/manifests/${digest}`;
  const first = await head(url, null);
  if (first.status !== 401) return answerOf(first.status, true);
  const credential = await credentials(isHub ? DOCKER_HUB.credentials : host);
  const isAnonymous = credential === null;
  const challenge = first.headers.get("www-authenticate") ?? "";
  const scope = `repository:${repository}:pull`;
  const authorization = await authorizationFor(challenge, { credential, scope, isPlain });
  return authorization === null
    ? { kind: "refused", isAnonymous }
    : answerOf((await head(url, authorization)).status, isAnonymous);
}

function answerOf(status: number, isAnonymous: boolean): ManifestAnswer {
  if (status === 200) return { kind: "present" };
  if (status === 404) return { kind: "missing", isAnonymous };
  if (status === 401 || status === 403) return { kind: "refused", isAnonymous };
  return { kind: "silent", words: `It answers with status ${status}.` };
}

const timeout = () => AbortSignal.timeout(TIMEOUT_SECONDS * 1000);

function head(url: string, authorization: string | null): Promise<Response> {
  const headers = { accept: MANIFESTS, ...(authorization === null ? {} : { authorization }) };
  return fetch(url, { method: "HEAD", headers, signal: timeout() });
}

interface TokenRequest {
  readonly credential: Credential | null;
  /** If the registry's challenge names none. */
  readonly scope: string;
  /** Whether the registry itself is asked without TLS. */
  readonly isPlain: boolean;
}

/** Returns the authorization for a registry's challenge; null if these credentials get none. */
async function authorizationFor(
  challenge: string,
  { credential, scope, isPlain }: TokenRequest,
): Promise<string | null> {
  const bearer = /\bBearer\s+(.*)$/i.exec(challenge)?.[1];
  if (bearer === undefined) return basic(credential);
  const parts = new Map([...bearer.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value]));
  const realm = new URL(parts.get("realm") ?? "");
  if (realm.protocol !== "https:" && !isPlain)
    throw new Error(`It requires credentials to be sent to ${realm.origin}, without TLS`);
  const parameters = new URLSearchParams({
    service: parts.get("service") ?? "",
    scope: parts.get("scope") ?? scope,
  });
  const response = await tokenResponse(realm, parameters, credential);
  if (!response.ok) return null;
  const answer = (await response.json()) as { token?: string; access_token?: string };
  const token = answer.token ?? answer.access_token;
  return token === undefined ? null : `Bearer ${token}`;
}

function basic(credential: Credential | null): string | null {
  return credential?.kind === "password" ? `Basic ${credential.auth}` : null;
}

function tokenResponse(
  realm: URL,
  parameters: URLSearchParams,
  credential: Credential | null,
): Promise<Response> {
  if (credential?.kind === "identityToken") {
    parameters.set("grant_type", "refresh_token");
    parameters.set("client_id", "engine-room");
    parameters.set("refresh_token", credential.token);
    return fetch(realm, { method: "POST", body: parameters, redirect: "error", signal: timeout() });
  }
  for (const [key, value] of parameters) realm.searchParams.set(key, value);
  const authorization = basic(credential);
  return fetch(realm, { headers: authorization === null ? {} : { authorization }, signal: timeout() });
}

/** Credentials for a registry. They stay in memory, and are never printed. */
export type Credential =
  /** `auth`: `user:password` in base64. */
  | { readonly kind: "password"; readonly auth: string }
  /** A refresh token of OAuth2, which only the registry's own token server accepts. */
  | { readonly kind: "identityToken"; readonly token: string };

/** The credentials of a registry, by its key in Docker's configuration; null without credentials. */
export type CredentialSource = (registry: string) => Promise<Credential | null>;

/** The parts of config.json that decide the login, and the folders of plug-ins. */
interface DockerConfig {
  readonly auths?: Readonly<Record<string, { readonly auth?: string; readonly identitytoken?: string }>>;
  readonly credHelpers?: Readonly<Record<string, string>>;
  readonly credsStore?: string;
  readonly cliPluginsExtraDirs?: readonly string[];
}

function dockerFolder(): string {
  return process.env.DOCKER_CONFIG ?? join(homedir(), ".docker");
}

/** {} if it is missing or empty, as for Docker. @throws UserError if it can't be read. */
function readConfig(folder: string): DockerConfig {
  const file = join(folder, "config.json");
  try {
    const text = readFileSync(file, "utf8");
    return text.trim() === "" ? {} : (JSON.parse(text) as DockerConfig);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw new UserError(`Docker's configuration ${file} can't be read: ${errorWords(error)}`);
  }
}

/** Without a login if the file can't be read. */
function lenientConfig(folder: string): DockerConfig {
  try {
    return readConfig(folder);
  } catch {
    return {};
  }
}

/**
 * Configuration in DOCKER_CONFIG or ~/.docker; helpers run as the Docker CLI runs them, and a failing helper has no
 * credentials.
 *
 * @param folder - @default that of the environment
 */
export function dockerCredentials(folder: string = dockerFolder()): CredentialSource {
  let config: DockerConfig | undefined;
  return async (registry) => {
    config ??= lenientConfig(folder);
    const helper = config.credHelpers?.[registry] ?? config.credsStore;
    const found = helper === undefined ? null : await helperCredential(helper, registry);
    if (found !== null) return found;
    const { auth = "", identitytoken: token = "" } = config.auths?.[registry] ?? {};
    if (token !== "") return { kind: "identityToken", token };
    return auth === "" ? null : { kind: "password", auth };
  };
}

/** User name of credential helpers for a refresh token. */
const TOKEN_USER = "<token>";

/** The registry goes to standard input, and the secret comes from standard output: neither is an argument. */
async function helperCredential(helper: string, registry: string): Promise<Credential | null> {
  // It is part of a program's name.
  if (!/^[A-Za-z0-9._-]+$/.test(helper)) return null;
  const { exitCode, stdout } = await probeProgram([`docker-credential-${helper}`, "get"], `${registry}\n`);
  if (exitCode !== 0) return null;
  try {
    const { Username: user = "", Secret: secret = "" } = JSON.parse(stdout) as Record<string, string>;
    if (secret === "") return null;
    return user === TOKEN_USER
      ? { kind: "identityToken", token: secret }
      : { kind: "password", auth: Buffer.from(`${user}:${secret}`).toString("base64") };
  } catch {
    return null;
  }
}

/**
 * The user's configuration of Docker with a further login, readable only by this user and deleted when this process
 * ends.
 *
 * @param auth - `user:password` in base64. @returns The folder, as DOCKER_CONFIG names it.
 * @throws UserError if the user's configuration can't be read: a push without its logins would fail later, or run
 *   without a login.
 */
export function temporaryDockerConfig(host: string, auth: string): string {
  const own = dockerFolder();
  const config = withLogin(readConfig(own), { own, host, auth });
  const folder = mkdtempSync(join(tmpdir(), "engine-room-docker-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "config.json"), JSON.stringify(config), { mode: 0o600 });
  return folder;
}

/** The user's configuration, with a further login for which no helper is asked. @param own - Its folder. Pure. */
export function withLogin(
  { auths = {}, credHelpers = {}, credsStore, cliPluginsExtraDirs = [], ...rest }: DockerConfig,
  { own, host, auth }: { readonly own: string; readonly host: string; readonly auth: string },
): DockerConfig {
  // Docker asks a store for every registry, and it lacks this one: it becomes the helper of its own registries.
  const known = credsStore === undefined ? [] : Object.keys(auths).map((registry) => [registry, credsStore]);
  const { [host]: _, ...helpers } = { ...Object.fromEntries(known), ...credHelpers };
  return {
    ...rest,
    auths: { ...auths, [host]: { auth } },
    credHelpers: helpers,
    cliPluginsExtraDirs: [...cliPluginsExtraDirs, join(own, "cli-plugins")],
  };
}
