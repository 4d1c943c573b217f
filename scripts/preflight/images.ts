/** Whether registries have the images of a stack, seen from this machine. */
import { BOOTSTRAP_COMMAND } from "../../infra/plan/aws/bootstrap.ts";
import type { ClusterImage } from "../../infra/plan/images.ts";
import { ecrHost, ecrReference, hasEcrImage } from "../aws/ecr.ts";
import { AwsError } from "../aws/session.ts";
import type { AskRegistry, ManifestAnswer } from "../images/registry.ts";
import type { AwsTarget, ClusterTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Names of documents, which have no registry: RFC 2606. */
const RESERVED_HOST = /(^|\.)(example\.(org|com|net)|example|invalid|test)(:\d+)?$/;

function hostOf(reference: string): string {
  return reference.split("/")[0] ?? "";
}

/** Asks ECR by its API, with the credentials of the stack's account, and other registries as Docker does. */
function askWithEcr(askOther: AskRegistry): AskRegistry {
  return async (reference) => {
    const ecr = ecrReference(reference);
    if (ecr === null) return askOther(reference);
    try {
      return (await hasEcrImage(ecr)) ? { kind: "present" } : { kind: "missing", isAnonymous: false };
    } catch (error) {
      if (!(error instanceof AwsError)) throw error;
      return { kind: "silent", words: error.words };
    }
  };
}

interface Pulled {
  readonly images: readonly ClusterImage[];
  readonly imageProblems: ClusterTarget["imageProblems"];
  /** Secrets of images.pullSecrets. */
  readonly pullSecrets: readonly string[];
  /** Command that pushes them. */
  readonly push: string;
}

export function clusterImageFindings(
  { stack, imageProblems }: Pick<ClusterTarget, "stack" | "imageProblems">,
  ask: AskRegistry,
): Promise<readonly Finding[]> {
  const { images, imagePullSecrets: pullSecrets } = stack;
  const push = "`npx engine-room images --push` where Docker is";
  return imageFindings({ images, imageProblems, pullSecrets, push }, ask);
}

export async function awsImageFindings(
  { context, plan, images, imageProblems }: AwsTarget,
  askOther: AskRegistry,
): Promise<readonly Finding[]> {
  const { account, stack } = context;
  const first =
    plan.config.images.registry === undefined
      ? `\`${BOOTSTRAP_COMMAND}\` if the account has no repositories yet, then `
      : "";
  const push = `${first}\`npx engine-room images --stack ${stack} --push\` where Docker is`;
  const foreign = images.flatMap(({ name, reference }) => {
    const owner = ecrHost(hostOf(reference))?.account ?? account;
    if (owner === account) return [];
    return [
      warning(
        "images",
        `The image ${name} is in a registry of the account ${owner}.`,
        `The stack is in ${account}, whose machines need the other account's consent to pull it.`,
        "Allow it in that repository's policy, or leave `images.registry` out and push to the stack's own account.",
      ),
    ];
  });
  const fix = `Run ${push}; then \`npx engine-room up --stack ${stack}\`.`;
  const pulled = {
    images,
    imageProblems: imageProblems.map((one) => ({ ...one, fix })),
    pullSecrets: [],
    push,
  };
  return [...foreign, ...(await imageFindings(pulled, askWithEcr(askOther)))];
}

type Answer = ManifestAnswer | { readonly kind: "reserved" };

/** One finding for all images with the same answer of a registry. An image without digest was never pushed: a separate problem. */
async function imageFindings(pulled: Pulled, ask: AskRegistry): Promise<readonly Finding[]> {
  const answers = await Promise.all(
    pulled.images.map(
      async ({ name, reference }): Promise<{ name: string; host: string; answer: Answer }> => {
        const host = hostOf(reference);
        if (RESERVED_HOST.test(host)) return { name, host, answer: { kind: "reserved" } };
        const isPushed = reference.includes("@sha256:");
        return { name, host, answer: isPushed ? await ask(reference) : { kind: "present" } };
      },
    ),
  );
  const alike = new Map(answers.map(({ host, answer }) => [`${host} ${answer.kind}`, { host, answer }]));
  return [
    ...pulled.imageProblems.map(({ reason, fix }) =>
      problem("images", "Images of the stack can't be pulled.", reason, fix),
    ),
    ...[...alike.values()].flatMap(({ host, answer }) => {
      const own = answers.filter((one) => one.host === host && one.answer.kind === answer.kind);
      return answerFinding(host, own.map(({ name }) => name).join(", "), answer, pulled) ?? [];
    }),
  ];
}

/** @param names - Images with this answer. @returns null if the registry has them. */
function answerFinding(
  host: string,
  names: string,
  answer: Answer,
  { pullSecrets, push }: Pulled,
): Finding | null {
  switch (answer.kind) {
    case "present":
      return null;
    case "reserved":
      return problem(
        "images",
        `No registry answers at ${host}.`,
        "The name is reserved for documentation (RFC 2606).",
        "Put your own registry in images.registry.",
      );
    case "missing": {
      // A registry may hide its images from anonymous users.
      const mayHide = answer.isAnonymous && pullSecrets.length > 0;
      return (mayHide ? warning : problem)(
        "images",
        `The registry ${host} does not have ${names}.`,
        `It has no manifest of the digest in images.lock.json${mayHide ? ", or hides it from a user who is not logged in" : ""}.`,
        `Run ${push}${mayHide ? `, or \`docker login ${host}\` and ask again` : ""}.`,
      );
    }
    case "refused":
      return warning(
        "images",
        `The registry ${host} does not show ${names} to you.`,
        `It was asked ${answer.isAnonymous ? "without credentials" : "with the credentials of Docker's configuration"}; the stack's machines may have others (images.pullSecrets: ${pullSecrets.join(", ") || "none"}).`,
        `\`docker login ${host}\` and ask again; machines need a Secret of images.pullSecrets, or credentials of their own.`,
      );
    case "silent":
      return warning(
        "images",
        `The registry ${host} can't be asked for ${names} from here.`,
        `${answer.words.replace(/\.$/, "")}. The stack's machines may reach it another way.`,
        "Nothing, if machines of the stack pull from it; else correct images.registry, or open a connection to it.",
      );
  }
}
