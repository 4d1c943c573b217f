/** Everything that a stack makes in an account. Same plan, same bytes. */
import type { BudgetArgs } from "@pulumi/aws/budgets/budget.js";
import type { RepositoryArgs } from "@pulumi/aws/ecr/repository.js";
import type { AwsConfig } from "../../config/aws-stacks.ts";
import type { GpuCost } from "../cost/types.ts";
import type { DockerStack } from "../docker/docker-stack.ts";
import { imageSource } from "../docker/image-sources.ts";
import type { ImageName } from "../docker/types.ts";
import type { AwsPlan, Ec2Plan, EksPlan } from "../gpu-stack.ts";
import { awsContext, plainName, REPOSITORY_PREFIX, STACK_TAG } from "./context.ts";
import { edgePlan } from "./edge.ts";
import { eksClusterPlan } from "./eks-cluster.ts";
import { fileSystemPlan } from "./file-system.ts";
import { instancePlan } from "./machine/instance.ts";
import { networkPlan } from "./network.ts";
import type { AwsContext } from "./types.ts";

export type EksStack = ReturnType<typeof eksStack>;
export type Ec2Stack = ReturnType<typeof ec2Stack>;
export type AccountParts = ReturnType<typeof accountParts>;
export type RepositoryPlan = ReturnType<typeof repositoryPlans>[number];

/** Images of all stacks with GPUs, needed or not: stacks of an account share repositories, and `down` deletes those with images. */
const BUILT_IMAGES: readonly ImageName[] = ["services", "trtllm", "encoders"];

/** Copies of NVIDIA's images, which machines then pull without the internet: `npm run images -- --mirror` fills it. */
export const MIRROR_REPOSITORY = "tritonserver";

/**
 * Enough that stacks which change every day do not expire the images of a stack that does not. Images share layers, which are stored
 * once: NVIDIA's are nearly all of an image.
 */
const KEPT_IMAGES = 100;
/** Tags of releases, each of 10 GB or so. */
const KEPT_MIRRORED = 10;

/** https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html */
const LONGEST_BUDGET_NAME = 100;

/** Percent of the month's amount. */
const ALARMS = [
  { notificationType: "ACTUAL", threshold: 80 },
  { notificationType: "FORECASTED", threshold: 100 },
];

/**
 * Room for unpriced costs: traffic, logs, requests, images, and engines that are built again. Where something has no price the plan's
 * month is a lower bound and a fifth is too little: the stack file then names the amount, or prices (check `budgetHasAmount`).
 */
const UNPRICED_SHARE = 1.2;

export function eksStack(plan: EksPlan, stack: string) {
  const context = awsContext(plan.config, stack);
  return { ...accountParts(plan, context), cluster: eksClusterPlan(plan, context) };
}

/** @param host - Containers of the instance. */
export function ec2Stack(plan: Ec2Plan, stack: string, host: DockerStack) {
  const context = awsContext(plan.config, stack);
  return { ...accountParts(plan, context), instance: instancePlan(plan, host, context) };
}

function accountParts(plan: AwsPlan, context: AwsContext) {
  const { config } = plan;
  return {
    context,
    network: networkPlan(config, context),
    fileSystem: fileSystemPlan(config, context),
    repositories: repositoryPlans(config, context, BUILT_IMAGES),
    edge: edgePlan(plan, context),
    budget: budgetArgs(config, plan.cost, context),
  };
}

/**
 * Repositories of ECR: none where images come from a registry of the stack file, or where another stack of the account makes them.
 * Official images stay where they are.
 */
export function repositoryPlans(
  { images }: AwsConfig,
  { isRetained }: Pick<AwsContext, "isRetained">,
  imageNames: readonly ImageName[],
) {
  if (images.registry !== undefined || images.repositories === "existing") return [];
  const built = imageNames.filter((name) => imageSource(name).kind === "built");
  return [...built, MIRROR_REPOSITORY].map((image) => ({
    image,
    args: {
      name: `${REPOSITORY_PREFIX}/${image}`,
      imageTagMutability: "IMMUTABLE",
      imageScanningConfiguration: { scanOnPush: true },
      forceDelete: !isRetained,
    } satisfies RepositoryArgs,
    policy: lifecyclePolicy(image === MIRROR_REPOSITORY ? KEPT_MIRRORED : KEPT_IMAGES),
  }));
}

/**
 * JSON of the rules by which ECR deletes images. A manifest that another image refers to does not count as untagged.
 * https://docs.aws.amazon.com/AmazonECR/latest/userguide/LifecyclePolicies.html
 */
function lifecyclePolicy(keptImages: number): string {
  const rule = (rulePriority: number, description: string, selection: object) => ({
    rulePriority,
    description,
    selection,
    action: { type: "expire" },
  });
  return JSON.stringify({
    rules: [
      rule(1, "What has no tag any more", {
        tagStatus: "untagged",
        countType: "sinceImagePushed",
        countUnit: "days",
        countNumber: 1,
      }),
      rule(2, `All but the newest ${keptImages}`, {
        tagStatus: "any",
        countType: "imageCountMoreThan",
        countNumber: keptImages,
      }),
    ],
  });
}

/** @param cost - Of the plan: its month is the budget's where the stack file names none. @returns null without e-mail addresses. */
export function budgetArgs({ guard: { emails, monthlyUsd } }: AwsConfig, cost: GpuCost, context: AwsContext) {
  if (emails.length === 0) return null;
  const planned = monthlyUsd ?? cost.monthlyUsd;
  if (planned === null) throw new Error("A budget of a stack without any price has no amount.");
  return {
    name: plainName(context.name, LONGEST_BUDGET_NAME),
    budgetType: "COST",
    timeUnit: "MONTHLY",
    limitAmount: String(monthlyUsd ?? Math.max(1, Math.ceil(planned * UNPRICED_SHARE))),
    limitUnit: "USD",
    costFilters: [{ name: "TagKeyValue", values: [`user:${STACK_TAG}$${context.stack}`] }],
    notifications: ALARMS.map((alarm) => ({
      ...alarm,
      comparisonOperator: "GREATER_THAN",
      thresholdType: "PERCENTAGE",
      subscriberEmailAddresses: [...emails],
    })),
  } satisfies BudgetArgs;
}
