/** Leftovers of a stack: found by its tag, and deleted with AWS's own CLI by the commands that the list prints. */
import {
  AllocateAddressCommand,
  CreateNatGatewayCommand,
  CreateSnapshotCommand,
  CreateTagsCommand,
  CreateVolumeCommand,
  CreateVpcEndpointCommand,
  DescribeAddressesCommand,
  DescribeInstancesCommand,
  DescribeNatGatewaysCommand,
  DescribeVpcEndpointsCommand,
} from "@aws-sdk/client-ec2";
import { DescribeRepositoriesCommand } from "@aws-sdk/client-ecr";
import { CreateFileSystemCommand, EFSClient } from "@aws-sdk/client-efs";
import { ListClustersCommand } from "@aws-sdk/client-eks";
import {
  CreateSecretCommand,
  DescribeSecretCommand,
  SecretsManagerClient,
} from "@aws-sdk/client-secrets-manager";
import { describe, expect, test, vi } from "vitest";
import { leftovers, leftoversReport, taggedArns } from "../../scripts/aws/account.ts";
import { ask, clientSettings } from "../../scripts/aws/session.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { askPython } from "../harness/aws/python.ts";
import {
  ec2Client,
  ecrClient,
  eksClient,
  makeCluster,
  makeMachine,
  makeNetwork,
  makeRepository,
  tagList,
  tagSpecifications,
} from "../harness/aws/resources.ts";
import { checkOperations, useMoto } from "../harness/aws/use-moto.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const OWN = { "engine-room:stack": "dev" };
const OTHERS = { "engine-room:stack": "prod" };
const report = async () => leftoversReport({ region: REGION, stack: "dev" }, await taggedArns(REGION, "dev"));
useMoto(REGION);
checkOperations(vi.mocked(ask), "leftovers");

const arn = (service: string, rest: string) => `arn:aws:${service}:${REGION}:${MOTO_ACCOUNT}:${rest}`;

/** AWS's own CLI, in one process for all commands. @returns The output of each as JSON; null when it is empty. */
async function aws(...commands: readonly string[]): Promise<readonly unknown[]> {
  const printed = (await askPython("aws_cli.py", commands)) as readonly string[];
  return printed.map((text) => (text.trim() === "" ? null : JSON.parse(text)));
}

/** Runs deletions in the order of their notes: those that come after others are last. */
async function runDeletions(deletions: readonly string[]): Promise<void> {
  const note = / \((?:after|a daily copy:) [^)]*\)$/;
  const ordered = [false, true].flatMap((isLast) => deletions.filter((one) => note.test(one) === isLast));
  await aws(...ordered.map((deletion) => deletion.replace(note, "")));
}

describe("the list by the stack's tag", () => {
  /** @returns ARNs of resources that cost money, one of each kind that moto's list by tag has. */
  async function makeCostly(tags: Readonly<Record<string, string>>): Promise<readonly string[]> {
    const ec2 = ec2Client(REGION);
    const { subnetIds } = await makeNetwork(REGION);
    const { VolumeId = "" } = await ec2.send(
      new CreateVolumeCommand({
        AvailabilityZone: `${REGION}a`,
        Size: 1,
        TagSpecifications: tagSpecifications("volume", tags),
      }),
    );
    const { SnapshotId } = await ec2.send(
      new CreateSnapshotCommand({ VolumeId, TagSpecifications: tagSpecifications("snapshot", tags) }),
    );
    const { NatGateway } = await ec2.send(
      new CreateNatGatewayCommand({
        SubnetId: subnetIds[0],
        ConnectivityType: "private",
        TagSpecifications: tagSpecifications("natgateway", tags),
      }),
    );
    const { FileSystemArn = "" } = await new EFSClient(clientSettings(REGION)).send(
      new CreateFileSystemCommand({ Encrypted: true, Tags: tagList(tags) }),
    );
    const secrets = new SecretsManagerClient(clientSettings(REGION));
    const { ARN = "" } = await secrets.send(
      new CreateSecretCommand({ Name: "hub-token", SecretString: "hf_x", Tags: tagList(tags) }),
    );
    return [
      arn("ec2", `volume/${VolumeId}`),
      arn("ec2", `snapshot/${SnapshotId}`),
      arn("ec2", `natgateway/${NatGateway?.NatGatewayId}`),
      arn("ec2", `instance/${await makeMachine(REGION, { type: "g5.xlarge", tags })}`),
      FileSystemArn,
      ARN,
      ...(await makeWithCli(tags, subnetIds[0])),
    ];
  }

  /** Creates resources of services that scripts have no client for. */
  async function makeWithCli(tags: Readonly<Record<string, string>>, subnet: string) {
    const [[key = "", value = ""] = []] = Object.entries(tags);
    const group = "/engine-room/dev";
    const [kms, elb] = (await aws(
      `aws --region ${REGION} kms create-key --tags TagKey=${key},TagValue=${value}`,
      `aws --region ${REGION} elbv2 create-load-balancer --name engine-room-dev --type network --subnets ${subnet} --tags Key=${key},Value=${value}`,
      `aws --region ${REGION} logs create-log-group --log-group-name ${group} --tags ${key}=${value}`,
    )) as [
      { readonly KeyMetadata: { readonly Arn: string } },
      { readonly LoadBalancers: readonly [{ readonly LoadBalancerArn: string }] },
      null,
    ];
    return [arn("logs", `log-group:${group}`), kms.KeyMetadata.Arn, elb.LoadBalancers[0].LoadBalancerArn];
  }

  const listed = (report: string) =>
    report.split("\n").flatMap((line) => (/^ {4}arn:/.test(line) ? [line.trim()] : []));
  const deletions = (report: string) =>
    report
      .split("\n")
      .flatMap((line) => (/^ {4}aws (?!.* (list|describe)-)/.test(line) ? [line.trim()] : []));

  test("the list has exactly the resources that cost money, and its commands delete them", async () => {
    const own = await makeCostly(OWN);
    await makeMachine(REGION, { type: "g5.xlarge", tags: OTHERS });
    const { subnetIds } = await makeNetwork(REGION);
    await ec2Client(REGION).send(new CreateTagsCommand({ Resources: [...subnetIds], Tags: tagList(OWN) }));
    const said = await report();
    expect(listed(said).toSorted()).toEqual(own.toSorted());
    expect(said).toContain(` ${subnetIds.length} more with it cost nothing by themselves.`);

    await runDeletions(deletions(said));
    // Like AWS for a while, moto lists some deleted resources.
    const left = listed(await report());
    const idOf = (kind: string) => left.find((one) => one.includes(kind))?.split(`${kind}/`)[1] ?? "";
    expect(left).toHaveLength(4);
    const ec2 = ec2Client(REGION);
    const { Reservations = [] } = await ec2.send(
      new DescribeInstancesCommand({ InstanceIds: [idOf("instance")] }),
    );
    expect(Reservations[0]?.Instances?.[0]?.State?.Name).toBe("terminated");
    const { NatGateways = [] } = await ec2.send(
      new DescribeNatGatewaysCommand({ NatGatewayIds: [idOf("natgateway")] }),
    );
    expect(NatGateways[0]?.State).toBe("deleted");
    const { DeletedDate } = await new SecretsManagerClient(clientSettings(REGION)).send(
      new DescribeSecretCommand({ SecretId: "hub-token" }),
    );
    expect(DeletedDate).toBeInstanceOf(Date);
    const [key] = await aws(`aws --region ${REGION} kms describe-key --key-id ${idOf("key")}`);
    expect(key).toMatchObject({ KeyMetadata: { KeyState: "PendingDeletion" } });
  });

  test("the command that the list prints finds a log group without a tag", async () => {
    const group = "/aws/eks/engine-room-dev/cluster";
    await aws(`aws --region ${REGION} logs create-log-group --log-group-name ${group}`);
    const said = await report();
    expect(listed(said)).toEqual([]);
    const command = said.split("\n").find((line) => line.includes("describe-log-groups")) ?? "";
    const [groups] = await aws(command.trim());
    expect(groups).toMatchObject({ logGroups: [{ logGroupName: group }] });
  });

  test("the list of a stack without leftovers is empty, even when other stacks have resources", async () => {
    await makeMachine(REGION, { type: "g5.xlarge", tags: OTHERS });
    expect(await report()).toMatch(/^Nothing with the tag engine-room:stack=dev still costs money\.\n/);
  });
});

test("the printed commands delete a cluster, repository, address and endpoint", async () => {
  const ec2 = ec2Client(REGION);
  await makeCluster(
    REGION,
    "engine-room-dev",
    [{ pool: "gpu", name: "gpu-1", min: 0, max: 1, desired: 0 }],
    OWN,
  );
  await makeRepository(REGION, "engine-room/services", OWN);
  const { vpcId, subnetIds } = await makeNetwork(REGION);
  const { AllocationId } = await ec2.send(new AllocateAddressCommand({ Domain: "vpc" }));
  const { VpcEndpoint } = await ec2.send(
    new CreateVpcEndpointCommand({
      VpcId: vpcId,
      VpcEndpointType: "Interface",
      ServiceName: `com.amazonaws.${REGION}.ecr.api`,
      SubnetIds: [...subnetIds],
    }),
  );
  const found = leftovers(REGION, [
    arn("eks", "cluster/engine-room-dev"),
    arn("eks", "nodegroup/engine-room-dev/gpu-1/1cb2-44"),
    arn("ecr", "repository/engine-room/services"),
    arn("ec2", `elastic-ip/${AllocationId}`),
    arn("ec2", `vpc-endpoint/${VpcEndpoint?.VpcEndpointId}`),
  ]);
  expect(found).toHaveLength(5);
  await runDeletions(found.map(({ deletion }) => deletion));
  expect((await eksClient(REGION).send(new ListClustersCommand({}))).clusters).toEqual([]);
  expect((await ecrClient(REGION).send(new DescribeRepositoriesCommand({}))).repositories).toEqual([]);
  expect((await ec2.send(new DescribeAddressesCommand({}))).Addresses ?? []).toEqual([]);
  const { VpcEndpoints = [] } = await ec2.send(new DescribeVpcEndpointsCommand({}));
  expect(VpcEndpoints.filter(({ State }) => State?.toLowerCase() !== "deleted")).toEqual([]);
});
