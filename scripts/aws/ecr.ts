/** Private registries of ECR: their images, and a push whose login is kept in no file of the user. */
import { BOOTSTRAP_COMMAND } from "../../infra/plan/aws/bootstrap.ts";
import { UserError } from "../errors.ts";
import { temporaryDockerConfig } from "../images/registry.ts";
import type { AwsTarget } from "../program/targets.ts";
import { ask } from "./session.ts";

interface EcrHost {
  readonly account: string;
  readonly region: string;
}

interface EcrReference extends EcrHost {
  readonly repository: string;
  /** `sha256:…` */
  readonly digest: string;
}

/** https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html */
const ECR_HOST = /^(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)$/;

/** Account and region of a registry's host; null for other registries. */
export function ecrHost(host: string): EcrHost | null {
  const [, account, region] = ECR_HOST.exec(host) ?? [];
  return account === undefined || region === undefined ? null : { account, region };
}

/** A reference by digest to a registry of ECR; null for another registry, or without digest. */
export function ecrReference(reference: string): EcrReference | null {
  const [, host = "", repository = "", digest = ""] =
    /^([^/]+)\/([^:@]+)(?::[^@]+)?@(sha256:[0-9a-f]{64})$/.exec(reference) ?? [];
  const registry = ecrHost(host);
  return registry === null ? null : { ...registry, repository, digest };
}

/** Whether the registry has an image. @throws AwsError if ECR does not answer. */
export async function hasEcrImage({ account, region, repository, digest }: EcrReference): Promise<boolean> {
  const answer = await ask("ecr:DescribeImages", region, {
    registryId: account,
    repositoryName: repository,
    imageIds: [{ imageDigest: digest }],
  });
  return answer !== undefined;
}

/** Names of images whose digest is known, and that the account's registry lacks. */
export async function imagesThatEcrLacks({ images }: AwsTarget): Promise<ReadonlySet<string>> {
  const lacking = images.map(async ({ name, reference }) => {
    const image = ecrReference(reference);
    return image === null || (await hasEcrImage(image)) ? [] : [name];
  });
  return new Set((await Promise.all(lacking)).flat());
}

/**
 * Lets every `docker` that this process starts push to the registry, until the process ends.
 *
 * @param registry - With the path before the names of images.
 * @param names - Names of pushed images.
 * @throws UserError if a repository is missing, or ECR did not return a token.
 */
export async function prepareEcrPush(registry: string, names: readonly string[]): Promise<void> {
  const [host = "", ...path] = registry.split("/");
  const own = ecrHost(host);
  if (own === null) return;
  const repositories = names.map((name) => [...path, name].join("/"));
  const missing = (await Promise.all(repositories.map((name) => lacksRepository(own, name)))).flat();
  if (missing.length > 0)
    throw new UserError(
      `ECR has no repository ${missing.join(", ")}, and does not accept an image without a repository; create them first: \`${BOOTSTRAP_COMMAND}\` (docs/platforms/aws.md).`,
    );
  process.env.DOCKER_CONFIG = temporaryDockerConfig(host, await ecrToken(own.region));
}

/** One name at a time: a list with a missing name is an error for all. */
async function lacksRepository({ account, region }: EcrHost, name: string): Promise<readonly string[]> {
  const input = { registryId: account, repositoryNames: [name] };
  return (await ask("ecr:DescribeRepositories", region, input)) === undefined ? [name] : [];
}

/**
 * Credentials as in Docker's configuration: `user:password` in base64, valid for twelve hours. The caller must not
 * print them.
 */
async function ecrToken(region: string): Promise<string> {
  const answer = await ask("ecr:GetAuthorizationToken", region, {});
  const token = answer?.authorizationData?.[0]?.authorizationToken;
  if (token === undefined) throw new UserError("ECR did not return a token.");
  return token;
}
