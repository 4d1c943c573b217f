/** Resources of an account before scripts read it, created by AWS's own client at AWS_ENDPOINT_URL. */
import { createHash } from "node:crypto";
import {
  CreateSubnetCommand,
  CreateVpcCommand,
  EC2Client,
  type ResourceType,
  RunInstancesCommand,
  StopInstancesCommand,
} from "@aws-sdk/client-ec2";
import { CreateRepositoryCommand, ECRClient, PutImageCommand } from "@aws-sdk/client-ecr";
import { CreateClusterCommand, CreateNodegroupCommand, EKSClient } from "@aws-sdk/client-eks";
import { NAMESPACE_LABEL, POOL_LABEL } from "../../../infra/plan/aws/context.ts";
import { clientSettings } from "../../../scripts/aws/session.ts";
import { MOTO_ACCOUNT } from "./moto.ts";

type Tags = Readonly<Record<string, string>>;

export const ec2Client = (region: string) => new EC2Client(clientSettings(region));
export const eksClient = (region: string) => new EKSClient(clientSettings(region));
export const ecrClient = (region: string) => new ECRClient(clientSettings(region));

export const tagList = (tags: Tags) => Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));

/** Tags in the form of EC2's calls that create something. */
export const tagSpecifications = (ResourceType: ResourceType, tags: Tags) =>
  Object.keys(tags).length === 0 ? [] : [{ ResourceType, Tags: tagList(tags) }];

export interface MadeNetwork {
  readonly vpcId: string;
  /** In zone a and in zone b. */
  readonly subnetIds: readonly [string, string];
}

export async function makeNetwork(region: string): Promise<MadeNetwork> {
  const ec2 = ec2Client(region);
  const { Vpc } = await ec2.send(new CreateVpcCommand({ CidrBlock: "10.1.0.0/16" }));
  const vpcId = Vpc?.VpcId ?? "";
  const subnetIn = async (zone: string, CidrBlock: string) => {
    const AvailabilityZone = `${region}${zone}`;
    const { Subnet } = await ec2.send(new CreateSubnetCommand({ VpcId: vpcId, CidrBlock, AvailabilityZone }));
    return Subnet?.SubnetId ?? "";
  };
  return { vpcId, subnetIds: [await subnetIn("a", "10.1.0.0/20"), await subnetIn("b", "10.1.16.0/20")] };
}

/** @returns The id of a machine that runs, or is stopped. */
export async function makeMachine(
  region: string,
  { type, tags = {}, isStopped = false }: { type: string; tags?: Tags; isStopped?: boolean },
): Promise<string> {
  const ec2 = ec2Client(region);
  const { Instances = [] } = await ec2.send(
    new RunInstancesCommand({
      ImageId: "ami-12c6146b",
      InstanceType: type as "g5.xlarge",
      MinCount: 1,
      MaxCount: 1,
      TagSpecifications: tagSpecifications("instance", tags),
    }),
  );
  const id = Instances[0]?.InstanceId ?? "";
  if (isStopped) await ec2.send(new StopInstancesCommand({ InstanceIds: [id] }));
  return id;
}

export interface WantedNodeGroup {
  /** null for a group made by hand, which has no such label. */
  readonly pool: string | null;
  /** Namespace of the stack, in a cluster that several stacks share. */
  readonly namespace?: string;
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly desired: number;
}

/** A cluster, with its groups on subnets of a network of its own. */
export async function makeCluster(
  region: string,
  name: string,
  groups: readonly WantedNodeGroup[] = [],
  tags: Tags = {},
): Promise<void> {
  const eks = eksClient(region);
  const { subnetIds } = await makeNetwork(region);
  const role = (of: string) => `arn:aws:iam::${MOTO_ACCOUNT}:role/${name}-${of}`;
  await eks.send(
    new CreateClusterCommand({
      name,
      roleArn: role("cluster"),
      version: "1.36",
      resourcesVpcConfig: { subnetIds: [...subnetIds] },
      tags,
    }),
  );
  for (const { pool, namespace, name: nodegroupName, min, max, desired } of groups)
    await eks.send(
      new CreateNodegroupCommand({
        clusterName: name,
        nodegroupName,
        nodeRole: role("node"),
        subnets: [...subnetIds],
        scalingConfig: { minSize: min, maxSize: max, desiredSize: desired },
        ...(pool === null
          ? {}
          : {
              labels: {
                [POOL_LABEL]: pool,
                ...(namespace === undefined ? {} : { [NAMESPACE_LABEL]: namespace }),
              },
            }),
        tags,
      }),
    );
}

export async function makeRepository(region: string, repositoryName: string, tags: Tags = {}): Promise<void> {
  const ecr = ecrClient(region);
  await ecr.send(new CreateRepositoryCommand({ repositoryName, tags: tagList(tags) }));
}

const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;

/** Manifest of an image without layers: its text and its digest. */
export function emptyManifest(name: string): { readonly text: string; readonly digest: string } {
  const text = JSON.stringify({
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: { mediaType: "application/vnd.oci.image.config.v1+json", size: 2, digest: digestOf(name) },
    layers: [],
  });
  return { text, digest: digestOf(text) };
}

/** @returns The digest of an image that a repository has from then on. */
export async function pushImage(region: string, repositoryName: string): Promise<string> {
  // moto's own digest would be of the layers, and every registry's is of the manifest.
  const { text: imageManifest, digest: imageDigest } = emptyManifest(repositoryName);
  const { image } = await ecrClient(region).send(
    new PutImageCommand({ repositoryName, imageManifest, imageDigest, imageTag: "one" }),
  );
  return image?.imageId?.imageDigest ?? "";
}
