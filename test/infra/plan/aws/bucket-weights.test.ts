/** Weights in buckets: whose builds read them on EKS, with which rights, and where stack files may have them. */
import { expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { neededImages } from "../../../../infra/plan/images.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { eksValues, plannedCluster } from "./eks-plans.ts";

const TOKEN_ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf";

const inBucket = (name: string, uri: string) => ({
  name,
  model: "gpt2-medium",
  weights: { from: "s3", uri, revision: name },
});
const models = [
  inBucket("one", "s3://company-models/team/gpt2"),
  inBucket("two", "s3://company-models/team/gpt2-b/"),
  inBucket("three", "s3://others/gpt2"),
  { name: "hub", model: "gpt2-medium" },
];

const pools = [
  { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 4 } },
  { name: "cpu", instanceType: "m7i.xlarge" },
];
const buckets = { models, pools, encoders: false };

function objectsOf(changes: Parameters<typeof plannedCluster>[0]) {
  const { plan } = plannedCluster(changes);
  const images = neededImages(plan).map((name) => ({ name, reference: name }));
  return kubernetesStack(plan, { stack: "demo", images });
}

const accounts = (changes: Parameters<typeof plannedCluster>[0]) =>
  objectsOf(changes).builds.map(({ models: [model], pod }) => [model, pod.template.spec.serviceAccountName]);

test("builds of weights in buckets have a role that reads their prefixes and nothing else", () => {
  const { cluster } = plannedCluster({ ...buckets, namespace: "models" });
  expect(cluster.podRoles).toHaveLength(1);
  const [role] = cluster.podRoles;
  expect(role?.serviceAccount).toEqual({ namespace: "models", serviceAccount: "engine-build" });
  expect(role?.statements).toEqual([
    {
      Sid: "ReadWeights",
      Effect: "Allow",
      Action: ["s3:GetObject"],
      Resource: [
        "arn:aws:s3:::company-models/team/gpt2-b/*",
        "arn:aws:s3:::company-models/team/gpt2/*",
        "arn:aws:s3:::others/gpt2/*",
      ],
    },
    {
      Sid: "ListWeights",
      Effect: "Allow",
      Action: ["s3:ListBucket"],
      Resource: ["arn:aws:s3:::company-models", "arn:aws:s3:::others"],
      Condition: { StringLike: { "s3:prefix": ["gpt2/*", "team/gpt2-b/*", "team/gpt2/*"] } },
    },
  ]);
  expect(accounts(buckets)).toEqual([
    ["one", "engine-build"],
    ["two", "engine-build"],
    ["three", "engine-build"],
    ["hub", undefined],
  ]);
});

test("only builds with weights in a bucket reach the agent that gives pods their role", () => {
  const agent = (changes: Parameters<typeof plannedCluster>[0]) =>
    objectsOf(changes)
      .policies.filter(({ policy }) => JSON.stringify(policy).includes("169.254.170.23/32"))
      .map(({ role, policy }) => [role, policy.spec.egress?.at(-1)?.ports]);
  expect(agent(buckets)).toEqual([["engineBuild", [{ port: 80, protocol: "TCP" }]]]);
  expect(agent({})).toEqual([]);
});

test("a token in Secrets Manager and weights in a bucket are one account and one role", () => {
  const both = { ...buckets, hub: { tokenSecretArn: TOKEN_ARN } };
  const { bucketAccount, secretProviders } = objectsOf(both);
  expect([bucketAccount, secretProviders.map(({ account }) => account.metadata.name)]).toEqual([
    null,
    ["engine-build"],
  ]);
  const { podRoles } = plannedCluster(both).cluster;
  expect(podRoles.map(({ statements }) => statements.map(({ Sid }) => Sid))).toEqual([
    ["ReadToken", "ReadWeights", "ListWeights"],
  ]);
  const { bucketAccount: alone } = objectsOf(buckets);
  expect(alone).toMatchObject({
    kind: "ServiceAccount",
    metadata: { name: "engine-build" },
    automountServiceAccountToken: false,
  });
  expect([objectsOf({}).bucketAccount, plannedCluster().cluster.podRoles]).toEqual([null, []]);
});

test("weights in a bucket are for builds with a role of AWS: those of a cluster on EKS and of Docker on a machine of EC2", () => {
  const problems = (values: object) =>
    readStack({ ...values, models: [inBucket("one", "s3://company-models/gpt2")] }).problems.filter(
      ({ path }) => path.startsWith("models[0].weights"),
    );
  expect(problems(eksValues)).toEqual([]);
  expect(problems({ platform: "docker", host: {} })).toEqual([]);
  for (const values of [{ platform: "kubernetes" }, { ...eksValues, compute: "ec2" }])
    expect(problems(values), JSON.stringify(values)).toMatchObject([
      { path: "models[0].weights.from", reason: expect.stringContaining("no role of AWS") },
    ]);
});
