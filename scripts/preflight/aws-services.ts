/** What a stack on AWS names and does not make: its file system, certificate, token of the model hub, and gated models. */
import { unanswered } from "../aws/account.ts";
import { ask } from "../aws/session.ts";
import { errorWords } from "../errors.ts";
import type { AwsTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** null: the stack has nothing of the kind. */
export type Found = readonly Finding[] | null;

const TIMEOUT_MILLISECONDS = 15_000;

/** Machines of a zone without a mount target wait for the engine store until they are ended. */
export async function fileSystemFindings({ context: { region }, plan }: AwsTarget): Promise<Found> {
  const { network, engineStore } = plan.config;
  const id = engineStore.existing?.fileSystemId;
  if (id === undefined) return null;
  const answer = await ask("elasticfilesystem:DescribeMountTargets", region, { FileSystemId: id });
  if (answer.kind === "absent")
    return [
      problem(
        "engineStore",
        `There is no file system ${id}.`,
        `EFS has none of that id in ${region} for this account.`,
        "Correct `engineStore.existing.fileSystemId`, or leave `existing` out: the stack then makes one.",
      ),
    ];
  if (answer.kind !== "answer")
    return unanswered("engineStore", answer, "it is not known whether machines can mount the engine store");
  const { MountTargets = [] } = answer.value;
  const vpcId = network.existing?.vpcId;
  const zones = network.existing?.privateSubnets.map(({ zone }) => zone) ?? network.zones;
  const without = zones
    .map((zone) => `${region}${zone}`)
    .filter((zone) => !MountTargets.some(({ AvailabilityZoneName }) => AvailabilityZoneName === zone));
  const isElsewhere = vpcId !== undefined && !MountTargets.some(({ VpcId }) => VpcId === vpcId);
  if (without.length === 0 && !isElsewhere) return [];
  const there = MountTargets.map(({ AvailabilityZoneName, VpcId }) => `${AvailabilityZoneName} of ${VpcId}`);
  return [
    (vpcId === undefined ? warning : problem)(
      "engineStore",
      `The file system ${id} has no mount target in ${isElsewhere ? vpcId : without.join(", ")}.`,
      `It has mount targets in ${there.join(", ") || "no zone"}, and machines mount the one of their own zone and network.`,
      "Make mount targets in these zones, or leave the zones out of `network`.",
    ),
  ];
}

/** ACM issues a certificate after hours, and a listener is made near the end of `up`. */
export async function certificateFindings({ plan: { config } }: AwsTarget): Promise<Found> {
  const { hostname, tls } = config.gateway;
  if (tls === undefined) return null;
  const found = (what: string, why: string, fix: string) => [
    problem("certificate", `The certificate of the gateway is not ${what}.`, why, fix),
  ];
  const answer = await ask("acm:DescribeCertificate", config.region, { CertificateArn: tls.certificateArn });
  if (answer.kind === "absent")
    return found(
      "there",
      `ACM has no ${tls.certificateArn} in ${config.region}; a load balancer takes only those of its own region.`,
      "Request one in this region, and correct `gateway.tls.certificateArn`.",
    );
  if (answer.kind !== "answer")
    return unanswered(
      "certificate",
      answer,
      "it is not known whether the load balancer can use its certificate",
    );
  const { Status, DomainName = "", SubjectAlternativeNames = [] } = answer.value.Certificate ?? {};
  const names = [...new Set([DomainName, ...SubjectAlternativeNames])];
  return [
    ...(Status === "ISSUED"
      ? []
      : found(
          "issued",
          `Its status is ${Status}, and a load balancer takes only a certificate that is ISSUED.`,
          Status === "PENDING_VALIDATION"
            ? "Make the records that ACM asks for in the zone of the host name."
            : "Request another one.",
        )),
    ...(hostname === undefined || names.some((name) => covers(name, hostname))
      ? []
      : found(
          `for ${hostname}`,
          `It is for ${names.join(", ")}, and clients refuse it for another name.`,
          "Request one for the host name, or correct `gateway.hostname`.",
        )),
  ];
}

/** A star stands for one label: https://www.rfc-editor.org/rfc/rfc6125#section-6.4.3 */
function covers(name: string, hostname: string): boolean {
  const [wanted, given] = [hostname.toLowerCase(), name.toLowerCase()];
  if (!given.startsWith("*.")) return wanted === given;
  return wanted.slice(wanted.indexOf(".")) === given.slice(1);
}

/** The secret's text. Findings never show it. @returns null: the stack names no secret. */
async function secretText({ plan: { config } }: AwsTarget) {
  const arn = config.hub.tokenSecretArn;
  // One machine asks the secret's own region; on EKS it is the stack's.
  const region = arn?.split(":")[3] ?? config.region;
  if (arn === undefined) return null;
  return ask("secretsmanager:GetSecretValue", region, { SecretId: arn });
}

/** Builds read the token when machines with GPUs already run. */
export async function tokenFindings(target: AwsTarget): Promise<Found> {
  const { region, hub } = target.plan.config;
  const arn = hub.tokenSecretArn;
  const text = await secretText(target);
  if (arn === undefined || text === null) return null;
  const found = (what: string, why: string, fix: string) => [problem("hubToken", what, why, fix)];
  if (text.kind === "absent")
    return found(
      "The secret with the hub's token is not there.",
      `Secrets Manager has no ${arn}, or it has no value yet.`,
      `aws secretsmanager create-secret --region ${region} --name hub-token --secret-string file://TOKEN-FILE, and put its ARN in \`hub.tokenSecretArn\`.`,
    );
  const so = "it is not known from here whether machines get a token for the hub";
  if (text.kind !== "answer") return unanswered("hubToken", text, so);
  const value = (text.value.SecretString ?? "").trim();
  const secret = await ask("secretsmanager:DescribeSecret", arn.split(":")[3] ?? region, { SecretId: arn });
  if (secret.kind !== "answer") return unanswered("hubToken", secret, so);
  const { ARN = "", KmsKeyId = "alias/aws/secretsmanager" } = secret.value;
  return [
    ...(value !== "" && !value.startsWith("{")
      ? []
      : found(
          "The secret with the hub's token holds no token.",
          value === "" ? "It has no text." : "It holds JSON, and builds take its whole text for the token.",
          "Store the token alone, as plain text.",
        )),
    ...(ARN === arn
      ? []
      : found(
          "`hub.tokenSecretArn` has a part of the secret's ARN.",
          `The whole of it is ${ARN}. Secrets Manager finds it by the part too, for you; the stack's roles may read only the ARN of the stack file, letter by letter, and would be refused.`,
          `Write \`tokenSecretArn: ${ARN}\`.`,
        )),
    ...(KmsKeyId.endsWith("alias/aws/secretsmanager")
      ? []
      : found(
          "The secret with the hub's token is encrypted by a key of your own.",
          `It is ${KmsKeyId}, by which roles of the stack may not decrypt.`,
          "Make a secret without --kms-key-id: it is encrypted by aws/secretsmanager.",
        )),
  ];
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
  const text = await secretText(target);
  const stored = text?.kind === "answer" ? text.value.SecretString?.trim() : undefined;
  const inFile = typeof plan.config.hub.token === "string" ? plan.config.hub.token : undefined;
  const token = [stored, inFile, process.env.HF_TOKEN].find((one) => one !== undefined && one !== "");
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
  if (status !== 401 && status !== 403)
    return [
      warning(
        "hub",
        `The hub can't be asked for ${repository} from here.`,
        `${typeof status === "number" ? `It answers with status ${status}` : status}. The stack's machines may reach it another way.`,
        "Nothing, if they do; else open a connection to the hub, or copy the weights into the engine store and take them from there (`weights: { from: folder }`).",
      ),
    ];
  if (token === undefined)
    return [
      warning(
        "hub",
        `Whether the hub gives ${repository} to the stack is not known.`,
        "Its files are for accounts that accepted its licence, and this machine has no token: only the Pulumi CLI reads a token under `secure:`.",
        "Set HF_TOKEN to the same token, and run preflight again.",
      ),
    ];
  return [
    problem(
      "hub",
      `The hub does not give ${repository} to the token's owner.`,
      status === 401
        ? "It does not know the token (status 401)."
        : "It knows the token, and its owner has not accepted the licence, or waits for consent (status 403).",
      `Accept the licence at https://huggingface.co/${repository}, with the account that the token is of.`,
    ),
  ];
}
