/**
 * Resources of an account before its first stack: repositories of images, the state and its key, and roles for deployment. The same
 * configuration gives the same bytes.
 */
import type { RepositoryArgs } from "@pulumi/aws/ecr/repository.js";
import type { RoleArgs } from "@pulumi/aws/iam/role.js";
import type { BootstrapConfig } from "../../config/bootstrap.ts";
import { partitionOf } from "../catalogue/aws.ts";
import { IMAGE_NAMES, imageSources } from "../docker/images.ts";
import { REPOSITORY_PREFIX, STACK_TAG } from "./context.ts";
import { documentText, fileContent, filled, placeholder } from "./data-files.ts";
import { policyDocument, type RoleTemplate, type Statement } from "./roles.ts";

export type BootstrapPlan = ReturnType<typeof bootstrapPlan>;

/** The command that creates these resources, for errors and fixes. */
export const BOOTSTRAP_COMMAND = "pulumi -C bootstrap up";

/** Copies of NVIDIA's images, which machines then pull without the internet: `npx engine-room images --mirror` fills it. */
export const MIRROR_REPOSITORY = "tritonserver";

/**
 * Enough that stacks which change every day do not expire the images of a stack that does not. Images share layers, which are stored
 * once: NVIDIA's are nearly all of an image.
 */
const KEPT_IMAGES = 100;
/** Tags of releases, each of 10 GB or so. */
const KEPT_MIRRORED = 10;

/** First part of the names of roles and policies: rights over a stack's roles end at `engine-room-<stack>-`, and miss these. */
const NAME_PREFIX = "engine-room.";

const GITHUB_ISSUER = "token.actions.githubusercontent.com";
/** Audience that aws-actions/configure-aws-credentials requests from GitHub. */
const OIDC_AUDIENCE = "sts.amazonaws.com";

/** Documents of the sessions that `npx engine-room connect`, `logs` and `smoke` open on a machine. */
const SESSION_DOCUMENTS = ["AWS-StartInteractiveCommand", "AWS-StartPortForwardingSession"];

/** Subjects of deployer.yaml by job. IAM allows ten policies for a role. */
const SUBJECTS = {
  deploy: ["read", "read-stack", "state", "network", "machines", "cluster", "roles", "storage", "edge"],
  preview: ["read", "read-stack", "state"],
} as const;

/** Kinds of things, as ARNs have them. */
const NETWORK_PARTS = [
  ...["elastic-ip", "internet-gateway", "natgateway", "route-table", "security-group", "security-group-rule"],
  ...["subnet", "vpc", "vpc-endpoint", "vpc-flow-log"],
];
const CLUSTER_PARTS = ["access-entry", "addon", "nodegroup", "podidentityassociation"];
const BALANCER_PARTS = [
  "loadbalancer/app/*/*",
  "targetgroup/*/*",
  "listener/app/*/*/*",
  "listener/net/*/*/*",
];

/** Longest that IAM takes, without white space: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html */
export const POLICY_LENGTH = 6144;

export function bootstrapPlan(config: BootstrapConfig) {
  const { account, region, github, stacks } = config;
  const partition = partitionOf(region);
  const providerArn = `arn:${partition}:iam::${account}:oidc-provider/${GITHUB_ISSUER}`;
  const bucket = `engine-room-state-${account}-${region}`;
  return {
    account,
    region,
    tags: { "app.kubernetes.io/managed-by": "engine-room" },
    registry: `${account}.dkr.ecr.${region}.amazonaws.com/${REPOSITORY_PREFIX}`,
    repositories: repositoryPlans(),
    state: {
      bucket,
      bucketPolicy: documentText("stateBucketPolicy", { partition, bucket }),
      url: `s3://${bucket}?region=${region}`,
    },
    /** null without roles for GitHub, or if the account has its OIDC provider already. */
    oidcProvider:
      github === undefined || github.oidcProviderArn !== undefined
        ? null
        : { url: `https://${GITHUB_ISSUER}`, clientIdLists: [OIDC_AUDIENCE] },
    roles: github === undefined ? [] : githubRoles(stacks, github, github.oidcProviderArn ?? providerArn),
    /** Documents by name; a placeholder stands for the key of the state, which AWS names. */
    policies: policyPlans(config, { partition, bucket }),
  };
}

/** A role for each environment of GitHub, which only its jobs assume. */
function githubRoles(
  stacks: readonly string[],
  { repository, sessionHours }: NonNullable<BootstrapConfig["github"]>,
  providerArn: string,
) {
  const jobs = [
    ...stacks.flatMap((stack) =>
      (["deploy", "preview"] as const).map((job) => ({
        environment: `${job}-${stack}`,
        policies: SUBJECTS[job].map((subject) => policyName(stack, subject)),
      })),
    ),
    { environment: "images", policies: ["images"] },
  ];
  return jobs.map(({ environment, policies }) => ({
    environment,
    policies,
    args: {
      name: `${NAME_PREFIX}${environment}`,
      assumeRolePolicy: policyDocument([
        {
          Effect: "Allow",
          Principal: { Federated: providerArn },
          Action: ["sts:AssumeRoleWithWebIdentity"],
          // https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws
          Condition: {
            StringEquals: {
              [`${GITHUB_ISSUER}:aud`]: OIDC_AUDIENCE,
              [`${GITHUB_ISSUER}:sub`]: `repo:${repository}:environment:${environment}`,
            },
          },
        },
      ]),
      maxSessionDuration: sessionHours * 3600,
    } satisfies RoleArgs,
  }));
}

const policyName = (stack: string, subject: string) => `${stack}-${subject}`;

function policyPlans(config: BootstrapConfig, { partition, bucket }: { partition: string; bucket: string }) {
  const { account, region, stacks, zoneIds, clusterNames, permissionsBoundaryArn } = config;
  const subjects = fileContent<Readonly<Record<string, readonly Statement[]>>>("deployer.yaml");
  const { images = [], ...ofStacks } = subjects;
  const shared = {
    partition,
    account,
    region,
    repositories: REPOSITORY_PREFIX,
    keyArn: placeholder("keyArn"),
  };
  const arn = (service: string, path: string) => `arn:${partition}:${service}:${region}:${account}:${path}`;
  const iam = (path: string) => `arn:${partition}:iam::${account}:${path}`;
  const partsOf = (clusters: readonly string[]) =>
    clusters.flatMap((cluster) => CLUSTER_PARTS.map((kind) => arn("eks", `${kind}/${cluster}/*`)));
  const existingClusters = clusterNames.map((cluster) => arn("eks", `cluster/${cluster}`));
  const plan = (
    name: string,
    statements: readonly Statement[],
    values: Readonly<Record<string, unknown>>,
  ) => {
    const own = filled(statements, { ...shared, ...values });
    return {
      name,
      args: { name: `${NAME_PREFIX}${name}` },
      document: policyDocument(own.filter(({ Resource }) => Resource.length > 0)),
    };
  };
  return [
    plan("images", images, {}),
    ...stacks.flatMap((stack) => {
      const name = `engine-room-${stack}`;
      // With a path before them or without.
      const named = (kind: string) => [iam(`${kind}/${name}-*`), iam(`${kind}/*/${name}-*`)];
      const newTag = { [`aws:RequestTag/${STACK_TAG}`]: stack };
      const values = {
        ...{ stack, name, bucket },
        roles: named("role"),
        profiles: named("instance-profile"),
        rolesAndProfiles: [...named("role"), ...named("instance-profile")],
        unboundRoles: permissionsBoundaryArn === undefined ? named("role") : [],
        managedPolicies: managedPolicies().map((policy) => `arn:${partition}:iam::aws:policy/${policy}`),
        boundary:
          permissionsBoundaryArn === undefined
            ? undefined
            : { ArnEquals: { "iam:PermissionsBoundary": permissionsBoundaryArn } },
        newTag: { StringEquals: newTag },
        ownTag: { StringEquals: { [`aws:ResourceTag/${STACK_TAG}`]: stack } },
        // A resource with a tag of a stack belongs to that stack.
        unowned: { StringEquals: newTag, Null: { [`aws:ResourceTag/${STACK_TAG}`]: "true" } },
        clusterTag: { StringEquals: { "aws:ResourceTag/aws:eks:cluster-name": [name, ...clusterNames] } },
        groupTag: { StringEquals: { "aws:ResourceTag/eks:cluster-name": [name, ...clusterNames] } },
        networkParts: NETWORK_PARTS.map((kind) => arn("ec2", `${kind}/*`)),
        clusterParts: [arn("eks", `cluster/${name}`), ...partsOf([name])],
        existingClusters,
        existingParts: partsOf(clusterNames),
        existingResources: [...existingClusters, ...partsOf(clusterNames)],
        balancerParts: BALANCER_PARTS.map((path) => arn("elasticloadbalancing", path)),
        logGroups: [arn("logs", `log-group:${name}/*`), arn("logs", `log-group:/aws/eks/${name}/*`)],
        secrets: [arn("secretsmanager", `secret:${name}/*`)],
        sessionDocuments: SESSION_DOCUMENTS.map(
          (document) => `arn:${partition}:ssm:${region}::document/${document}`,
        ),
        stateObjects: [
          "meta.yaml",
          `stacks/*/${stack}.*`,
          `history/*/${stack}/*`,
          `backups/*/${stack}/*`,
          `locks/*/${stack}/*`,
        ].map((path) => `arn:${partition}:s3:::${bucket}/.pulumi/${path}`),
        zones: zoneIds.map((id) => `arn:${partition}:route53:::hostedzone/${id}`),
        changes: zoneIds.length === 0 ? [] : [`arn:${partition}:route53:::change/*`],
      };
      return Object.entries(ofStacks).map(([subject, statements]) =>
        plan(policyName(stack, subject), statements, values),
      );
    }),
  ];
}

/** Amazon's policies that roles of stacks have, sorted. That of `networkPolicy` is the network add-on's too. */
function managedPolicies(): readonly string[] {
  const roles = fileContent<Readonly<Record<string, RoleTemplate>>>("roles.yaml");
  const all = Object.values(roles).flatMap(({ managed = [] }) => managed);
  return [...new Set(all)].filter((name) => !name.startsWith("${")).sort();
}

/** Repositories of ECR for all images of the project, whatever stacks there are. Official images stay where they are. */
function repositoryPlans() {
  const built = IMAGE_NAMES.filter((name) => imageSources[name].kind === "built");
  return [...built, MIRROR_REPOSITORY].map((image) => ({
    image,
    args: {
      name: `${REPOSITORY_PREFIX}/${image}`,
      imageTagMutability: "IMMUTABLE",
      imageScanningConfiguration: { scanOnPush: true },
    } satisfies RepositoryArgs,
    policy: documentText("lifecyclePolicy", {
      keptImages: image === MIRROR_REPOSITORY ? KEPT_MIRRORED : KEPT_IMAGES,
    }),
  }));
}
