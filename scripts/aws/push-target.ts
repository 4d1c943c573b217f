/** What a push to ECR of a stack's account takes: repositories that are there, and a login that no file of the user keeps. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../errors.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { ecrHost, ecrImage, ecrLogin, ecrReference, ecrRepositories } from "./ecr.ts";
import { required } from "./session.ts";

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
  const found = required(
    await ecrRepositories(own.region, own.account, repositories),
    `The registry ${host} is not there.`,
  );
  const missing = repositories.filter((name) => !found.has(name));
  if (missing.length > 0)
    throw new UserError(
      `ECR has no repository ${missing.join(", ")}, and takes no image without one; make them first: \`npx engine-room up --stack ${stack} --registries\`.`,
    );
  const login = required(await ecrLogin(own.region), "ECR gives no token.");
  process.env.DOCKER_CONFIG = dockerConfig(host, login);
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
