/** What commands ask EC2: machines, their types, networks and addresses. The SDK loads with the first question. */
import type { Instance, Subnet, Vpc } from "@aws-sdk/client-ec2";
import { STACK_TAG } from "../../infra/plan/aws/context.ts";
import { type Answer, allPages, ask, clientSettings } from "./session.ts";

/** Zones of the region, by their full name, that offer each type. */
export type Offerings = ReadonlyMap<string, ReadonlySet<string>>;

const sdk = () => import("@aws-sdk/client-ec2");

async function client(region: string) {
  const { EC2Client } = await sdk();
  return new EC2Client(clientSettings(region));
}

/** @param types - Types that nobody offers in the region have an empty set. */
export async function offerings(region: string, types: readonly string[]): Promise<Answer<Offerings>> {
  const { paginateDescribeInstanceTypeOfferings: paginate } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:DescribeInstanceTypeOfferings", async (options) => {
    const found = await allPages(
      paginate(
        { client: ec2 },
        { LocationType: "availability-zone", Filters: [{ Name: "instance-type", Values: [...types] }] },
        options,
      ),
      (page) => page.InstanceTypeOfferings,
    );
    return new Map(
      types.map((type) => [
        type,
        new Set(found.flatMap((one) => (one.InstanceType === type ? [one.Location ?? ""] : []))),
      ]),
    );
  });
}

/** A machine that counts against quotas. */
export interface RunningMachine {
  readonly id: string;
  readonly type: string;
  /** With the region: `us-east-1a`. */
  readonly zone: string;
  readonly isSpot: boolean;
  /** `running`, `stopped`. */
  readonly state: string;
  readonly tags: ReadonlyMap<string, string>;
}

/** Those that run or are about to, of the whole account in the region. */
export async function runningMachines(region: string): Promise<Answer<readonly RunningMachine[]>> {
  const { paginateDescribeInstances: paginate } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:DescribeInstances", async (options) => {
    const reservations = await allPages(
      paginate(
        { client: ec2 },
        { Filters: [{ Name: "instance-state-name", Values: COUNTED_STATES }] },
        options,
      ),
      (page) => page.Reservations,
    );
    return reservations.flatMap(({ Instances = [] }) => Instances.map(machine));
  });
}

const COUNTED_STATES = ["pending", "running"];

/** Machines of a stack that are in one of some states: `running`, `stopped`. */
export async function stackMachines(
  region: string,
  stack: string,
  states: readonly string[],
): Promise<Answer<readonly RunningMachine[]>> {
  const { paginateDescribeInstances: paginate } = await sdk();
  const ec2 = await client(region);
  const Filters = [
    { Name: `tag:${STACK_TAG}`, Values: [stack] },
    { Name: "instance-state-name", Values: [...states] },
  ];
  return ask("ec2:DescribeInstances", async (options) => {
    const found = await allPages(
      paginate({ client: ec2 }, { Filters }, options),
      (page) => page.Reservations,
    );
    return found.flatMap(({ Instances = [] }) => Instances.map(machine));
  });
}

/** Disks and private addresses stay. A spot machine that was requested once can't be stopped, and AWS says so. */
export async function stopMachines(region: string, ids: readonly string[]): Promise<Answer<true>> {
  const { StopInstancesCommand } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:StopInstances", async (options) => {
    await ec2.send(new StopInstancesCommand({ InstanceIds: [...ids] }), options);
    return true as const;
  });
}

/** AWS starts machines that are `stopped`, and may have none of the type left just then. */
export async function startMachines(region: string, ids: readonly string[]): Promise<Answer<true>> {
  const { StartInstancesCommand } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:StartInstances", async (options) => {
    await ec2.send(new StartInstancesCommand({ InstanceIds: [...ids] }), options);
    return true as const;
  });
}

/** A disk of EBS. */
export interface DiskReading {
  readonly id: string;
  /** With the region: `us-east-1a`. */
  readonly zone: string;
  readonly sizeGiB: number;
}

/** Those of a stack that have a name, but for what is on its way to be gone. */
export async function stackDisks(
  region: string,
  stack: string,
  name: string,
): Promise<Answer<readonly DiskReading[]>> {
  const { paginateDescribeVolumes: paginate } = await sdk();
  const ec2 = await client(region);
  const Filters = [
    { Name: `tag:${STACK_TAG}`, Values: [stack] },
    { Name: "tag:Name", Values: [name] },
    { Name: "status", Values: ["creating", "available", "in-use"] },
  ];
  return ask("ec2:DescribeVolumes", async (options) =>
    (await allPages(paginate({ client: ec2 }, { Filters }, options), (page) => page.Volumes)).map(
      ({ VolumeId = "", AvailabilityZone = "", Size = 0 }) => ({
        id: VolumeId,
        zone: AvailabilityZone,
        sizeGiB: Size,
      }),
    ),
  );
}

function machine({
  InstanceId = "",
  InstanceType,
  InstanceLifecycle,
  Placement,
  State,
  Tags,
}: Instance): RunningMachine {
  return {
    id: InstanceId,
    type: InstanceType ?? "",
    zone: Placement?.AvailabilityZone ?? "",
    isSpot: InstanceLifecycle === "spot",
    state: State?.Name ?? "",
    tags: tagMap(Tags),
  };
}

/** vCPUs of each type, as quotas count them. */
export async function vcpusOfTypes(
  region: string,
  types: readonly string[],
): Promise<Answer<ReadonlyMap<string, number>>> {
  const { paginateDescribeInstanceTypes: paginate } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:DescribeInstanceTypes", async (options) => {
    // A filter, and no list of types: one that the region lacks would be an error for all.
    const found = await allPages(
      paginate({ client: ec2 }, { Filters: [{ Name: "instance-type", Values: [...types] }] }, options),
      (page) => page.InstanceTypes,
    );
    return new Map(
      found.map(({ InstanceType = "", VCpuInfo }) => [InstanceType, VCpuInfo?.DefaultVCpus ?? 0]),
    );
  });
}

export interface VpcReading {
  readonly id: string;
  readonly cidrs: readonly string[];
  readonly tags: ReadonlyMap<string, string>;
}

/** All of the account in the region. */
export async function vpcs(region: string): Promise<Answer<readonly VpcReading[]>> {
  const { paginateDescribeVpcs: paginate } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:DescribeVpcs", async (options) =>
    (await allPages(paginate({ client: ec2 }, {}, options), (page) => page.Vpcs)).map(vpc),
  );
}

function vpc({ VpcId = "", CidrBlock, CidrBlockAssociationSet = [], Tags }: Vpc): VpcReading {
  const cidrs = [CidrBlock, ...CidrBlockAssociationSet.map((one) => one.CidrBlock)];
  return {
    id: VpcId,
    cidrs: [...new Set(cidrs.filter((cidr) => cidr !== undefined))],
    tags: tagMap(Tags),
  };
}

export interface SubnetReading {
  readonly id: string;
  readonly vpcId: string;
  /** With the region: `us-east-1a`. */
  readonly zone: string;
  readonly freeAddresses: number;
}

/** Those of a list that are there. */
export async function subnets(
  region: string,
  ids: readonly string[],
): Promise<Answer<readonly SubnetReading[]>> {
  const { paginateDescribeSubnets: paginate } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:DescribeSubnets", async (options) =>
    (
      await allPages(
        paginate({ client: ec2 }, { Filters: [{ Name: "subnet-id", Values: [...ids] }] }, options),
        (page) => page.Subnets,
      )
    ).map(subnet),
  );
}

function subnet({ SubnetId, VpcId, AvailabilityZone, AvailableIpAddressCount }: Subnet): SubnetReading {
  return {
    id: SubnetId ?? "",
    vpcId: VpcId ?? "",
    zone: AvailabilityZone ?? "",
    freeAddresses: AvailableIpAddressCount ?? 0,
  };
}

/** Tags of every Elastic IP of the account in the region. */
export async function addresses(region: string): Promise<Answer<readonly ReadonlyMap<string, string>[]>> {
  const { DescribeAddressesCommand } = await sdk();
  const ec2 = await client(region);
  return ask("ec2:DescribeAddresses", async (options) => {
    const { Addresses = [] } = await ec2.send(new DescribeAddressesCommand({}), options);
    return Addresses.map(({ Tags }) => tagMap(Tags));
  });
}

function tagMap(
  tags: readonly { readonly Key?: string | undefined; readonly Value?: string | undefined }[] = [],
): ReadonlyMap<string, string> {
  return new Map(tags.map(({ Key = "", Value = "" }) => [Key, Value]));
}
