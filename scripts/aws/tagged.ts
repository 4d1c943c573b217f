/** What an account still has of a stack, by the tag that everything of it has. */
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { type Answer, allPages, ask, clientSettings } from "./session.ts";

/** ARNs of the region that have a stack's tag. The API keeps some for a while that are deleted. */
export async function taggedArns(region: string, stack: string): Promise<Answer<readonly string[]>> {
  const { ResourceGroupsTaggingAPIClient, paginateGetResources } = await import(
    "@aws-sdk/client-resource-groups-tagging-api"
  );
  const client = new ResourceGroupsTaggingAPIClient(clientSettings(region));
  return ask("tag:GetResources", async (options) => {
    const found = await allPages(
      paginateGetResources({ client }, { TagFilters: [{ Key: STACK_TAG, Values: [stack] }] }, options),
      (page) => page.ResourceTagMappingList,
    );
    return found.flatMap(({ ResourceARN }) => ResourceARN ?? []).toSorted();
  });
}

/** A kind of thing that costs money while it is there. */
interface CostlyKind {
  /** Of an ARN, after the account. */
  readonly pattern: RegExp;
  readonly service: string;
  readonly what: string;
  /** What it costs by. */
  readonly costs: string;
  /** Words of the AWS CLI that delete it. @param id - What the pattern found of the ARN. */
  readonly deletion: (id: string, arn: string) => string;
}

const KINDS: readonly CostlyKind[] = [
  {
    service: "elasticfilesystem",
    pattern: /^file-system\/(fs-\w+)$/,
    what: "file system with engines and weights",
    costs: "by GB and month",
    deletion: (id) => `efs delete-file-system --file-system-id ${id} (after its mount targets)`,
  },
  {
    service: "ec2",
    pattern: /^volume\/(vol-\w+)$/,
    what: "disk, of databases or of a machine",
    costs: "by GB and month",
    deletion: (id) => `ec2 delete-volume --volume-id ${id}`,
  },
  {
    service: "ec2",
    pattern: /^snapshot\/(snap-\w+)$/,
    what: "snapshot",
    costs: "by GB and month",
    deletion: (id) => `ec2 delete-snapshot --snapshot-id ${id}`,
  },
  {
    service: "ec2",
    pattern: /^instance\/(i-\w+)$/,
    what: "machine, unless it is terminated already",
    costs: "by second while it runs, its disks always",
    deletion: (id) => `ec2 terminate-instances --instance-ids ${id}`,
  },
  {
    service: "ec2",
    pattern: /^natgateway\/(nat-\w+)$/,
    what: "NAT gateway",
    costs: "by hour and GB",
    deletion: (id) => `ec2 delete-nat-gateway --nat-gateway-id ${id}`,
  },
  {
    service: "ec2",
    pattern: /^elastic-ip\/(eipalloc-\w+)$/,
    what: "public address",
    costs: "by hour",
    deletion: (id) => `ec2 release-address --allocation-id ${id} (after the NAT gateway that has it)`,
  },
  {
    service: "ec2",
    pattern: /^vpc-endpoint\/(vpce-\w+)$/,
    what: "endpoint of the VPC",
    costs: "by hour, except that of S3",
    deletion: (id) => `ec2 delete-vpc-endpoints --vpc-endpoint-ids ${id}`,
  },
  {
    service: "elasticloadbalancing",
    pattern: /^(loadbalancer\/.+)$/,
    what: "load balancer",
    costs: "by hour",
    deletion: (_, arn) => `elbv2 delete-load-balancer --load-balancer-arn ${arn}`,
  },
  {
    service: "eks",
    pattern: /^cluster\/(.+)$/,
    what: "cluster",
    costs: "by hour",
    deletion: (id) => `eks delete-cluster --name ${id} (after its node groups)`,
  },
  {
    service: "eks",
    pattern: /^nodegroup\/([^/]+\/[^/]+)\/.+$/,
    what: "machines of a pool",
    costs: "by machine and second",
    deletion: (id) => {
      const [cluster, group] = id.split("/");
      return `eks delete-nodegroup --cluster-name ${cluster} --nodegroup-name ${group}`;
    },
  },
  {
    service: "logs",
    pattern: /^log-group:(.+?)(:\*)?$/,
    what: "log group",
    costs: "by GB and month until its retention ends",
    deletion: (id) => `logs delete-log-group --log-group-name ${id}`,
  },
  {
    service: "ecr",
    pattern: /^repository\/(.+)$/,
    what: "repository of images",
    costs: "by GB and month",
    deletion: (id) => `ecr delete-repository --force --repository-name ${id}`,
  },
  {
    service: "secretsmanager",
    pattern: /^secret:(.+)$/,
    what: "secret",
    costs: "by month",
    deletion: (_, arn) => `secretsmanager delete-secret --secret-id ${arn}`,
  },
  {
    service: "kms",
    pattern: /^key\/(.+)$/,
    what: "key, unless its deletion is scheduled already",
    costs: "by month",
    deletion: (id) => `kms schedule-key-deletion --key-id ${id}`,
  },
  {
    service: "backup",
    pattern: /^recovery-point:(.+)$/,
    what: "copy of AWS Backup",
    costs: "by GB and month",
    deletion: (_, arn) =>
      `backup delete-recovery-point --backup-vault-name VAULT --recovery-point-arn ${arn}`,
  },
];

export interface Leftover {
  readonly arn: string;
  readonly what: string;
  readonly costs: string;
  /** A command of the AWS CLI. */
  readonly deletion: string;
}

/** Those that cost money, in the order of the table of kinds; the rest is free: networks, security groups, roles. Pure. */
export function leftovers(region: string, arns: readonly string[]): readonly Leftover[] {
  return KINDS.flatMap(({ service, pattern, what, costs, deletion }) =>
    arns.flatMap((arn) => {
      const [, , ofService, , , ...rest] = arn.split(":");
      const id = ofService === service ? pattern.exec(rest.join(":"))?.[1] : undefined;
      return id === undefined
        ? []
        : [{ arn, what, costs, deletion: `aws --region ${region} ${deletion(id, arn)}` }];
    }),
  );
}
