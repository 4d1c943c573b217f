import { describe, expect, test } from "vitest";
import { Network } from "../../../components/aws/network.ts";
import { networkPlan } from "../../../infra/plan/aws/network.ts";
import type { NetworkPlan } from "../../../infra/plan/aws/types.ts";
import { awsPlan, eksValues } from "../../infra/plan/aws/stacks.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const planOf = (network: object): NetworkPlan =>
  networkPlan(awsPlan({ ...eksValues, network }).config, CONTEXT);

const made = (plan: NetworkPlan) =>
  registeredBy(() => {
    new Network("network", { context: CONTEXT, plan });
  });

/** Where the private subnet of each zone sends what is not for the VPC. */
async function natOfZones(network: object): Promise<Readonly<Record<string, unknown>>> {
  const found = await made(planOf(network));
  const routes = found.filter(({ name }) => /^network-private-.-default$/.test(name));
  return Object.fromEntries(routes.map(({ name, inputs }) => [name.charAt(16), inputs.natGatewayId]));
}

describe("a network of its own", async () => {
  const found = await made(planOf({ zones: ["a", "c"] }));

  test("has exactly these resources", () => {
    const ofZone = (zone: string) => [
      `aws:ec2/route:Route network-private-${zone}-default < network`,
      `aws:ec2/routeTable:RouteTable network-private-${zone}-routes < network`,
      `aws:ec2/routeTableAssociation:RouteTableAssociation network-private-${zone}-association < network`,
      `aws:ec2/routeTableAssociation:RouteTableAssociation network-public-${zone}-association < network`,
      `aws:ec2/subnet:Subnet network-private-${zone} < network`,
      `aws:ec2/subnet:Subnet network-public-${zone} < network`,
    ];
    const endpoints = ["ecr-api", "ecr-dkr", "elasticfilesystem", "logs", "s3", "sts"];
    expect(treeOf(found)).toEqual(
      [
        "engine-room:aws:Network network < engine-room-demo",
        "aws:ec2/vpc:Vpc network-vpc < network",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup network-default-group < network",
        "aws:ec2/internetGateway:InternetGateway network-internet < network",
        "aws:ec2/routeTable:RouteTable network-public-routes < network",
        "aws:ec2/route:Route network-public-default < network",
        "aws:ec2/eip:Eip network-nat-a-address < network",
        "aws:ec2/natGateway:NatGateway network-nat-a < network",
        ...ofZone("a"),
        ...ofZone("c"),
        "engine-room:aws:NetworkEndpoints network-endpoints < network",
        ...endpoints.map(
          (name) => `aws:ec2/vpcEndpoint:VpcEndpoint network-endpoints-${name} < network-endpoints`,
        ),
        "aws:ec2/securityGroup:SecurityGroup network-endpoints-group < network-endpoints",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule network-endpoints-https < network-endpoints",
        "engine-room:aws:FlowLogs network-flow-logs < network",
        "aws:cloudwatch/logGroup:LogGroup network-flow-logs-group < network-flow-logs",
        "aws:ec2/flowLog:FlowLog network-flow-logs-log < network-flow-logs",
        "engine-room:aws:WorkloadRole network-flow-logs-writer < network-flow-logs",
        "aws:iam/role:Role network-flow-logs-writer-role < network-flow-logs-writer",
        "aws:iam/rolePolicy:RolePolicy network-flow-logs-writer-policy < network-flow-logs-writer",
      ].sort(),
    );
  });

  test("knows zones and addresses before anything is made", () => {
    expect(byName(found, "network-private-c").inputs).toEqual({
      vpcId: "network-vpc",
      cidrBlock: "10.64.64.0/19",
      availabilityZone: "eu-west-1c",
      mapPublicIpOnLaunch: false,
      tags: {
        ...CONTEXT.tags,
        Name: "engine-room-demo-private-c",
        "kubernetes.io/role/internal-elb": "1",
      },
    });
    expect(byName(found, "network-public-c").inputs).toMatchObject({
      cidrBlock: "10.64.200.0/22",
      mapPublicIpOnLaunch: false,
    });
  });

  test("leaves the default security group without a rule", () => {
    expect(byName(found, "network-default-group").inputs).toMatchObject({ ingress: [], egress: [] });
  });

  test("reaches AWS's services by names that the VPC answers, from the VPC alone", () => {
    expect(byName(found, "network-endpoints-ecr-dkr").inputs).toMatchObject({
      serviceName: "com.amazonaws.eu-west-1.ecr.dkr",
      vpcEndpointType: "Interface",
      privateDnsEnabled: true,
      subnetIds: ["network-private-a", "network-private-c"],
      securityGroupIds: ["network-endpoints-group"],
    });
    expect(byName(found, "network-vpc").inputs).toMatchObject({
      enableDnsSupport: true,
      enableDnsHostnames: true,
    });
    expect(byName(found, "network-endpoints-https").inputs).toMatchObject({
      securityGroupId: "network-endpoints-group",
      cidrIpv4: "10.64.0.0/16",
      fromPort: 443,
      toPort: 443,
    });
    expect(byName(found, "network-endpoints-s3").inputs).toMatchObject({
      serviceName: "com.amazonaws.eu-west-1.s3",
      vpcEndpointType: "Gateway",
      routeTableIds: ["network-private-a-routes", "network-private-c-routes"],
    });
  });

  test("writes flow logs once its role may", () => {
    const log = byName(found, "network-flow-logs-log");
    expect(log.inputs).toMatchObject({
      trafficType: "ALL",
      logDestination: "arn:of:network-flow-logs-group",
      iamRoleArn: "arn:of:network-flow-logs-writer-role",
    });
    expect(log.dependencies).toContain(byName(found, "network-flow-logs-writer-policy").urn);
    expect(byName(found, "network-flow-logs-group").inputs).toMatchObject({
      name: "engine-room-demo/flow-logs",
      retentionInDays: 30,
    });
  });

  test("gives NAT gateways their addresses after the internet gateway, which they don't name", () => {
    const internet = byName(found, "network-internet").urn;
    expect(byName(found, "network-nat-a").dependencies).toContain(internet);
    expect(byName(found, "network-nat-a-address").dependencies).toContain(internet);
    expect(byName(found, "network-nat-a").inputs).toMatchObject({ subnetId: "network-public-a" });
  });
});

test("one NAT gateway serves all zones, and several serve their own", async () => {
  expect(await natOfZones({ zones: ["c", "a"] })).toEqual({ c: "network-nat-a", a: "network-nat-a" });
  expect(await natOfZones({ zones: ["c", "a"], nat: "perZone" })).toEqual({
    c: "network-nat-c",
    a: "network-nat-a",
  });
});

test("a third zone changes no subnet of the others", async () => {
  const subnetsOf = async (zones: readonly string[]) => {
    const found = await made(planOf({ zones }));
    return found
      .filter(({ type }) => type === "aws:ec2/subnet:Subnet")
      .map(({ name, inputs }) => ({ name, inputs }));
  };
  expect(await subnetsOf(["b", "a", "c"])).toEqual(expect.arrayContaining(await subnetsOf(["a", "c"])));
});

test("without endpoints that cost and without logs, nothing of them is made", async () => {
  const found = await made(planOf({ endpoints: "free", flowLogs: false }));
  expect(
    found
      .filter(({ type }) => /:VpcEndpoint|:SecurityGroup|aws:iam|:FlowLog|:LogGroup/.test(type))
      .map(({ name }) => name),
  ).toEqual(["network-endpoints-s3"]);
});

test("a network that is there is used as it is", async () => {
  const existing = {
    vpcId: "vpc-01234567",
    cidr: "10.80.0.0/16",
    privateSubnets: [
      { id: "subnet-00000001", zone: "b" },
      { id: "subnet-00000002", zone: "a" },
    ],
  };
  const plan = planOf({ existing });
  let network: Network | undefined;
  const found = await registeredBy(() => {
    network = new Network("network", { context: CONTEXT, plan });
  });
  expect(treeOf(found)).toEqual(["engine-room:aws:Network network < engine-room-demo"]);
  expect(network?.privateSubnets).toEqual(existing.privateSubnets);
  expect(network?.publicSubnets).toEqual([]);
});
