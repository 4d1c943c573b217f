/** What a stack on AWS names and does not make: certificate, file system, secret, versions of EKS. Pure. */
import type { CertificateReading, FileSystemReading, SecretReading } from "../aws/account.ts";
import type { KubernetesVersionReading } from "../aws/eks.ts";
import type { HubAnswer } from "../aws/hub.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** @param answer - null: the stack names none. */
export function certificateFindings(
  { plan: { config } }: AwsTarget,
  answer: Answer<CertificateReading> | null,
): readonly Finding[] {
  const { hostname, tls } = config.gateway;
  if (answer === null || tls === undefined) return [];
  if (answer.kind === "absent")
    return [
      problem(
        "certificate",
        "The certificate of the gateway is not there.",
        `ACM has no ${tls.certificateArn} in ${config.region}; a load balancer takes only those of its own region.`,
        "Request one in this region, and correct `gateway.tls.certificateArn`.",
      ),
    ];
  if (answer.kind !== "answer")
    return unanswered(
      "certificate",
      answer,
      "nobody knows whether the load balancer can use its certificate",
    );
  const { status, names } = answer.value;
  const unissued =
    status === "ISSUED"
      ? []
      : [
          problem(
            "certificate",
            "The certificate of the gateway is not issued.",
            `Its status is ${status}, and a load balancer takes none but ISSUED.`,
            status === "PENDING_VALIDATION"
              ? "Make the records that ACM asks for in the zone of the host name."
              : "Request another one.",
          ),
        ];
  const isCovered = hostname === undefined || names.some((name) => covers(name, hostname));
  return [
    ...unissued,
    ...(isCovered
      ? []
      : [
          problem(
            "certificate",
            `The certificate of the gateway is not for ${hostname}.`,
            `It is for ${names.join(", ")}, and clients refuse it for another name.`,
            "Request one for the host name, or correct `gateway.hostname`.",
          ),
        ]),
  ];
}

/** A star stands for one label: https://www.rfc-editor.org/rfc/rfc6125#section-6.4.3 */
function covers(name: string, hostname: string): boolean {
  const [wanted, given] = [hostname.toLowerCase(), name.toLowerCase()];
  if (!given.startsWith("*.")) return wanted === given;
  return wanted.slice(wanted.indexOf(".")) === given.slice(1);
}

/** @param answer - null: the stack makes its own. */
export function fileSystemFindings(
  { context: { region }, plan: { config } }: AwsTarget,
  answer: Answer<FileSystemReading> | null,
): readonly Finding[] {
  const { existing } = config.engineStore;
  if (answer === null || existing === undefined) return [];
  if (answer.kind === "absent")
    return [
      problem(
        "engineStore",
        `There is no file system ${existing.fileSystemId}.`,
        `EFS has none of that id in ${region} for this account.`,
        "Correct `engineStore.existing.fileSystemId`, or leave `existing` out: the stack then makes one.",
      ),
    ];
  if (answer.kind !== "answer")
    return unanswered("engineStore", answer, "nobody knows whether machines can mount the engine store");
  const { state, mountTargets } = answer.value;
  if (state !== "available")
    return [
      problem(
        "engineStore",
        `The file system ${existing.fileSystemId} is not available.`,
        `EFS says that it is ${state}.`,
        "Wait, or take another one.",
      ),
    ];
  const { network } = config;
  const zones = network.existing?.privateSubnets.map(({ zone }) => zone) ?? network.zones;
  const without = zones.filter((zone) => !mountTargets.some((target) => target.zone === `${region}${zone}`));
  const vpcs = [...new Set(mountTargets.map(({ vpcId }) => vpcId))];
  const isElsewhere = network.existing !== undefined && !vpcs.includes(network.existing.vpcId);
  if (without.length === 0 && !isElsewhere) return [];
  const there = mountTargets.map(({ zone, vpcId }) => `${zone} of ${vpcId}`).join(", ") || "none";
  return [
    (network.existing === undefined ? warning : problem)(
      "engineStore",
      `The file system ${existing.fileSystemId} has no mount target ${isElsewhere ? `in ${network.existing?.vpcId}` : `in ${without.map((zone) => `${region}${zone}`).join(", ")}`}.`,
      `It has mount targets in ${there}, and machines mount the one of their own zone and network.`,
      "Make mount targets in these zones, or leave the zones out of `network`.",
    ),
  ];
}

/** @param answer - null: the stack names no secret. One that is not there is a finding of its text. */
export function hubSecretFindings(
  { plan: { config } }: AwsTarget,
  answer: Answer<SecretReading> | null,
): readonly Finding[] {
  if (answer === null || answer.kind === "absent") return [];
  if (answer.kind !== "answer")
    return unanswered(
      "hubToken",
      answer,
      "nobody knows from here whether roles may read the secret with the hub's token",
    );
  const { arn, key } = answer.value;
  return [
    ...(arn === config.hub.tokenSecretArn
      ? []
      : [
          problem(
            "hubToken",
            "`hub.tokenSecretArn` has a part of the secret's ARN.",
            `The whole of it is ${arn}. Secrets Manager finds it by the part too, for you; the stack's roles may read what is in the stack file, letter by letter, and would be refused.`,
            `Write \`tokenSecretArn: ${arn}\`.`,
          ),
        ]),
    ...(key === null
      ? []
      : [
          problem(
            "hubToken",
            "The secret with the hub's token is encrypted by a key of your own.",
            `It is ${key}, and roles of the stack may read the secret, and decrypt by no such key.`,
            "Make a secret without --kms-key-id: it is encrypted by aws/secretsmanager.",
          ),
        ]),
  ];
}

/** @param answer - null: the stack names no secret. It holds the token, which no finding says. */
export function hubSecretTextFindings(
  { plan: { config } }: AwsTarget,
  answer: Answer<string> | null,
): readonly Finding[] {
  const { tokenSecretArn } = config.hub;
  if (answer === null || tokenSecretArn === undefined) return [];
  if (answer.kind === "absent")
    return [
      problem(
        "hubToken",
        "The secret with the hub's token is not there.",
        `Secrets Manager has no ${tokenSecretArn}, or it has no value yet.`,
        `aws secretsmanager create-secret --region ${config.region} --name hub-token --secret-string file://TOKEN-FILE, and put its ARN in \`hub.tokenSecretArn\`.`,
      ),
    ];
  if (answer.kind !== "answer")
    return unanswered("hubToken", answer, "nobody knows from here whether machines get a token for the hub");
  if (answer.value.trim() !== "" && !answer.value.trim().startsWith("{")) return [];
  return [
    problem(
      "hubToken",
      "The secret with the hub's token holds no token.",
      answer.value.trim() === ""
        ? "It has no text."
        : "It holds JSON, and builds take its whole text for the token.",
      "Store the token alone, as plain text.",
    ),
  ];
}

/** One finding for each gated repository that a token's owner may not read. */
export function hubFindings(answers: ReadonlyMap<string, HubAnswer>, hasToken: boolean): readonly Finding[] {
  return [...answers].flatMap(([repository, answer]) => {
    if (answer.kind === "open") return [];
    if (answer.kind === "silent")
      return [
        warning(
          "hub",
          `The hub can't be asked for ${repository} from here.`,
          `${answer.words}. The stack's machines may reach it on another way.`,
          "Nothing, if they do; else open the way to the hub, or copy the weights into the engine store and take them from there (`weights: { from: folder }`).",
        ),
      ];
    if (!hasToken)
      return [
        warning(
          "hub",
          `Whether the hub gives ${repository} to the stack is not known.`,
          "Its files are for accounts that accepted its licence, and this machine has no token: one under `secure:` is the Pulumi CLI's alone.",
          "Set HF_TOKEN to the same token, and run preflight again.",
        ),
      ];
    return [
      problem(
        "hub",
        `The hub does not give ${repository} to the token's owner.`,
        answer.status === 401
          ? "It does not know the token (status 401)."
          : "It knows the token, and its owner has not accepted the licence, or waits for consent (status 403).",
        `Accept the licence at https://huggingface.co/${repository}, with the account that the token is of.`,
      ),
    ];
  });
}

/** @param answer - null: the stack has no cluster. */
export function kubernetesVersionFindings(
  { plan }: AwsTarget,
  answer: Answer<KubernetesVersionReading> | null,
): readonly Finding[] {
  if (answer === null || plan.compute !== "eks") return [];
  const { version } = plan.config.cluster;
  if (answer.kind === "answer" && answer.value.status === "STANDARD_SUPPORT") return [];
  if (answer.kind === "answer" && answer.value.status === "EXTENDED_SUPPORT")
    return [
      warning(
        "kubernetesVersion",
        `Kubernetes ${version} is in extended support.`,
        `Standard support ended${answer.value.standardSupportUntil === null ? "" : ` on ${answer.value.standardSupportUntil.toISOString().slice(0, 10)}`}; AWS updates the cluster to the next version by itself.`,
        "Set `cluster.version` to a newer one.",
      ),
    ];
  if (answer.kind === "denied" || answer.kind === "silent")
    return unanswered(
      "kubernetesVersion",
      answer,
      `nobody knows whether EKS still makes clusters of ${version}`,
    );
  return [
    problem(
      "kubernetesVersion",
      `EKS makes no cluster of Kubernetes ${version}.`,
      `${answer.kind === "absent" ? "It lists no such version" : `It calls the version ${answer.value.status}`} in ${plan.config.region}.`,
      "Set `cluster.version` to one that it has: `aws eks describe-cluster-versions`.",
    ),
  ];
}
