/** The project's own stacks on AWS, and its example of one machine, without an engine. */
import { join } from "node:path";
import { ADDABLE_ADD_ONS, CHART_NAMES } from "../../../infra/plan/catalogue/aws.ts";
import type { Registration } from "../../../scripts/program/monitor.ts";
import { runProgram } from "../../../scripts/program/run-program.ts";
import type { Properties } from "../../../scripts/program/serialized.ts";
import {
  projectRoot,
  type RuntimeConfig,
  readStackFile,
  stackReference,
} from "../../../scripts/program/stack-file.ts";
import { type RenderedStack, renderStack } from "../../../scripts/render.ts";
import { EXISTING_CLUSTER_STACK, PUBLIC_GATEWAY } from "../../harness/aws/stacks.ts";
import { projectStackValues } from "../../harness/stack-files.ts";
import { Engine, last, program, runtimeConfig } from "./program.ts";

export type RenderedResource = RenderedStack["resources"][number];

const configs = {
  dev: () => stackConfig("dev"),
  prod: () => stackConfig("prod"),
  ec2: () => stackConfig("ec2"),
  company: () => companyConfig("Pulumi.prod.yaml", IN_CLUSTER),
  "company-ec2": () => companyConfig("examples/ec2.yaml"),
  /** In an existing cluster, with all that a stack can bring into one. */
  existing: () => runtimeConfig({ ...EXISTING_CLUSTER_STACK, cluster: LACKING_CLUSTER }),
} as const;
export type AwsStackName = keyof typeof configs;

/** Values of one of the project's stack files, or of an example. */
export function stackConfig(stack: string): RuntimeConfig {
  const file = stack === "ec2" ? "examples/ec2.yaml" : `Pulumi.${stack}.yaml`;
  return readStackFile(stackReference(stack, join(projectRoot, file)));
}

/** A stack file with the additions of a company. */
export function companyConfig(file: string, own: object = {}): RuntimeConfig {
  return runtimeConfig({ ...projectStackValues(file), ...COMPANY, ...own });
}

const LACKING_CLUSTER = {
  existing: { ...EXISTING_CLUSTER_STACK.cluster.existing, addOns: [...ADDABLE_ADD_ONS] },
  charts: Object.fromEntries(CHART_NAMES.map((name) => [name, "install"])),
};

export const COMPANY_IAM = {
  permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/team/boundary",
  path: "/team/models/",
};

export const COMPANY_TAGS = { "cost-center": "A 42+1=43", "Data/Class:x": "no@where", Équipe: "modèles" };

const COMPANY = {
  kmsKeyArn: "arn:aws:kms:us-east-1:111122223333:key/12345678-1234-1234-1234-123456789012",
  databaseStorage: { backupDays: 14 },
  guard: { emails: ["ops@example.org"], scope: "account" },
  iam: COMPANY_IAM,
  tags: COMPANY_TAGS,
  gateway: {
    ...withoutTls(PUBLIC_GATEWAY),
    allowedCidrs: ["203.0.113.0/24", "198.51.100.7/32"],
    wafAclArn: `arn:aws:wafv2:us-east-1:111122223333:regional/webacl/models/12345678`,
    accessLogsBucket: "example-access-logs",
  },
  logs: { cloudwatch: { retentionDays: 90 } },
};

const IN_CLUSTER = {
  access: {
    endpoint: "private",
    privateCidrs: ["10.1.0.0/16"],
    creatorIsAdmin: false,
    admins: ["arn:aws:iam::111122223333:role/team/deployer"],
    viewers: ["arn:aws:iam::111122223333:role/team/auditors"],
  },
  monitoringOptions: { snsTopicArn: "arn:aws:sns:us-east-1:111122223333:alerts" },
  cluster: {
    controlPlaneLogs: [],
    chartValues: { "cluster-autoscaler": { replicaCount: 2 } },
    mirror: { images: "mirror.example.org/images", charts: "mirror.example.org/charts" },
  },
  models: [
    {
      name: "gpt2-medium",
      model: "gpt2-medium",
      pool: "a10g",
      weights: { from: "s3", uri: "s3://company-models/gpt2", revision: "v1" },
    },
  ],
};

function withoutTls({ tls: _tls, ...gateway }: typeof PUBLIC_GATEWAY) {
  return gateway;
}

export class AwsGraph {
  readonly resources: readonly RenderedResource[];
  readonly outputs: Properties;
  readonly #byUrn: ReadonlyMap<string, RenderedResource>;

  constructor({ resources, outputs }: RenderedStack) {
    this.resources = resources;
    this.outputs = outputs;
    this.#byUrn = new Map(resources.map((one) => [one.urn, one]));
  }

  /** @throws Error unless exactly one resource has the name. */
  named(name: string): RenderedResource {
    const [found, ...others] = this.resources.filter((one) => one.custom && withoutKeys(one.name) === name);
    if (found === undefined || others.length > 0)
      throw new Error(`The graph has ${others.length + (found === undefined ? 0 : 1)} resources ${name}.`);
    return found;
  }

  ofType(type: string): readonly RenderedResource[] {
    return this.resources.filter((one) => one.type === type);
  }

  /**
   * Names of all resources that are created before a resource and deleted after it: its dependencies, provider and
   * parents, and theirs in turn.
   */
  before(name: string): ReadonlySet<string> {
    const seen = new Set<string>();
    const open = this.resources.filter((one) => withoutKeys(one.name) === name).map(({ urn }) => urn);
    if (open.length === 0) throw new Error(`The graph has no resource ${name}.`);
    for (let urn = open.pop(); urn !== undefined; urn = open.pop()) {
      if (seen.has(urn)) continue;
      seen.add(urn);
      const { dependencies = [], provider = "", parent = "" } = this.#byUrn.get(urn) ?? {};
      open.push(...dependencies, ...[provider, parent].filter((one) => one !== ""));
    }
    return new Set([...seen].map((urn) => withoutKeys(last(urn))));
  }
}

/** Names without hashes of content. */
export function withoutKeys(name: string): string {
  return name.replaceAll(/-[0-9a-f]{12}(?=[- ]|$)/g, "-KEY");
}

/** Graph of a first preview: values that only AWS knows are unknown. */
export async function awsGraph(name: AwsStackName): Promise<AwsGraph> {
  const config = configs[name]();
  return new AwsGraph(await renderStack(name, config, program(config)));
}

/** Registered resources where AWS has answered everything. */
export async function madeResources(name: AwsStackName): Promise<readonly Registration[]> {
  const config = configs[name]();
  const engine = new Engine(answered);
  // Images without a digest are an error of an `up`, and not of a preview; the answers contain known values.
  await runProgram({ stack: name, config, preview: true, owner: engine, program: program(config) });
  return engine.made;
}

/** Outputs of AWS's resources in addition to their inputs, for resources that use them. */
function answered({ type, name, inputs }: Registration): Properties {
  const more: Readonly<Record<string, Properties>> = {
    "aws:eks/nodeGroup:NodeGroup": { resources: [{ autoscalingGroups: [{ name: `group-of-${name}` }] }] },
    "aws:eks/cluster:Cluster": {
      endpoint: "https://cluster.example.org",
      certificateAuthority: { data: "Y2VydGlmaWNhdGU=" },
      vpcConfig: { ...(inputs.vpcConfig as object | undefined), clusterSecurityGroupId: "sg-0" },
    },
    "aws:ec2/launchTemplate:LaunchTemplate": { latestVersion: 1 },
    "aws:acm/certificate:Certificate": {
      domainValidationOptions: [
        {
          domainName: inputs.domainName,
          resourceRecordName: `_1.${String(inputs.domainName)}.`,
          resourceRecordType: "CNAME",
          resourceRecordValue: "_2.acm-validations.aws.",
        },
      ],
    },
    "aws:backup/vault:Vault": { name: "backups-vault-0" },
    "aws:route53/record:Record": { fqdn: inputs.name },
    "aws:lb/loadBalancer:LoadBalancer": { dnsName: "balancer.example.org", zoneId: "Z0" },
    "aws:secretsmanager/secretVersion:SecretVersion": { versionId: `version-of-${name}` },
  };
  return { ...inputs, arn: `arn-of-${name}`, ...more[type] };
}
