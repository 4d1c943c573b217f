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
  const references = target.images.flatMap(({ reference }) => reference ?? []);
  const answers = references
    .filter((reference) => reference.includes("@sha256:"))
    .map(async (reference) => {
      const ecr = ecrReference(reference);
      return [reference, await (ecr === null ? askOther(reference) : ecrImage(ecr))] as const;
    });
  return new Map(await Promise.all(answers));
}

/** What makes the repositories, pushes the images and locks their digests. */
export function pushCommand({ context: { stack } }: AwsTarget): string {
  return `\`npm run images -- --stack ${stack} --push\` where Docker is`;
}

export function awsImageFindings(
  target: AwsTarget,
  { answers, login }: { readonly answers: AwsImageAnswers; readonly login: Answer<unknown> },
): readonly Finding[] {
  const { account } = target.context;
  const unlocked = target.images.filter(({ reference }) => reference?.includes("@sha256:") !== true);
  const foreign = target.images.flatMap(({ name, reference }) => {
    const host = ecrHost(reference?.split("/")[0] ?? "");
    return host === null || host.account === account ? [] : [{ name, account: host.account }];
  });
  return [
    ...unanswered("images", login, "nobody knows whether images can be pushed from here"),
    ...(unlocked.length === 0
      ? []
      : [
          problem(
            "images",
            `images.lock.json has no digest of ${unlocked.map(({ name }) => name).join(", ")}.`,
            "Machines pull images by their digests, and none of this content was pushed.",
            `Run ${pushCommand(target)}, then \`npm run up\`.`,
          ),
        ]),
    ...foreign.map(({ name, account: other }) =>
      warning(
        "images",
        `The image ${name} is in the registry of the account ${other}.`,
        `The stack is in ${account}, whose machines need the other account's consent to pull it.`,
        `Allow it in that repository's policy, or run ${pushCommand(target)} to push it to the stack's own account.`,
      ),
    ),
    ...target.images.flatMap(({ name, reference }) => {
      const answer = reference === null ? undefined : answers.get(reference);
      return answer === undefined || reference === null
        ? []
        : imageFinding(target, { name, reference, answer });
    }),
  ];
}

function imageFinding(
  target: AwsTarget,
  {
    name,
    reference,
    answer,
  }: { readonly name: string; readonly reference: string; readonly answer: Answer<true> | ManifestAnswer },
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
          `It has no image of the digest that images.lock.json names, ${reference.slice(reference.indexOf("@") + 1)}.`,
          `Delete the entry of the lock file, and run ${pushCommand(target)}.`,
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
