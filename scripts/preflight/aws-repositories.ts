/** Whether the account's repositories are there for those that use them, and not there for who makes them. */
import { repositoryPlans } from "../../infra/plan/aws/account.ts";
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { ecrRepositories, ecrRepositoryTags } from "../aws/ecr.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem } from "./finding.ts";

/** Tags of each repository that is there, of those that the stack's images are in; null: they are in another registry. */
export type RepositoryReading = Answer<ReadonlyMap<string, ReadonlyMap<string, string>>> | null;

/** Of the account's own registry, whoever makes them. */
function repositoriesOf({ plan: { config }, context, images }: AwsTarget): readonly string[] {
  return repositoryPlans(
    { ...config, images: { ...config.images, repositories: "create" } },
    context,
    images.map(({ name }) => name),
  ).map(({ args }) => args.name);
}

export async function readRepositories(target: AwsTarget): Promise<RepositoryReading> {
  const names = repositoriesOf(target);
  if (names.length === 0) return null;
  const { region, account } = target.context;
  const found = await ecrRepositories(region, account, names);
  if (found.kind !== "answer") return found;
  return ecrRepositoryTags(region, found.value);
}

export function repositoryFindings(target: AwsTarget, reading: RepositoryReading): readonly Finding[] {
  if (reading === null) return [];
  if (reading.kind !== "answer")
    return unanswered("repositories", reading, "nobody knows whose the account's repositories are");
  const { account, region, stack } = target.context;
  if (target.plan.config.images.repositories === "existing") {
    const missing = repositoriesOf(target).filter((name) => !reading.value.has(name));
    if (missing.length === 0) return [];
    return [
      problem(
        "repositories",
        `ECR has no ${missing.join(", ")}.`,
        `The stack file says \`images.repositories: existing\`, so that another stack of ${account} makes them in ${region}, and none has.`,
        `Run \`npx engine-room up --stack OTHER --registries\` for that stack, or leave \`repositories\` out of ${stack}.`,
      ),
    ];
  }
  const foreign = [...reading.value].filter(([, tags]) => tags.get(STACK_TAG) !== stack);
  if (foreign.length === 0) return [];
  const owners = [...new Set(foreign.map(([, tags]) => tags.get(STACK_TAG) ?? "nobody's stack"))];
  return [
    problem(
      "repositories",
      `${foreign.map(([name]) => name).join(", ")} ${foreign.length === 1 ? "is" : "are"} there already, and not of ${stack}.`,
      `By the tag ${STACK_TAG} ${foreign.length === 1 ? "it is" : "they are"} of ${owners.toSorted().join(", ")}; \`npx engine-room up\` would make ${foreign.length === 1 ? "it" : "them"} again, which ECR refuses (RepositoryAlreadyExistsException).`,
      "Write `images: { repositories: existing }`: repositories are of all stacks of the account in the region.",
    ),
  ];
}
