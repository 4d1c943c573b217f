/**
 * The network of a stack: private subnets of machines, which reach the internet but are not reached from it, and public ones of NAT
 * gateways and load balancers. An existing network stays unchanged.
 *
 * Cost (us-east-1): 0.045 USD an hour for each NAT gateway and 0.045 USD a GB through it; 0.01 USD an hour for each interface
 * endpoint in each zone and 0.01 USD a GB through it; 0.5 USD a GB of flow logs; the rest is free.
 */
import { LogGroup } from "@pulumi/aws/cloudwatch/logGroup.js";
import { DefaultSecurityGroup } from "@pulumi/aws/ec2/defaultSecurityGroup.js";
import { Eip } from "@pulumi/aws/ec2/eip.js";
import { FlowLog } from "@pulumi/aws/ec2/flowLog.js";
import { InternetGateway } from "@pulumi/aws/ec2/internetGateway.js";
import { NatGateway } from "@pulumi/aws/ec2/natGateway.js";
import { Route, type RouteArgs } from "@pulumi/aws/ec2/route.js";
import { RouteTable } from "@pulumi/aws/ec2/routeTable.js";
import { RouteTableAssociation } from "@pulumi/aws/ec2/routeTableAssociation.js";
import { SecurityGroup } from "@pulumi/aws/ec2/securityGroup.js";
import { Subnet } from "@pulumi/aws/ec2/subnet.js";
import { Vpc } from "@pulumi/aws/ec2/vpc.js";
import { VpcEndpoint, type VpcEndpointArgs } from "@pulumi/aws/ec2/vpcEndpoint.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import type { NetworkPlan } from "../../infra/plan/aws/account.ts";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";
import { WorkloadRole } from "./workload-role.ts";

/** A subnet of a zone, by the letter after the region's name. */
export interface ZoneSubnet {
  readonly zone: string;
  readonly id: pulumi.Input<string>;
}

/** Arguments of a rule of a security group for one port. */
export function tcp(port: number) {
  return { ipProtocol: "tcp", fromPort: port, toPort: port };
}

interface SecurityGroupArgs {
  readonly context: AwsContext;
  /** After the stack's name: `edge`. */
  readonly subject: string;
  readonly description: string;
  readonly vpcId: pulumi.Input<string>;
}

export function securityGroup(
  name: string,
  { context, subject, description, vpcId }: SecurityGroupArgs,
  parent: pulumi.Resource,
): SecurityGroup {
  const tags = namedTags(context, subject);
  return new SecurityGroup(
    name,
    { name: tags.Name, description, vpcId, tags },
    // Only another VPC replaces it, and there its name is free. The provider would delete the old group first because of its name,
    // and AWS deletes no group that endpoints, mount targets or a load balancer use.
    { parent, deleteBeforeReplace: false },
  );
}

/** A resource that needs the internet or an endpoint depends on this component: subnets exist before their routes. */
export class Network extends pulumi.ComponentResource {
  readonly vpcId: pulumi.Output<string>;
  /** In the order of the plan. */
  readonly privateSubnets: readonly ZoneSubnet[];
  readonly publicSubnets: readonly ZoneSubnet[];

  constructor(
    name: string,
    { context, plan }: { readonly context: AwsContext; readonly plan: NetworkPlan },
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Network", name, {}, opts);

    if (plan.kind === "existing") {
      this.vpcId = pulumi.output(plan.vpcId);
      this.privateSubnets = plan.privateSubnets;
      this.publicSubnets = plan.publicSubnets;
    } else {
      const own = { parent: this };
      const tags = (subject: string) => namedTags(context, subject);
      const { id: vpcId } = new Vpc(`${name}-vpc`, { ...plan.vpc, tags: tags("vpc") }, own);
      // A resource without a group gets the default group, which allows no traffic.
      const unused = { vpcId, ingress: [], egress: [], tags: tags("default-unused") };
      new DefaultSecurityGroup(`${name}-default-group`, unused, own);
      const subnets = (kind: "public" | "private") =>
        plan[`${kind}Subnets`].map(({ zone, args }) => {
          const subject = `${kind}-${zone}`;
          const all = { ...args, vpcId, tags: { ...tags(subject), ...args.tags } };
          return { zone, id: new Subnet(`${name}-${subject}`, all, own).id };
        });
      this.publicSubnets = subnets("public");
      this.privateSubnets = subnets("private");

      const internet = new InternetGateway(
        `${name}-internet`,
        { vpcId, tags: tags("internet") },
        // AWS does not detach it from a VPC with public addresses, and those of the old VPC are deleted last.
        { ...own, replaceOnChanges: ["vpcId"] },
      );
      /** @param target - Gateway for traffic that leaves the VPC. */
      const routeTable = (subject: string, target: Pick<RouteArgs, "gatewayId" | "natGatewayId">) => {
        const { id } = new RouteTable(`${name}-${subject}-routes`, { vpcId, tags: tags(subject) }, own);
        const route = { ...target, routeTableId: id, destinationCidrBlock: "0.0.0.0/0" };
        new Route(`${name}-${subject}-default`, route, own);
        return id;
      };
      const associate = (subject: string, subnetId: ZoneSubnet["id"], routeTableId: pulumi.Input<string>) =>
        new RouteTableAssociation(`${name}-${subject}-association`, { subnetId, routeTableId }, own);
      const publicTable = routeTable("public", { gatewayId: internet.id });
      for (const { zone, id } of this.publicSubnets) associate(`public-${zone}`, id, publicTable);

      const natGateways = new Map(
        plan.natZones.map((zone) => {
          const subnet = this.publicSubnets.find((one) => one.zone === zone);
          if (subnet === undefined) throw new Error(`The plan has no public subnet in zone ${zone}`);
          const subject = `nat-${zone}`;
          // Public addresses need the internet gateway, to which they don't refer.
          const after = { ...own, dependsOn: [internet] };
          const address = { domain: "vpc", tags: tags(subject) };
          const allocationId = new Eip(`${name}-${subject}-address`, address, after).id;
          const args = { allocationId, subnetId: subnet.id, tags: tags(subject) };
          return [zone, new NatGateway(`${name}-${subject}`, args, after).id];
        }),
      );
      const [shared] = natGateways.values();
      const routeTables = this.privateSubnets.map(({ zone, id }) => {
        const natGatewayId = natGateways.get(zone) ?? shared;
        const table = routeTable(`private-${zone}`, { natGatewayId });
        associate(`private-${zone}`, id, table);
        return table;
      });

      const part = { context, plan, vpcId, routeTables, subnets: this.privateSubnets };
      new NetworkEndpoints(`${name}-endpoints`, part, own);
      if (plan.flowLogs !== null) new FlowLogs(`${name}-flow-logs`, part, plan.flowLogs, own);
      this.vpcId = vpcId;
    }
    this.registerOutputs({ vpcId: this.vpcId });
  }
}

interface NetworkPart {
  readonly context: AwsContext;
  readonly plan: Extract<NetworkPlan, { kind: "create" }>;
  readonly vpcId: pulumi.Input<string>;
  readonly routeTables: pulumi.Input<string>[];
  readonly subnets: readonly ZoneSubnet[];
}

/** Endpoints of AWS services, which save traffic through the NAT gateways. */
class NetworkEndpoints extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, plan, vpcId, routeTables, subnets }: NetworkPart,
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:NetworkEndpoints", name, {}, opts);

    const own = { parent: this };
    const endpoint = (service: string, args: Omit<VpcEndpointArgs, "vpcId">) => {
      const subject = service.replaceAll(".", "-");
      const serviceName = `com.amazonaws.${context.region}.${service}`;
      const all = { ...args, vpcId, serviceName, tags: namedTags(context, subject) };
      return new VpcEndpoint(`${name}-${subject}`, all, own);
    };
    // S3 has the layers of ECR's images, and a gateway to it is free.
    endpoint("s3", { vpcEndpointType: "Gateway", routeTableIds: routeTables });
    if (plan.interfaceEndpoints.length > 0) {
      const description = "Endpoints of AWS services within the VPC";
      const group = { context, subject: "endpoints", description, vpcId };
      const { id: securityGroupId } = securityGroup(`${name}-group`, group, this);
      new SecurityGroupIngressRule(
        `${name}-https`,
        {
          ...tcp(443),
          securityGroupId,
          description: "HTTPS from the VPC",
          cidrIpv4: plan.vpc.cidrBlock,
          tags: namedTags(context, "endpoints-https"),
        },
        own,
      );
      for (const service of plan.interfaceEndpoints)
        endpoint(service, {
          vpcEndpointType: "Interface",
          privateDnsEnabled: true,
          subnetIds: subnets.map(({ id }) => id),
          securityGroupIds: [securityGroupId],
        });
    }
    this.registerOutputs({});
  }
}

/** Logs of connections in a VPC, in CloudWatch. */
class FlowLogs extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, vpcId }: NetworkPart,
    { logGroup, role }: NonNullable<NetworkPart["plan"]["flowLogs"]>,
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:FlowLogs", name, {}, opts);

    const own = { parent: this };
    const group = new LogGroup(`${name}-group`, { ...logGroup, tags: namedTags(context, "flow-logs") }, own);
    const writer = new WorkloadRole(`${name}-writer`, { context, plan: role }, own);
    new FlowLog(
      `${name}-log`,
      {
        vpcId,
        trafficType: "ALL",
        logDestinationType: "cloud-watch-logs",
        logDestination: group.arn,
        iamRoleArn: writer.arn,
        tags: namedTags(context, "flow-log"),
      },
      { ...own, dependsOn: [writer] },
    );
    this.registerOutputs({});
  }
}
