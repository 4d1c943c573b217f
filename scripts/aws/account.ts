/** Who asks, and what the account has besides machines: quotas, repositories, certificates, file systems, secrets. */
import { type Answer, allPages, ask, clientSettings } from "./session.ts";

export interface Caller {
  readonly account: string;
  readonly arn: string;
}

/** Every user may ask this. */
export async function caller(region: string): Promise<Answer<Caller>> {
  const { STSClient, GetCallerIdentityCommand } = await import("@aws-sdk/client-sts");
  const sts = new STSClient(clientSettings(region));
  return ask("sts:GetCallerIdentity", async (options) => {
    const { Account = "", Arn = "" } = await sts.send(new GetCallerIdentityCommand({}), options);
    return { account: Account, arn: Arn };
  });
}

/** What AWS_PROFILE says where neither of the files that the SDK reads has such a profile; null: it has, or none is named. */
export async function missingProfile(): Promise<string | null> {
  const { AWS_PROFILE: profile = "" } = process.env;
  if (profile === "") return null;
  const { loadSharedConfigFiles } = await import("@smithy/core/config");
  const { configFile, credentialsFile } = await loadSharedConfigFiles({ ignoreCache: true });
  return profile in configFile || profile in credentialsFile ? null : profile;
}

export interface QuotaCode {
  /** `ec2`, `vpc`. */
  readonly service: string;
  readonly code: string;
}

/** The account's own value, or AWS's default where it was never changed. */
export async function quotaValue(region: string, { service, code }: QuotaCode): Promise<Answer<number>> {
  const { ServiceQuotasClient, GetServiceQuotaCommand, GetAWSDefaultServiceQuotaCommand } = await import(
    "@aws-sdk/client-service-quotas"
  );
  const quotas = new ServiceQuotasClient(clientSettings(region));
  const input = { ServiceCode: service, QuotaCode: code };
  const own = await ask("servicequotas:GetServiceQuota", async (options) =>
    quotaNumber((await quotas.send(new GetServiceQuotaCommand(input), options)).Quota),
  );
  if (own.kind !== "absent") return own;
  return ask("servicequotas:GetAWSDefaultServiceQuota", async (options) =>
    quotaNumber((await quotas.send(new GetAWSDefaultServiceQuotaCommand(input), options)).Quota),
  );
}

function quotaNumber(quota: { readonly Value?: number | undefined } | undefined): number {
  if (quota?.Value === undefined) throw new Error("The quota has no value.");
  return quota.Value;
}

export interface CertificateReading {
  /** `ISSUED`, `PENDING_VALIDATION`, `EXPIRED`. */
  readonly status: string;
  readonly names: readonly string[];
  readonly expires: Date | null;
}

export async function certificate(region: string, arn: string): Promise<Answer<CertificateReading>> {
  const { ACMClient, DescribeCertificateCommand } = await import("@aws-sdk/client-acm");
  const acm = new ACMClient(clientSettings(region));
  return ask("acm:DescribeCertificate", async (options) => {
    const { Certificate } = await acm.send(new DescribeCertificateCommand({ CertificateArn: arn }), options);
    const { DomainName, SubjectAlternativeNames = [], Status = "", NotAfter } = Certificate ?? {};
    return {
      status: Status,
      names: [...new Set([...(DomainName === undefined ? [] : [DomainName]), ...SubjectAlternativeNames])],
      expires: NotAfter ?? null,
    };
  });
}

export interface FileSystemReading {
  /** `available`, `creating`, `deleting`. */
  readonly state: string;
  /** Zones, with the region, that have a mount target, and the VPC of these. */
  readonly mountTargets: readonly { readonly zone: string; readonly vpcId: string }[];
}

export async function fileSystem(region: string, id: string): Promise<Answer<FileSystemReading>> {
  const { EFSClient, DescribeFileSystemsCommand, paginateDescribeMountTargets } = await import(
    "@aws-sdk/client-efs"
  );
  const efs = new EFSClient(clientSettings(region));
  const state = await ask("elasticfilesystem:DescribeFileSystems", async (options) => {
    const { FileSystems = [] } = await efs.send(
      new DescribeFileSystemsCommand({ FileSystemId: id }),
      options,
    );
    return FileSystems[0]?.LifeCycleState ?? "";
  });
  if (state.kind !== "answer") return state;
  return ask("elasticfilesystem:DescribeMountTargets", async (options) => {
    const targets = await allPages(
      paginateDescribeMountTargets({ client: efs }, { FileSystemId: id }, options),
      (page) => page.MountTargets,
    );
    return {
      state: state.value,
      mountTargets: targets.map(({ AvailabilityZoneName = "", VpcId = "" }) => ({
        zone: AvailabilityZoneName,
        vpcId: VpcId,
      })),
    };
  });
}

/** What a secret holds. The caller may neither print nor keep it. */
export async function secretText(region: string, arn: string): Promise<Answer<string>> {
  const { SecretsManagerClient, GetSecretValueCommand } = await import("@aws-sdk/client-secrets-manager");
  const secrets = new SecretsManagerClient(clientSettings(region));
  return ask("secretsmanager:GetSecretValue", async (options) => {
    const { SecretString = "" } = await secrets.send(new GetSecretValueCommand({ SecretId: arn }), options);
    return SecretString;
  });
}

export interface SecretReading {
  /** All of it, whatever part of it was asked for. */
  readonly arn: string;
  /** The key that it is encrypted by; null: the account's own for secrets, by which whoever may read it may decrypt it. */
  readonly key: string | null;
}

/** A secret without what it holds. @param arn - The last characters may be missing. */
export async function secret(region: string, arn: string): Promise<Answer<SecretReading>> {
  const { SecretsManagerClient, DescribeSecretCommand } = await import("@aws-sdk/client-secrets-manager");
  const secrets = new SecretsManagerClient(clientSettings(region));
  return ask("secretsmanager:DescribeSecret", async (options) => {
    const { ARN = "", KmsKeyId } = await secrets.send(new DescribeSecretCommand({ SecretId: arn }), options);
    const isOfAccount = KmsKeyId === undefined || KmsKeyId.endsWith("alias/aws/secretsmanager");
    return { arn: ARN, key: isOfAccount ? null : KmsKeyId };
  });
}
