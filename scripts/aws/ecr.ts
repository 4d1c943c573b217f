/** What commands ask a private registry of ECR. */
import { type Answer, ask, clientSettings } from "./session.ts";

export interface EcrReference {
  readonly account: string;
  readonly region: string;
  readonly repository: string;
  /** `sha256:…` */
  readonly digest: string;
}

/** https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html */
const ECR_HOST = /^(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)$/;

/** Account and region of a registry's host; null: it is no registry of ECR. */
export function ecrHost(host: string): { readonly account: string; readonly region: string } | null {
  const [, account, region] = ECR_HOST.exec(host) ?? [];
  return account === undefined || region === undefined ? null : { account, region };
}

/** A reference by digest to a registry of ECR; null: it is another one's, or has no digest. */
export function ecrReference(reference: string): EcrReference | null {
  const [, host = "", repository = "", digest = ""] =
    /^([^/]+)\/([^:@]+)(?::[^@]+)?@(sha256:[0-9a-f]{64})$/.exec(reference) ?? [];
  const registry = ecrHost(host);
  return registry === null ? null : { ...registry, repository, digest };
}

async function ecr(region: string) {
  const { ECRClient } = await import("@aws-sdk/client-ecr");
  return new ECRClient(clientSettings(region));
}

/** Whether the registry has an image; `absent` where the image or its repository is not there. */
export async function ecrImage({ account, region, repository, digest }: EcrReference): Promise<Answer<true>> {
  const { DescribeImagesCommand } = await import("@aws-sdk/client-ecr");
  const client = await ecr(region);
  return ask("ecr:DescribeImages", async (options) => {
    await client.send(
      new DescribeImagesCommand({
        registryId: account,
        repositoryName: repository,
        imageIds: [{ imageDigest: digest }],
      }),
      options,
    );
    return true as const;
  });
}

/** ARNs by name, of those of a list of repositories that are there. */
export async function ecrRepositories(
  region: string,
  account: string,
  names: readonly string[],
): Promise<Answer<ReadonlyMap<string, string>>> {
  const { DescribeRepositoriesCommand } = await import("@aws-sdk/client-ecr");
  const client = await ecr(region);
  // One at a time: a list with one that is missing is an error for all.
  const answers = await Promise.all(
    names.map((name) =>
      ask("ecr:DescribeRepositories", async (options) => {
        const { repositories = [] } = await client.send(
          new DescribeRepositoriesCommand({ registryId: account, repositoryNames: [name] }),
          options,
        );
        return [name, repositories[0]?.repositoryArn ?? ""] as const;
      }),
    ),
  );
  const refused = answers.find(({ kind }) => kind === "denied" || kind === "silent");
  if (refused?.kind === "denied" || refused?.kind === "silent") return refused;
  return {
    kind: "answer",
    value: new Map(answers.flatMap((answer) => (answer.kind === "answer" ? [answer.value] : []))),
  };
}

/** Tags of repositories, by their name. @param arns - By name. */
export async function ecrRepositoryTags(
  region: string,
  arns: ReadonlyMap<string, string>,
): Promise<Answer<ReadonlyMap<string, ReadonlyMap<string, string>>>> {
  const { ListTagsForResourceCommand } = await import("@aws-sdk/client-ecr");
  const client = await ecr(region);
  return ask("ecr:ListTagsForResource", async (options) => {
    const found = [...arns].map(async ([name, resourceArn]) => {
      const { tags = [] } = await client.send(new ListTagsForResourceCommand({ resourceArn }), options);
      return [name, new Map(tags.map(({ Key = "", Value = "" }) => [Key, Value]))] as const;
    });
    return new Map(await Promise.all(found));
  });
}

/** User and password for `docker login`, for twelve hours. The caller may not print it. */
export async function ecrLogin(
  region: string,
): Promise<Answer<{ readonly user: string; readonly password: string }>> {
  const { GetAuthorizationTokenCommand } = await import("@aws-sdk/client-ecr");
  const client = await ecr(region);
  return ask("ecr:GetAuthorizationToken", async (options) => {
    const { authorizationData = [] } = await client.send(new GetAuthorizationTokenCommand({}), options);
    const token = Buffer.from(authorizationData[0]?.authorizationToken ?? "", "base64").toString("utf8");
    const colon = token.indexOf(":");
    if (colon < 1) throw new Error("ECR gave no token.");
    return { user: token.slice(0, colon), password: token.slice(colon + 1) };
  });
}
