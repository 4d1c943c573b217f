/** Whether the machines of a stack on AWS find its images. Pure, but for the questions. */
import { ecrHost, ecrImage, ecrReference } from "../aws/ecr.ts";
import type { Answer } from "../aws/session.ts";
import type { AskRegistry, ManifestAnswer } from "../images/registry.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** By reference: of ECR its own API's, of other registries their own. */
export type AwsImageAnswers = ReadonlyMap<string, Answer<true> | ManifestAnswer>;

/** Only those that have a digest are asked for. */
export async function readAwsImages(target: AwsTarget, askOther: AskRegistry): Promise<AwsImageAnswers> {
  const answers = target.images
    .filter(({ reference }) => reference.includes("@sha256:"))
    .map(async ({ reference }) => {
      const ecr = ecrReference(reference);
      return [reference, await (ecr === null ? askOther(reference) : ecrImage(ecr))] as const;
    });
  return new Map(await Promise.all(answers));
}

interface ImageReading {
  readonly images: AwsImageAnswers;
  /** Of ECR's token for `docker login`. */
  readonly login: Answer<unknown>;
}

export function awsImageFindings(target: AwsTarget, { images, login }: ImageReading): readonly Finding[] {
  const { account, stack } = target.context;
  const { registry, repositories } = target.plan.config.images;
  const makes = registry === undefined && repositories === "create";
  const first = makes
    ? `first \`npx engine-room up --stack ${stack} --registries\`, which makes the repositories, then `
    : "";
  const push = `${first}\`npx engine-room images --stack ${stack} --push\` where Docker is`;
  const foreign = target.images.flatMap(({ name, reference }) => {
    const host = ecrHost(reference.split("/")[0] ?? "");
    return host === null || host.account === account ? [] : [{ name, owner: host.account }];
  });
  return [
    ...unanswered("images", login, "nobody knows whether images can be pushed from here"),
    ...target.imageProblems.map(({ reason }) =>
      problem(
        "images",
        "Images of the stack can't be pulled.",
        reason,
        `Run ${push}; then \`npx engine-room up --stack ${stack}\`.`,
      ),
    ),
    ...foreign.map(({ name, owner }) =>
      warning(
        "images",
        `The image ${name} is in a registry of the account ${owner}.`,
        `The stack is in ${account}, whose machines need the other account's consent to pull it.`,
        "Allow it in that repository's policy, or leave `images.registry` out and push to the stack's own account.",
      ),
    ),
    ...target.images.flatMap(({ name, reference }) => {
      const answer = images.get(reference);
      return answer === undefined ? [] : imageFinding({ name, reference, push }, answer);
    }),
  ];
}

function imageFinding(
  { name, reference, push }: { readonly name: string; readonly reference: string; readonly push: string },
  answer: Answer<true> | ManifestAnswer,
): readonly Finding[] {
  const host = reference.split("/")[0];
  switch (answer.kind) {
    case "answer":
    case "there":
      return [];
    case "absent":
    case "missing":
      return [
        problem(
          "images",
          `The registry ${host} does not have ${name}.`,
          `It has no image of the digest that images.lock.json names: ${reference.slice(reference.indexOf("@") + 1)}.`,
          `Run ${push}, which brings it there.`,
        ),
      ];
    case "denied":
      return unanswered("images", answer, `nobody knows from here whether ${host} has ${name}`);
    case "refused":
    case "silent":
      return [
        warning(
          "images",
          `The registry ${host} does not show ${name} to you.`,
          answer.kind === "refused"
            ? "Docker's configuration has no credentials that it takes."
            : `${answer.words.replace(/\.$/, "")}.`,
          "Nothing, if the stack's machines pull from it; else log in, or push the image to ECR.",
        ),
      ];
  }
}
