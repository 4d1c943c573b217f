/** Resources that a stack on AWS names and does not create: file system, certificate, the model hub's token, and gated models. */
import { createSecret } from "../../infra/plan/checks/aws-network.ts";
import { AwsError, ask } from "../aws/session.ts";
import { errorWords } from "../errors.ts";
import type { AwsTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** null when the stack has nothing of the kind. */
export type Found = readonly Finding[] | null;

const TIMEOUT_MILLISECONDS = 15_000;

/** Machines of a zone without a mount target wait for the engine store until they are ended. */
export async function fileSystemFindings({ context: { region }, plan }: AwsTarget): Promise<Found> {
  const { network, engineStore } = plan.config;
  const id = engineStore.existing?.fileSystemId;
  if (id === undefined) return null;
  const answer = await ask("elasticfilesystem:DescribeMountTargets", region, { FileSystemId: id });
  if (answer === undefined)
    return [
      problem(
        "engineStore",
        `There is no file system ${id}.`,
        `EFS has no file system with this id in ${region} for this account.`,
        "Correct `engineStore.existing.fileSystemId`, or leave `existing` out: the stack then makes one.",
      ),
    ];
  const vpcId = network.existing?.vpcId;
  const { MountTargets: all = [] } = answer;
  const targets = all.filter(({ VpcId }) => vpcId === undefined || VpcId === vpcId);
  const zones = network.existing?.privateSubnets.map(({ zone }) => zone) ?? network.zones;
  const without = zones
    .map((zone) => `${region}${zone}`)
    .filter((zone) => !targets.some(({ AvailabilityZoneName }) => AvailabilityZoneName === zone));
  if (without.length === 0) return [];
  const places = all.map(({ AvailabilityZoneName, VpcId }) => `${AvailabilityZoneName} of ${VpcId}`);
  return [
    (vpcId === undefined ? warning : problem)(
      "engineStore",
      `The file system ${id} has no mount target in ${without.join(", ")}.`,
      `It has mount targets in ${places.join(", ") || "no zone"}, and machines mount that of their own zone and network.`,
      "Make mount targets in these zones, or leave the zones out of `network`.",
    ),
  ];
}

/**
 * Disks are encrypted by the account's default key if the stack file names none, whether or not the account encrypts by default.
 * https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
 */
export async function keyFindings({ plan: { compute, config } }: AwsTarget): Promise<Found> {
  const { region, kmsKeyArn } = config;
  if (kmsKeyArn !== undefined) return null;
  const { KmsKeyId = "alias/aws/ebs" } = (await ask("ec2:GetEbsDefaultKmsKeyId", region, {})) ?? {};
  if (KmsKeyId.endsWith("alias/aws/ebs")) return [];
  return [
    (compute === "eks" ? problem : warning)(
      "encryption",
      `The account encrypts disks in ${region} by a key of its own, ${KmsKeyId}.`,
      compute === "eks"
        ? "Auto Scaling starts no machine whose disk it may not use the key for, and the cluster's driver has no right to it: machines don't join, and claims of databases stay pending."
        : "The machine and its disks are made with the rights of your credentials, which have to include the key, now and at each start.",
      `Write \`kmsKeyArn\` with the key's ARN, whose policy docs/platforms/aws-options.md shows; or \`aws ec2 reset-ebs-default-kms-key-id --region ${region}\`.`,
    ),
  ];
}

/** ACM issues a certificate after hours, and the listener is created near the end of `up`. */
export async function certificateFindings({ plan: { config } }: AwsTarget): Promise<Found> {
  const { hostname, tls } = config.gateway;
  if (tls === undefined) return null;
  const answer = await ask("acm:DescribeCertificate", config.region, { CertificateArn: tls.certificateArn });
  const { Status, DomainName = "", SubjectAlternativeNames = [] } = answer?.Certificate ?? {};
  const names = [...new Set([DomainName, ...SubjectAlternativeNames])];
  const findings: Finding[] = [];
  const found = (what: string, why: string, fix: string) =>
    void findings.push(problem("certificate", `The certificate of the gateway is not ${what}.`, why, fix));
  if (answer === undefined)
    found(
      "found",
      `ACM has no ${tls.certificateArn} in ${config.region}; a load balancer takes only those of its own region.`,
      "Request one in this region, and correct `gateway.tls.certificateArn`.",
    );
  else if (Status !== "ISSUED")
    found(
      "issued",
      `Its status is ${Status}, and a load balancer takes only a certificate that is ISSUED.`,
      "Make the records that ACM asks for in the zone of the host name, or request another certificate.",
    );
  if (answer !== undefined && hostname !== undefined && !names.some((name) => covers(name, hostname)))
    found(
      `for ${hostname}`,
      `It is for ${names.join(", ")}, and clients refuse it for another name.`,
      "Request one for the host name, or correct `gateway.hostname`.",
    );
  return findings;
}

/** A star is one label: https://www.rfc-editor.org/rfc/rfc6125#section-6.4.3 */
function covers(name: string, hostname: string): boolean {
  const [wanted, given] = [hostname.toLowerCase(), name.toLowerCase()];
  if (!given.startsWith("*.")) return wanted === given;
  return wanted.slice(wanted.indexOf(".")) === given.slice(1);
}

/** The token in Secrets Manager, which findings never show. @returns undefined when it is missing, or the stack names no secret. */
async function storedToken({ plan: { config } }: AwsTarget): Promise<string | undefined> {
  const arn = config.hub.tokenSecretArn;
  if (arn === undefined) return undefined;
  const answer = await ask("secretsmanager:GetSecretValue", regionOf(arn), { SecretId: arn });
  return answer?.SecretString?.trim() || undefined;
}

/** A machine asks the secret's own region; on EKS it is the stack's. */
function regionOf(arn: string): string {
  return arn.split(":")[3] ?? "";
}

/** Builds read the token when machines with GPUs already run. */
export async function tokenFindings(target: AwsTarget): Promise<Found> {
  const { region, hub, kmsKeyArn } = target.plan.config;
  const arn = hub.tokenSecretArn;
  if (arn === undefined) return null;
  const secret = await ask("secretsmanager:DescribeSecret", regionOf(arn), { SecretId: arn });
  const token = await storedToken(target);
  const { ARN = arn, KmsKeyId = "alias/aws/secretsmanager" } = secret ?? {};
  const findings: Finding[] = [];
  const found = (...words: [what: string, why: string, fix: string]) =>
    void findings.push(problem("hubToken", ...words));
  if (token === undefined)
    found(
      "The secret with the hub's token does not exist.",
      `Secrets Manager has no ${arn}, or it has no value yet.`,
      `\`${createSecret(region, target.context.stack)}\`, and put its ARN in \`hub.tokenSecretArn\`.`,
    );
  else if (token.startsWith("{"))
    found(
      "The secret with the hub's token holds no token.",
      "It holds JSON, and builds take its whole text for the token.",
      "Store only the token, as plain text.",
    );
  if (ARN !== arn)
    found(
      "`hub.tokenSecretArn` is only a part of the secret's ARN.",
      `The whole ARN is ${ARN}. Secrets Manager finds the secret for you by the part too; the stack's roles may read exactly the ARN of the stack file, and would be refused.`,
      `Write \`tokenSecretArn: ${ARN}\`.`,
    );
  // Secrets Manager returns the key in the form in which it was given: an ARN, an id, or the name of an alias.
  const isOwn = kmsKeyArn !== undefined && `/${kmsKeyArn}`.endsWith(`/${KmsKeyId}`);
  if (!isOwn && !KmsKeyId.endsWith("alias/aws/secretsmanager"))
    found(
      "The secret with the hub's token is encrypted by another key.",
      `The key is ${KmsKeyId}, by which roles of the stack may not decrypt.`,
      `Make a secret without --kms-key-id, which is encrypted by aws/secretsmanager${kmsKeyArn === undefined ? "; or write the key's ARN as `kmsKeyArn`" : `, or with --kms-key-id ${kmsKeyArn}`}.`,
    );
  return findings;
}

/**
 * Whether the hub gives the files of gated models to the token's owner: HEAD of a small file of each. The token is that of the
 * stack, or of the environment: a token under `secure:` only the Pulumi CLI can read.
 */
export async function hubFindings(target: AwsTarget): Promise<Found> {
  const { plan } = target;
  const gated = plan.models.flatMap(
    ({
      spec: {
        engine: { row, weights },
      },
    }) =>
      weights.kind === "hub" && row.source.gated && weights.repository === row.source.repository
        ? [weights]
        : [],
  );
  if (gated.length === 0) return null;
  const { token: inFile } = plan.config.hub;
  // The check of the secret reports why it can't be read.
  const stored = await storedToken(target).catch((error: unknown) => {
    if (error instanceof AwsError) return undefined;
    throw error;
  });
  const token =
    stored ?? (typeof inFile === "string" && inFile !== "" ? inFile : process.env.HF_TOKEN || undefined);
  const answers = gated.map(({ repository, revision }) => hubFinding(repository, revision, token));
  return (await Promise.all(answers)).flat();
}

/** @param revision - A commit; null: the newest. */
async function hubFinding(
  repository: string,
  revision: string | null,
  token: string | undefined,
): Promise<readonly Finding[]> {
  // As huggingface_hub does: HF_ENDPOINT names another hub.
  const hub = (process.env.HF_ENDPOINT ?? "https://huggingface.co").replace(/\/$/, "");
  const status = await fetch(`${hub}/${repository}/resolve/${revision ?? "main"}/config.json`, {
    method: "HEAD",
    // A redirect leads to the file: the user has access then, and the storage needs no token.
    redirect: "manual",
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
  }).then((response) => response.status, errorWords);
  if (typeof status === "number" && status < 400) return [];
  const isRefused = status === 401 || status === 403;
  if (isRefused && token !== undefined)
    return [
      problem(
        "hub",
        `The hub does not give ${repository} to the token's owner (status ${status}).`,
        "401: the hub does not know the token. 403: its owner has not accepted the licence, or waits for consent.",
        `Accept the licence at https://huggingface.co/${repository}, with the account that the token is of.`,
      ),
    ];
  return [
    warning(
      "hub",
      `Whether the hub gives ${repository} to the stack is not known.`,
      isRefused
        ? "Its files are for accounts that accepted its licence, and this machine has no token: only the Pulumi CLI reads a token under `secure:`."
        : `The hub can't be asked from here: ${typeof status === "number" ? `status ${status}` : status}. The stack's machines may reach it another way.`,
      isRefused
        ? "Set HF_TOKEN to the same token, and run preflight again."
        : "Open a connection to the hub, or copy the weights into the engine store and take them from there (`weights: { from: folder }`).",
    ),
  ];
}
