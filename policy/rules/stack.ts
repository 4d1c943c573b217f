/** Rules about the stack as a whole: labels, price and releases. */
import { isReleaseTag, releases } from "../../infra/plan/catalogue/releases.ts";
import { at, type Check, listAt, type Rule, STACK, textAt, UNKNOWN, undecided, violatedIf } from "../rule.ts";

/** @param pairKey - Key of the name in lists of pairs, which Docker and auto-scaling groups have. */
function labelled(property: string, names: readonly string[], fix: string, pairKey = ""): Check {
  return ({ inputs }) => {
    const found = at(inputs, ...property.split("."));
    if (found === UNKNOWN) return undecided(property);
    const labels = Array.isArray(found)
      ? Object.fromEntries(found.map((pair) => [String(at(pair, pairKey)), at(pair, "value")]))
      : found;
    const missing = names.filter((name) => at(labels, name) === undefined || at(labels, name) === "");
    const reason = `${property} lacks ${missing.join(", ")}: its stack can't be identified.`;
    return violatedIf(missing.length > 0, reason, fix);
  };
}

const LABELS_FIX = "Give it the labels that the plan makes for every object.";

const dockerLabels = labelled("labels", ["engine-room.stack"], LABELS_FIX, "label");

/** Types that components create and that have no labels or tags of their own. */
const UNLABELLED = [
  // The objects of a chart have those of the chart.
  "kubernetes:helm.sh/v3:Release",
  "aws:acm/certificateValidation:CertificateValidation",
  "aws:autoscaling/tag:Tag",
  "aws:backup/selection:Selection",
  "aws:ec2/route:Route",
  "aws:ec2/routeTableAssociation:RouteTableAssociation",
  "aws:ec2/volumeAttachment:VolumeAttachment",
  "aws:ecr/lifecyclePolicy:LifecyclePolicy",
  "aws:efs/backupPolicy:BackupPolicy",
  "aws:efs/fileSystemPolicy:FileSystemPolicy",
  "aws:efs/mountTarget:MountTarget",
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
  "aws:iam/rolePolicy:RolePolicy",
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
  "aws:kms/alias:Alias",
  "aws:lb/targetGroupAttachment:TargetGroupAttachment",
  "aws:route53/record:Record",
  "aws:s3/bucketPolicy:BucketPolicy",
  "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
  "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
  "aws:s3/bucketVersioning:BucketVersioning",
  "aws:secretsmanager/secretVersion:SecretVersion",
  "aws:wafv2/webAclAssociation:WebAclAssociation",
];

/** By labels and tags resources are found, billed, and deleted when they were left behind. */
export const resourcesAreLabelled: Rule = {
  description: "Objects, containers and cloud resources say which stack they belong to.",
  scope: "resource",
  checks: {
    ...Object.fromEntries(UNLABELLED.map((type): [string, Check] => [type, () => []])),
    // https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
    "kubernetes:*": labelled(
      "metadata.labels",
      ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/name"],
      LABELS_FIX,
    ),
    // An image has the labels of its Dockerfile.
    "docker:index/container:Container": dockerLabels,
    "docker:index/network:Network": dockerLabels,
    "docker:index/volume:Volume": dockerLabels,
    "aws:*": labelled(
      "tags",
      ["engine-room:stack"],
      "Give it the tags that components give every resource; types without tags are listed in policy/rules/stack.ts.",
      "key",
    ),
  },
};

/** The price is that of the plan, which all scripts show. */
export const priceIsBelowCap: Rule = {
  description: "The stack costs no more per hour than policies.hourlyUsdCap of its stack file.",
  scope: "stack",
  checks: {
    [STACK]: ({ inputs: { cost } }, { facts: { hourlyUsdCap, platform } }) => {
      if (hourlyUsdCap === null) return [];
      const hourlyUsd = at(cost, "hourlyUsd");
      // null when no billed part of the stack has a price.
      const atLeastUsd = hourlyUsd === null ? 0 : hourlyUsd;
      if (typeof atLeastUsd !== "number") return undecided("cost.hourlyUsd");
      const cap = `${hourlyUsdCap.toFixed(2)} USD`;
      if (atLeastUsd > hourlyUsdCap)
        return [
          {
            reason: `The stack costs ${atLeastUsd.toFixed(2)} USD an hour with all machines of its plan, and its cap is ${cap}.`,
            fix: `Plan fewer or smaller machines (\`npx engine-room plan\` says what each costs on ${platform}), or raise policies.hourlyUsdCap.`,
          },
        ];
      const withoutPrice = listAt(cost, "withoutPrice").filter((name) => typeof name === "string");
      return violatedIf(
        hourlyUsd === null || withoutPrice.length > 0,
        `Whether the stack costs less than its cap of ${cap} an hour can't be judged: no price is known for ${withoutPrice.join(", ") || "what the stack pays for"}.`,
        "Write what an hour costs into the stack file; `npx engine-room plan` names the keys.",
      );
    },
  },
};

/** A runtime that upstream has given up gets no fixes. */
export const releaseHasFixes: Rule = {
  description: "No model runs on a release and runtime that upstream has given up.",
  // Upstream has given up all releases that build engines, and this project mostly serves engines.
  level: "advisory",
  scope: "stack",
  checks: {
    [STACK]: ({ inputs: { models } }) =>
      models === UNKNOWN
        ? undecided("models")
        : listAt(models).flatMap((model) => {
            const [name, tag, key] = [textAt(model, "name"), at(model, "release"), at(model, "engineKey")];
            if (tag === UNKNOWN || key === UNKNOWN) return undecided(`the release of ${name ?? "a model"}`);
            // Models of `tier: cpu` run on no release.
            if (typeof tag !== "string" || !isReleaseTag(tag)) return [];
            const runtime = typeof key === "string" ? "engine" : "llmapi";
            return releases[tag].endOfLife
              .filter((end) => end.runtime === runtime)
              .map(({ statement, source }) => ({
                reason: `${name ?? "A model"} runs on ${tag} with runtime ${runtime}: ${statement} ${source}`,
                fix: "Move text models to `runtime: llmapi` on a newer release; else allow only the gateway to reach Triton's own ports.",
              }));
          }),
  },
};
