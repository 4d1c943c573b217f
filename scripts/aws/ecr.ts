/** Private registries of ECR: which images they have, and a push that no file of the user keeps a login for. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../errors.ts";
import type { AwsTarget } from "../program/targets.ts";
import { type Answer, ask, required } from "./session.ts";

interface EcrHost {
  readonly account: string;
  readonly region: string;
}

export interface EcrReference extends EcrHost {
  readonly repository: string;
  /** `sha256:…` */
  readonly digest: string;
}

/** https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html */
const ECR_HOST = /^(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)$/;

/** Account and region of a registry's host; null: it is not a registry of ECR. */
export function ecrHost(host: string): EcrHost | null {
  const [, account, region] = ECR_HOST.exec(host) ?? [];
  return account === undefined || region === undefined ? null : { account, region };
}

/** A reference by digest to a registry of ECR; null: it is another registry's, or has no digest. */
export function ecrReference(reference: string): EcrReference | null {
  const [, host = "", repository = "", digest = ""] =
    /^([^/]+)\/([^:@]+)(?::[^@]+)?@(sha256:[0-9a-f]{64})$/.exec(reference) ?? [];
  const registry = ecrHost(host);
  return registry === null ? null : { ...registry, repository, digest };
}

/** `absent` where the registry lacks the image or its repository. */
export async function ecrImage(image: EcrReference): Promise<Answer<object>> {
  const { account, region, repository, digest } = image;
  return ask("ecr:DescribeImages", region, {
    registryId: account,
    repositoryName: repository,
    imageIds: [{ imageDigest: digest }],
  });
}

/** Names of images whose digest is known, and that the account's registry lacks. @throws UserError where ECR does not say. */
export async function imagesThatEcrLacks({ images }: AwsTarget): Promise<ReadonlySet<string>> {
  const lacking = images.map(async ({ name, reference }) => {
    const ecr = ecrReference(reference);
    if (ecr === null) return [];
    const answer = await ecrImage(ecr);
    if (answer.kind === "absent") return [name];
    required(answer, "");
    return [];
  });
  return new Set((await Promise.all(lacking)).flat());
}

/**
 * Lets every `docker` that this process starts push to the registry, until the process ends.
 *
 * @param registry - With the path before the names of images.
 * @param names - Of the images that are pushed.
 * @throws UserError where a repository is missing, or ECR gives no token.
 */
export async function prepareEcrPush(
  { context: { stack } }: AwsTarget,
  registry: string,
  names: readonly string[],
): Promise<void> {
  const [host = "", ...path] = registry.split("/");
  const own = ecrHost(host);
  if (own === null) return;
  const repositories = names.map((name) => [...path, name].join("/"));
  const missing = (await Promise.all(repositories.map((name) => lacksRepository(own, name)))).flat();
  if (missing.length > 0)
    throw new UserError(
      `ECR has no repository ${missing.join(", ")}, and takes no image without one; make them first: \`npx engine-room up --stack ${stack} --registries\`.`,
    );
  process.env.DOCKER_CONFIG = dockerConfig(host, await ecrLogin(own.region));
}

/** One name at a time: a list with a missing one is an error for all. */
async function lacksRepository({ account, region }: EcrHost, name: string): Promise<readonly string[]> {
  const input = { registryId: account, repositoryNames: [name] };
  const answer = await ask("ecr:DescribeRepositories", region, input);
  if (answer.kind === "absent") return [name];
  required(answer, "");
  return [];
}

/** For `docker login`, for twelve hours. The caller may not print it. */
async function ecrLogin(region: string): Promise<Login> {
  const { authorizationData = [] } = required(
    await ask("ecr:GetAuthorizationToken", region, {}),
    "ECR gives no token.",
  );
  const token = Buffer.from(authorizationData[0]?.authorizationToken ?? "", "base64").toString("utf8");
  const colon = token.indexOf(":");
  if (colon < 1) throw new UserError("ECR gives no token.");
  return { user: token.slice(0, colon), password: token.slice(colon + 1) };
}

/** For every child of this process; the token is good for twelve hours, and gone with the process. @returns The folder. */
function dockerConfig(host: string, login: Login): string {
  const own = process.env.DOCKER_CONFIG ?? join(homedir(), ".docker");
  const folder = mkdtempSync(join(tmpdir(), "engine-room-docker-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(own, "config.json");
  const config = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as DockerConfig) : {};
  const text = JSON.stringify(withLogin(config, { own, host, login }));
  writeFileSync(join(folder, "config.json"), text, { mode: 0o600 });
  return folder;
}

interface Login {
  readonly user: string;
  readonly password: string;
}

/** The parts of Docker's config.json that decide who logs in, and where its plug-ins are. */
interface DockerConfig {
  readonly auths?: Readonly<Record<string, object>>;
  readonly credHelpers?: Readonly<Record<string, string>>;
  readonly credsStore?: string;
  readonly cliPluginsExtraDirs?: readonly string[];
}

/** The user's configuration, with one login more that no helper is asked for. @param own - Its folder. Pure. */
export function withLogin(
  { auths = {}, credHelpers = {}, credsStore, cliPluginsExtraDirs = [], ...rest }: DockerConfig,
  { own, host, login }: { readonly own: string; readonly host: string; readonly login: Login },
): DockerConfig {
  // A store is asked for every registry, and has nothing of this one: it becomes the helper of those that it knows.
  const stored =
    credsStore === undefined
      ? {}
      : Object.fromEntries(Object.keys(auths).map((registry) => [registry, credsStore]));
  const { [host]: _, ...helpers } = { ...stored, ...credHelpers };
  const auth = Buffer.from(`${login.user}:${login.password}`).toString("base64");
  return {
    ...rest,
    auths: { ...auths, [host]: { auth } },
    credHelpers: helpers,
    cliPluginsExtraDirs: [...cliPluginsExtraDirs, join(own, "cli-plugins")],
  };
}
