/**
 * AWS's answers to the project's own commands, from the account that the plugin changes: the caller, machines and the
 * commands run on them, node groups and their sizes, and resources with a stack's tag.
 */
import {
  type FakeAnswer,
  type FakeInput,
  type FakeService,
  xmlAnswer,
} from "../../../scripts/aws/fake-aws.ts";
import type { Account, LiveResource, Properties } from "./account.ts";
import { type Live, zoneOf } from "./account-queries.ts";
import type { Place } from "./answers.ts";

const CLUSTER = "aws:eks/cluster:Cluster";
const NODE_GROUP = "aws:eks/nodeGroup:NodeGroup";
const INSTANCE = "aws:ec2/instance:Instance";
const VOLUME = "aws:ebs/volume:Volume";
const ASSOCIATION = "aws:ssm/association:Association";
const TARGET = "aws:lb/targetGroupAttachment:TargetGroupAttachment";

type Answer = (input: FakeInput, account: Account, place: Place) => FakeAnswer;

/** Answers by IAM's action. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  "sts:GetCallerIdentity": (_input, _account, { account }) =>
    xmlAnswer(
      "GetCallerIdentity",
      { Account: account, Arn: `arn:aws:iam::${account}:user/me`, UserId: "AIDA" },
      "member",
    ),
  "ec2:DescribeInstances": ({ parameters }, account) => {
    const filters = filtersOf(parameters);
    const live = account.live();
    const asked = [...parameters].flatMap(([key, id]) => (/^InstanceId\.\d+$/.test(key) ? [id] : []));
    const machines = live.filter(
      (one) =>
        one.type === INSTANCE && passes(one, filters) && (asked.length === 0 || asked.includes(one.id)),
    );
    return xmlAnswer("DescribeInstances", {
      reservationSet: machines.map((one) => ({ instancesSet: [machineWords(one, live)] })),
    });
  },
  "ec2:DescribeVolumes": ({ parameters }, account) => {
    const filters = filtersOf(parameters);
    const volumes = account.live().filter((one) => one.type === VOLUME && passes(one, filters));
    return xmlAnswer("DescribeVolumes", {
      volumeSet: volumes.map(({ id, inputs }) => ({
        volumeId: id,
        availabilityZone: inputs.availabilityZone,
        size: inputs.size,
      })),
    });
  },
  // Systems Manager does not know a machine without a command: it has not reported.
  "ssm:DescribeInstanceAssociationsStatus": ({ body: { InstanceId } }, account) => {
    const own = account
      .live()
      .filter(({ type, inputs }) => type === ASSOCIATION && targetsOf(inputs).includes(InstanceId));
    if (own.length === 0) return { error: "InvalidInstanceId" };
    return {
      json: {
        InstanceAssociationStatusInfos: own.map(({ id, inputs }) => ({
          AssociationId: id,
          Name: inputs.name,
          InstanceId,
          Status: "Success",
        })),
      },
    };
  },
  "elasticloadbalancing:DescribeTargetHealth": ({ parameters }, account) => {
    const own = account
      .live()
      .filter(
        ({ type, inputs }) => type === TARGET && inputs.targetGroupArn === parameters.get("TargetGroupArn"),
      );
    const TargetHealthDescriptions = own.map(({ inputs }) => ({
      Target: { Id: inputs.targetId },
      TargetHealth: { State: "healthy" },
    }));
    return xmlAnswer("DescribeTargetHealth", { TargetHealthDescriptions }, "member");
  },
  "eks:DescribeCluster": ({ path }, account) => {
    const cluster = account.find(CLUSTER, namesIn(path).cluster);
    if (cluster === undefined) return NO_SUCH;
    const { id: name, outputs } = cluster;
    const { endpoint, version, certificateAuthority, vpcConfig: resourcesVpcConfig } = outputs;
    return {
      json: {
        cluster: { name, status: "ACTIVE", endpoint, version, certificateAuthority, resourcesVpcConfig },
      },
    };
  },
  "eks:UpdateClusterConfig": ({ path, body }, account) => {
    const cluster = account.find(CLUSTER, namesIn(path).cluster);
    if (cluster === undefined) return NO_SUCH;
    const changed = (properties: Properties) => ({
      ...properties,
      vpcConfig: { ...(properties.vpcConfig as object), ...(body.resourcesVpcConfig as object) },
    });
    account.keep({ ...cluster, inputs: changed(cluster.inputs), outputs: changed(cluster.outputs) });
    return { json: { update: { id: "update-1", status: "InProgress" } } };
  },
  "eks:ListNodegroups": ({ path }, account) => {
    const { cluster } = namesIn(path);
    if (account.find(CLUSTER, cluster) === undefined) return NO_SUCH;
    const own = account
      .live()
      .filter(({ type, inputs }) => type === NODE_GROUP && inputs.clusterName === cluster);
    return { json: { nodegroups: own.map(({ outputs }) => outputs.nodeGroupName) } };
  },
  "eks:DescribeNodegroup": ({ path }, account) => {
    const group = nodeGroup(path, account);
    if (group === undefined) return NO_SUCH;
    const { nodeGroupName: nodegroupName, arn, instanceTypes, labels, scalingConfig, status } = group.outputs;
    return {
      json: { nodegroup: { nodegroupName, nodegroupArn: arn, instanceTypes, labels, scalingConfig, status } },
    };
  },
  // Absent sizes keep their values: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
  "eks:UpdateNodegroupConfig": ({ path, body }, account) => {
    const group = nodeGroup(path, account);
    if (group === undefined) return NO_SUCH;
    const size = { ...(group.outputs.scalingConfig as Size), ...(body.scalingConfig as Partial<Size>) };
    if (size.minSize > size.desiredSize || size.desiredSize > size.maxSize)
      return { error: "InvalidParameterException" };
    const scalingConfig = { scalingConfig: size };
    account.keep({
      ...group,
      inputs: { ...group.inputs, ...scalingConfig },
      outputs: { ...group.outputs, ...scalingConfig },
    });
    return { json: { update: { id: "update-1", status: "InProgress" } } };
  },
  "eks:DescribeUpdate": () => ({ json: { update: { id: "update-1", status: "Successful" } } }),
  "tag:GetResources": ({ body: { TagFilters } }, account, place) => {
    const filters = TagFilters as readonly { readonly Key: string; readonly Values: readonly string[] }[];
    const tagged = account
      .live()
      .filter((one) => filters.every(({ Key, Values }) => Values.includes(tagsOf(one)[Key] ?? "")));
    const arns = tagged.flatMap((one) => regionalArn(one, place) ?? []);
    return { json: { ResourceTagMappingList: arns.map((ResourceARN) => ({ ResourceARN })) } };
  },
};

interface Size {
  readonly minSize: number;
  readonly maxSize: number;
  readonly desiredSize: number;
}

const NO_SUCH: FakeAnswer = { error: "ResourceNotFoundException", status: 404 };

/**
 * Answers a call by `ANSWERS`. A call that is not in the table is an error; a test that makes it adds its answer there.
 */
export function accountService(account: Account, place: Place): FakeService {
  return (action, input) =>
    ANSWERS[action]?.(input, account, place) ?? { error: `NoAnswerOfTheStandInTo_${action}`, status: 400 };
}

/** `/clusters/NAME/node-groups/NAME/…`. */
function namesIn(path: string): { readonly cluster: string; readonly group: string } {
  const [, , cluster = "", , group = ""] = path.split("/").map(decodeURIComponent);
  return { cluster, group };
}

function nodeGroup(path: string, account: Account): LiveResource | undefined {
  const { cluster, group } = namesIn(path);
  return account.find(NODE_GROUP, `${cluster}:${group}`);
}

type Filters = ReadonlyMap<string, readonly string[]>;

/** `Filter.1.Name`, `Filter.1.Value.1`, … */
function filtersOf(parameters: URLSearchParams): Filters {
  const names = [...parameters].filter(([key]) => /^Filter\.\d+\.Name$/.test(key));
  return new Map(
    names.map(([key, name]) => {
      const values = [...parameters].filter(([other]) => other.startsWith(key.replace(/Name$/, "Value.")));
      return [name, values.map(([, value]) => value)];
    }),
  );
}

/** @throws Error at a filter that the stand-in lacks: it would be ignored. */
function passes(one: LiveResource, filters: Filters): boolean {
  return [...filters].every(([name, values]) => {
    if (name.startsWith("tag:")) return values.includes(tagsOf(one)[name.slice("tag:".length)] ?? "");
    if (name === "instance-state-name") return values.includes(String(one.outputs.instanceState));
    // Every existing disk is available.
    if (name === "status") return true;
    throw new Error(`The stand-in for AWS has no filter ${name}; add it to endpoint.ts.`);
  });
}

function machineWords(machine: LiveResource, live: Live) {
  const { instanceType, instanceState } = machine.outputs;
  return {
    instanceId: machine.id,
    instanceType,
    instanceState: { name: instanceState },
    placement: { availabilityZone: zoneOf(live, machine.inputs.subnetId) },
    tagSet: Object.entries(tagsOf(machine)).map(([key, value]) => ({ key, value })),
  };
}

/** Ids of the machines that a command is for. */
function targetsOf({ targets }: Properties): readonly unknown[] {
  return (targets as readonly { readonly values: readonly string[] }[]).flatMap(({ values }) => values);
}

function tagsOf({ inputs }: LiveResource): Readonly<Record<string, string>> {
  return (inputs.tags ?? {}) as Readonly<Record<string, string>>;
}

/** ARNs of the types to which the provider gives none. */
const PATHS: Readonly<Record<string, (resource: LiveResource) => string>> = {
  "aws:ec2/eip:Eip": ({ id }) => `ec2:elastic-ip/${id}`,
  "aws:ec2/natGateway:NatGateway": ({ id }) => `ec2:natgateway/${id}`,
};

/** undefined if no list of a region has the resource. */
function regionalArn(resource: LiveResource, { account, region }: Place): string | undefined {
  const [service, path] = PATHS[resource.type]?.(resource).split(":") ?? [];
  const arn = path === undefined ? resource.outputs.arn : `arn:aws:${service}:${region}:${account}:${path}`;
  return typeof arn === "string" && arn.split(":")[3] === region ? arn : undefined;
}
