/** Whether registries have the images of a stack, as far as this machine can see. */
import type { ClusterImage } from "../../infra/plan/images.ts";
import { ecrHost, ecrReference, hasEcrImage } from "../aws/ecr.ts";
import { AwsError } from "../aws/session.ts";
import type { AskRegistry, ManifestAnswer } from "../images/registry.ts";
import type { AwsTarget, ClusterTarget } from "../program/targets.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Answers by reference, of the images that were asked for. */
type ImageAnswers = ReadonlyMap<string, ManifestAnswer>;

const RESERVED_HOST = /(^|\.)(example\.(org|com|net)|example|invalid|test)(:\d+)?$/;

function hostOf(reference: string): string {
  return reference.split("/")[0] ?? "";
}

/** An image without digest was never pushed, which is a problem of its own, and names of documents have no registry. */
async function readImages(images: readonly ClusterImage[], ask: AskRegistry): Promise<ImageAnswers> {
  const asked = images.filter(
    ({ reference }) => reference.includes("@sha256:") && !RESERVED_HOST.test(hostOf(reference)),
  );
  const answers = asked.map(async ({ reference }) => [reference, await ask(reference)] as const);
  return new Map(await Promise.all(answers));
}

/** ECR is asked by its API, whose credentials are those of the stack's account; other registries as Docker does. */
export function askWithEcr(askOther: AskRegistry): AskRegistry {
  return async (reference) => {
    const ecr = ecrReference(reference);
    if (ecr === null) return askOther(reference);
    try {
      return (await hasEcrImage(ecr)) ? { kind: "there" } : { kind: "missing", isAnonymous: false };
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
  const { registry, repositories } = plan.config.images;
  const first =
    registry === undefined && repositories === "create"
      ? `first \`npx engine-room up --stack ${stack} --registries\`, which makes the repositories, then `
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

/** One finding for what one registry answers alike. */
async function imageFindings(pulled: Pulled, ask: AskRegistry): Promise<readonly Finding[]> {
  const { images, imageProblems } = pulled;
  const answers = await readImages(images, ask);
  const hosts = [...new Set(images.map(({ reference }) => hostOf(reference)))];
  return [
    ...imageProblems.map(({ reason, fix }) =>
      problem("images", "Images of the stack can't be pulled.", reason, fix),
    ),
    ...hosts.flatMap((host) =>
      RESERVED_HOST.test(host)
        ? [
            problem(
              "images",
              `No registry answers at ${host}.`,
              "The name is reserved for documentation (RFC 2606).",
              "Put your own registry in images.registry.",
            ),
          ]
        : hostFindings(host, pulled, answers),
    ),
  ];
}

function hostFindings(
  host: string,
  { images, pullSecrets, push }: Pulled,
  answers: ImageAnswers,
): readonly Finding[] {
  const own = images.filter(({ reference }) => hostOf(reference) === host);
  const of = <K extends ManifestAnswer["kind"]>(kind: K) =>
    own.flatMap(({ name, reference }) => {
      const answer = answers.get(reference);
      return answer?.kind === kind ? [{ name, answer: answer as Extract<ManifestAnswer, { kind: K }> }] : [];
    });
  const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name).join(", ");
  const [missing, refused, silent] = [of("missing"), of("refused"), of("silent")];
  const findings: Finding[] = [];
  if (missing.length > 0) {
    // A registry may hide its images from anonymous users.
    const isSure = pullSecrets.length === 0 || missing.some(({ answer }) => !answer.isAnonymous);
    findings.push(
      (isSure ? problem : warning)(
        "images",
        `The registry ${host} does not have ${names(missing)}.`,
        `It has no manifest of the digest in images.lock.json${isSure ? "" : ", or hides it from a user who is not logged in"}.`,
        `Run ${push}${isSure ? "" : `, or \`docker login ${host}\` and ask again`}.`,
      ),
    );
  }
  if (refused.length > 0) {
    const isAnonymous = refused.some(({ answer }) => answer.isAnonymous);
    const secrets =
      pullSecrets.length === 0
        ? "images.pullSecrets names no Secret"
        : `images.pullSecrets names ${pullSecrets.join(", ")}`;
    findings.push(
      warning(
        "images",
        `The registry ${host} does not show ${names(refused)} to you.`,
        `It was asked ${isAnonymous ? "without credentials, as Docker's configuration has none for it" : "with the credentials of Docker's configuration"}; the stack's machines may have others, and ${secrets}.`,
        `\`docker login ${host}\` and ask again; machines need a Secret of images.pullSecrets, or credentials of their own.`,
      ),
    );
  }
  if (silent.length > 0)
    findings.push(
      warning(
        "images",
        `The registry ${host} can't be asked for ${names(silent)} from here.`,
        `${silent[0]?.answer.words.replace(/\.$/, "")}. The stack's machines may reach it another way.`,
        "Nothing, if machines of the stack pull from it; else correct images.registry, or open a connection to it.",
      ),
    );
  return findings;
}
