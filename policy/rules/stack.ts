/** Rules about the stack as a whole: labels, price and releases. */
import { isReleaseTag, releases } from "../../infra/plan/catalogue/releases.ts";
import type { Release } from "../../infra/plan/catalogue/types.ts";
import {
  at,
  type Check,
  type Finding,
  listAt,
  type Rule,
  textAt,
  UNKNOWN,
  undecided,
  violatedIf,
} from "../rule.ts";

/** https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/ */
const KUBERNETES_LABELS = [
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/name",
];

/** Types that components create and that have no `tags`: `ec2/route` is aws:ec2/route:Route. All others must have tags. */
const AWS_WITHOUT_TAGS = new Set([
  "autoscaling/tag",
  "ec2/route",
  "ec2/routeTableAssociation",
  "ec2/volumeAttachment",
  "ecr/lifecyclePolicy",
  "efs/backupPolicy",
  "efs/fileSystemPolicy",
  "efs/mountTarget",
  "eks/accessPolicyAssociation",
  "iam/rolePolicy",
  "iam/rolePolicyAttachment",
  "kms/alias",
  "lb/targetGroupAttachment",
  "route53/record",
  "secretsmanager/secretVersion",
]);

const LABELS_FIX = "Give it the labels that the plan makes for every object.";

function missingLabels(
  property: string,
  labels: unknown,
  names: readonly string[],
  fix: string,
): readonly Finding[] {
  if (labels === UNKNOWN) return [undecided(property)];
  const missing = names.filter((name) => at(labels, name) === undefined || at(labels, name) === "");
  const reason = `${property} lacks ${missing.join(", ")}: nobody sees which stack it belongs to.`;
  return violatedIf(missing.length > 0, reason, fix);
}

/** Of pairs, as Docker and auto-scaling groups have them. */
function fromPairs(pairs: unknown, key: string): unknown {
  return Array.isArray(pairs)
    ? Object.fromEntries(pairs.map((pair) => [String(at(pair, key)), at(pair, "value")]))
    : pairs;
}

const dockerLabels: Check = ({ inputs }) =>
  missingLabels("labels", fromPairs(inputs.labels, "label"), ["engine-room.stack"], LABELS_FIX);

/** By labels and tags resources are found, billed, and deleted when they were left behind. */
export const resourcesAreLabelled: Rule = {
  description: "Objects, containers and cloud resources say which stack they belong to.",
  level: "mandatory",
  scope: "resource",
  checks: {
    "kubernetes:*": ({ type, inputs: { metadata } }) => {
      // The objects of charts have labels of their own.
      if (type.startsWith("kubernetes:helm.sh/")) return [];
      const labels = metadata === UNKNOWN ? UNKNOWN : at(metadata, "labels");
      return missingLabels("metadata.labels", labels, KUBERNETES_LABELS, LABELS_FIX);
    },
    // An image has the labels of its Dockerfile.
    "docker:index/container:Container": dockerLabels,
    "docker:index/network:Network": dockerLabels,
    "docker:index/volume:Volume": dockerLabels,
    "aws:*": ({ type, inputs: { tags } }) => {
      const fix =
        "Give it the tags that components give every resource; types without tags are listed in policy/rules/stack.ts.";
      return AWS_WITHOUT_TAGS.has(type.split(":")[1] ?? "")
        ? []
        : missingLabels("tags", fromPairs(tags, "key"), ["engine-room:stack"], fix);
    },
  },
};

/** The price is that of the plan, which all scripts show. */
export const priceIsBelowCap: Rule = {
  description: "The stack costs no more per hour than policies.hourlyUsdCap of its stack file.",
  level: "mandatory",
  scope: "outputs",
  check({ cost }, { hourlyUsdCap, platform }) {
    if (hourlyUsdCap === null) return [];
    const hourlyUsd = at(cost, "hourlyUsd");
    // null: nothing that the stack pays for has a price.
    const atLeastUsd = hourlyUsd === null ? 0 : hourlyUsd;
    if (typeof atLeastUsd !== "number") return [undecided("cost.hourlyUsd")];
    const cap = `${hourlyUsdCap.toFixed(2)} USD`;
    const withoutPrice = listAt(cost, "withoutPrice").filter((name) => typeof name === "string");
    if (atLeastUsd <= hourlyUsdCap)
      return violatedIf(
        hourlyUsd === null || withoutPrice.length > 0,
        `Whether the stack costs less than its cap of ${cap} an hour can't be judged: no price is known for ${withoutPrice.join(", ") || "what the stack pays for"}.`,
        "Write what an hour costs into the stack file; `npm run plan` names the keys.",
      );
    return [
      {
        reason: `The stack costs ${atLeastUsd.toFixed(2)} USD an hour with all machines of its plan, and its cap is ${cap}.`,
        fix: `Plan fewer or smaller machines (\`npm run plan\` says what each costs on ${platform}), or raise policies.hourlyUsdCap.`,
      },
    ];
  },
};

/** A runtime that upstream has given up gets no fixes. */
export const releaseHasFixes: Rule = {
  description: "No model runs on a release and runtime that upstream has given up.",
  // All releases that build engines have lost their upstream, and engines are what this project is mostly used for.
  level: "advisory",
  scope: "outputs",
  check: ({ models }) =>
    models === UNKNOWN
      ? [undecided("models")]
      : listAt(models).flatMap((model) => {
          const [name, tag, key] = [textAt(model, "name"), at(model, "release"), at(model, "engineKey")];
          if (tag === UNKNOWN || key === UNKNOWN) return [undecided(`the release of ${name ?? "a model"}`)];
          // Models of `tier: cpu` run on no release.
          if (typeof tag !== "string" || !isReleaseTag(tag)) return [];
          const { endOfLife = [] }: Release = releases[tag];
          const runtime = typeof key === "string" ? "engine" : "llmapi";
          return endOfLife
            .filter((end) => end.runtime === runtime)
            .map(({ statement, source }) => ({
              reason: `${name ?? "A model"} runs on ${tag} with runtime ${runtime}: ${statement} ${source}`,
              fix: "Move text models to `runtime: llmapi` on a newer release; else let nobody but the gateway reach Triton's own ports.",
            }));
        }),
};
