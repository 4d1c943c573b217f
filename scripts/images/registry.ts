/**
 * Asks registries whether they have an image: HEAD of its manifest, which no registry counts as a pull, with the credentials that
 * `docker login` left on this machine. `docker manifest inspect` fails at OCI indexes and says of an image that is refused that it
 * does not exist, and `docker buildx imagetools` needs a plug-in, which a machine without builds may lack.
 * https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#checking-if-content-exists-in-the-registry,
 * https://distribution.github.io/distribution/spec/auth/token/ and https://docs.docker.com/reference/cli/docker/login/
 */

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { errorWords } from "../errors.ts";
import { probeProgram } from "../preflight/host-probe.ts";

export type ManifestAnswer =
  | { readonly kind: "there" }
  /** `isAnonymous`: asked without credentials, to which some registries say this of what they hide. */
  | { readonly kind: "missing"; readonly isAnonymous: boolean }
  | { readonly kind: "refused"; readonly isAnonymous: boolean }
  /** Nobody answers, or not as a registry does. */
  | { readonly kind: "silent"; readonly words: string };

/** Whether a registry has an image, by its full reference. Never throws. */
export type AskRegistry = (reference: string) => Promise<ManifestAnswer>;

const TIMEOUT_SECONDS = 15;
/** A token is some kB. */
const MOST_TOKEN_BYTES = 1 << 20;

const MANIFESTS = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** Docker Hub has other names than the one that references have. */
const DOCKER_HUB = {
  host: "docker.io",
  api: "registry-1.docker.io",
  credentials: "https://index.docker.io/v1/",
} as const;

/** @param credentials - Of this machine's user. */
export function askRegistry(credentials: CredentialSource): AskRegistry {
  return async (reference) => {
    try {
      return await ask(parseReference(reference), credentials);
    } catch (error) {
      return { kind: "silent", words: errorWords(error) };
    }
  };
}

interface ImageReference {
  readonly host: string;
  /** Within the registry. */
  readonly repository: string;
  /** A digest, or a tag. */
  readonly version: string;
}

/** `registry/repository[:tag][@digest]`, as plans have them. */
function parseReference(reference: string): ImageReference {
  const [, host = "", repository = "", tag = "latest", digest] =
    /^([^/]+)\/([^:@]+)(?::([^@]+))?(?:@(.+))?$/.exec(reference) ?? [];
  return { host, repository, version: digest ?? tag };
}

/** As Docker does: those of this machine may do without TLS. */
function scheme(host: string): "http" | "https" {
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(host) ? "http" : "https";
}

async function ask(image: ImageReference, credentials: CredentialSource): Promise<ManifestAnswer> {
  const { host, repository, version } = image;
  const isHub = host === DOCKER_HUB.host;
  const api = isHub ? DOCKER_HUB.api : host;
  const url = `${scheme(api)}://${api}/v2/${repository}/manifests/${version}`;
  const first = await head(url, null);
  if (first.status !== 401) return answerOf(first.status, true);
  const credential = await credentials(isHub ? DOCKER_HUB.credentials : host);
  const isAnonymous = credential === null;
  const authorization = await authorizationFor(first.headers.get("www-authenticate") ?? "", {
    credential,
    scope: `repository:${repository}:pull`,
    isPlain: scheme(api) === "http",
  });
  if (authorization === null) return { kind: "refused", isAnonymous };
  return answerOf((await head(url, authorization)).status, isAnonymous);
}

function answerOf(status: number, isAnonymous: boolean): ManifestAnswer {
  if (status === 200) return { kind: "there" };
  if (status === 404) return { kind: "missing", isAnonymous };
  if (status === 401 || status === 403) return { kind: "refused", isAnonymous };
  return { kind: "silent", words: `It answers with status ${status}.` };
}

function head(url: string, authorization: string | null): Promise<Response> {
  return fetch(url, {
    method: "HEAD",
    headers: { accept: MANIFESTS, ...(authorization === null ? {} : { authorization }) },
    signal: AbortSignal.timeout(TIMEOUT_SECONDS * 1000),
  });
}

interface TokenRequest {
  readonly credential: Credential | null;
  /** Where the registry's challenge names none. */
  readonly scope: string;
  /** Whether the registry itself is asked without TLS. */
  readonly isPlain: boolean;
}

/** What a registry's challenge asks for; null where it gives nothing for these credentials. */
async function authorizationFor(challenge: string, request: TokenRequest): Promise<string | null> {
  const { credential, isPlain } = request;
  const bearer = /\bBearer\s+(.*)$/i.exec(challenge)?.[1];
  if (bearer === undefined) return basic(credential);
  const parts = new Map([...bearer.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value]));
  const realm = new URL(parts.get("realm") ?? "");
  if (realm.protocol !== "https:" && !isPlain)
    throw new Error(`It wants credentials sent to ${realm.origin}, without TLS`);
  const response = await tokenResponse(realm, {
    service: parts.get("service") ?? "",
    scope: parts.get("scope") ?? request.scope,
    credential,
  });
  if (!response.ok) return null;
  const { token, access_token: accessToken } = JSON.parse(await boundedText(response)) as {
    readonly token?: string;
    readonly access_token?: string;
  };
  const found = token ?? accessToken;
  return found === undefined ? null : `Bearer ${found}`;
}

function basic(credential: Credential | null): string | null {
  if (credential?.kind !== "password") return null;
  return `Basic ${Buffer.from(`${credential.user}:${credential.password}`).toString("base64")}`;
}

function tokenResponse(
  realm: URL,
  { service, scope, credential }: { service: string; scope: string; credential: Credential | null },
): Promise<Response> {
  const signal = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
  const parameters = new URLSearchParams({ service, scope });
  if (credential?.kind === "identityToken") {
    parameters.set("grant_type", "refresh_token");
    parameters.set("client_id", "engine-room");
    parameters.set("refresh_token", credential.token);
    return fetch(realm, { method: "POST", body: parameters, redirect: "error", signal });
  }
  for (const [key, value] of parameters) realm.searchParams.set(key, value);
  const authorization = basic(credential);
  return fetch(realm, { headers: authorization === null ? {} : { authorization }, signal });
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MOST_TOKEN_BYTES) throw new Error(`Its token has more than ${MOST_TOKEN_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

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
