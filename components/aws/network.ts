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
import { Route } from "@pulumi/aws/ec2/route.js";
import { RouteTable } from "@pulumi/aws/ec2/routeTable.js";
import { RouteTableAssociation } from "@pulumi/aws/ec2/routeTableAssociation.js";
import { SecurityGroup } from "@pulumi/aws/ec2/securityGroup.js";
import { Subnet } from "@pulumi/aws/ec2/subnet.js";
import { Vpc } from "@pulumi/aws/ec2/vpc.js";
import { VpcEndpoint } from "@pulumi/aws/ec2/vpcEndpoint.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import { namedTags } from "../../infra/plan/aws/context.ts";
import type { NetworkPlan } from "../../infra/plan/aws/network.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import { WorkloadRole } from "./workload-role.ts";

/** A subnet of a zone, by the letter after the region's name. */
export interface ZoneSubnet {
  readonly zone: string;
  readonly id: pulumi.Input<string>;
}

type NewNetwork = Extract<NetworkPlan, { kind: "create" }>;

interface Part {
  readonly context: AwsContext;
  readonly plan: NewNetwork;
  readonly vpc: Vpc;
}

const EVERYWHERE = "0.0.0.0/0";
const HTTPS = { ipProtocol: "tcp", fromPort: 443, toPort: 443 };

/**
 * Only another VPC replaces a security group, and there its name is free. The provider would delete the old group first because of
 * its name, and AWS deletes no group that endpoints, mount targets or a load balancer use.
 */
export const GROUP_OPTIONS = { deleteBeforeReplace: false };

/** A resource that needs the internet or an endpoint depends on this component: subnets exist before their routes. */
export class Network extends pulumi.ComponentResource {
  readonly vpcId: pulumi.Output<string>;
  /** In the order of the plan. */
  readonly privateSubnets: readonly ZoneSubnet[];
  readonly publicSubnets: readonly ZoneSubnet[];
  readonly #name: string;

  constructor(
    name: string,
    { context, plan }: { readonly context: AwsContext; readonly plan: NetworkPlan },
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Network", name, {}, opts);
    this.#name = name;

    if (plan.kind === "existing") {
      this.vpcId = pulumi.output(plan.vpcId);
      this.privateSubnets = plan.privateSubnets;
      this.publicSubnets = plan.publicSubnets;
    } else {
      const vpc = new Vpc(`${name}-vpc`, { ...plan.vpc, tags: namedTags(context, "vpc") }, { parent: this });
      this.vpcId = vpc.id;
      const part = { context, plan, vpc };
      // A resource without a group gets the default one, which allows no traffic.
      new DefaultSecurityGroup(
        `${name}-default-group`,
        { vpcId: vpc.id, ingress: [], egress: [], tags: namedTags(context, "default-unused") },
        { parent: this },
      );
      this.publicSubnets = this.#createSubnets("public", part);
      this.privateSubnets = this.#createSubnets("private", part);
      const natGateways = this.#createNatGateways(part, this.#routePublicSubnets(part));
      const routeTables = this.#routePrivateSubnets(part, natGateways);
      new NetworkEndpoints(
        `${name}-endpoints`,
        { ...part, routeTables, subnets: this.privateSubnets },
        { parent: this },
      );
      if (plan.flowLogs !== null)
        new FlowLogs(`${name}-flow-logs`, { ...part, logs: plan.flowLogs }, { parent: this });
    }
    this.registerOutputs({ vpcId: this.vpcId });
  }

  #createSubnets(kind: "public" | "private", { context, plan, vpc }: Part): readonly ZoneSubnet[] {
    return plan[`${kind}Subnets`].map(({ zone, args }) => {
      const tags = { ...namedTags(context, `${kind}-${zone}`), ...args.tags };
      const subnet = new Subnet(
        `${this.#name}-${kind}-${zone}`,
        { ...args, vpcId: vpc.id, tags },
        { parent: this },
      );
      return { zone, id: subnet.id };
    });
  }

  #routePublicSubnets(part: Part): InternetGateway {
    const { context, vpc } = part;
    const gateway = new InternetGateway(
      `${this.#name}-internet`,
      { vpcId: vpc.id, tags: namedTags(context, "internet") },
      // AWS detaches it from no VPC that has public addresses, and those of the old VPC are deleted last.
      { parent: this, replaceOnChanges: ["vpcId"] },
    );
    const table = this.#createRouteTable("public", part, { gatewayId: gateway.id });
    for (const subnet of this.publicSubnets) this.#associate(`public-${subnet.zone}`, subnet, table);
    return gateway;
  }

  #createNatGateways({ context, plan }: Part, internet: InternetGateway): ReadonlyMap<string, NatGateway> {
    return new Map(
      plan.natZones.map((zone) => {
        // Public addresses need the internet gateway, to which they don't refer.
        const opts = { parent: this, dependsOn: [internet] };
        const tags = namedTags(context, `nat-${zone}`);
        const subnet = this.publicSubnets.find((one) => one.zone === zone);
        if (subnet === undefined) throw new Error(`The plan has no public subnet in zone ${zone}`);
        const address = new Eip(`${this.#name}-nat-${zone}-address`, { domain: "vpc", tags }, opts);
        const args = { allocationId: address.id, subnetId: subnet.id, tags };
        return [zone, new NatGateway(`${this.#name}-nat-${zone}`, args, opts)];
      }),
    );
  }

  /** @returns The table of each zone. */
  #routePrivateSubnets(part: Part, natGateways: ReadonlyMap<string, NatGateway>): readonly RouteTable[] {
    const [shared] = natGateways.values();
    return this.privateSubnets.map((subnet) => {
      const subject = `private-${subnet.zone}`;
      const gateway = natGateways.get(subnet.zone) ?? shared;
      const table = this.#createRouteTable(subject, part, gateway && { natGatewayId: gateway.id });
      this.#associate(subject, subnet, table);
      return table;
    });
  }

  /** @param target - Of what is not for the VPC. */
  #createRouteTable(
    subject: string,
    { context, vpc }: Part,
    target?: Readonly<Record<string, pulumi.Input<string>>>,
  ): RouteTable {
    const table = new RouteTable(
      `${this.#name}-${subject}-routes`,
      { vpcId: vpc.id, tags: namedTags(context, subject) },
      { parent: this },
    );
    if (target !== undefined)
      new Route(
        `${this.#name}-${subject}-default`,
        { routeTableId: table.id, destinationCidrBlock: EVERYWHERE, ...target },
        { parent: this },
      );
    return table;
  }

  #associate(subject: string, { id }: ZoneSubnet, table: RouteTable): void {
    new RouteTableAssociation(
      `${this.#name}-${subject}-association`,
      { subnetId: id, routeTableId: table.id },
      { parent: this },
    );
  }
}

interface NetworkEndpointsArgs extends Part {
  readonly routeTables: readonly RouteTable[];
  readonly subnets: readonly ZoneSubnet[];
}

/** Ways to AWS services that pass the NAT gateways by. */
class NetworkEndpoints extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, plan, vpc, routeTables, subnets }: NetworkEndpointsArgs,
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:NetworkEndpoints", name, {}, opts);

    const own = { parent: this };
    const endpoint = (service: string) => ({
      vpcId: vpc.id,
      serviceName: `com.amazonaws.${context.region}.${service}`,
      tags: namedTags(context, service.replaceAll(".", "-")),
    });
    // S3 has the layers of ECR's images, and a gateway to it is free.
    const routeTableIds = routeTables.map(({ id }) => id);
    new VpcEndpoint(`${name}-s3`, { ...endpoint("s3"), vpcEndpointType: "Gateway", routeTableIds }, own);
    if (plan.interfaceEndpoints.length > 0) {
      const group = new SecurityGroup(
        `${name}-group`,
        {
          name: `${context.name}-endpoints`,
          description: "Endpoints of AWS services within the VPC",
          vpcId: vpc.id,
          tags: namedTags(context, "endpoints"),
        },
        { ...own, ...GROUP_OPTIONS },
      );
      new SecurityGroupIngressRule(
        `${name}-https`,
        {
          ...HTTPS,
          securityGroupId: group.id,
          description: "HTTPS from the VPC",
          cidrIpv4: plan.vpc.cidrBlock,
          tags: namedTags(context, "endpoints-https"),
        },
        own,
      );
      for (const service of plan.interfaceEndpoints)
        new VpcEndpoint(
          `${name}-${service.replaceAll(".", "-")}`,
          {
            ...endpoint(service),
            vpcEndpointType: "Interface",
            privateDnsEnabled: true,
            subnetIds: subnets.map(({ id }) => id),
            securityGroupIds: [group.id],
          },
          own,
        );
    }
    this.registerOutputs({});
  }
}

/** Records in CloudWatch of who connects to whom in a VPC. */
class FlowLogs extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, vpc, logs }: Part & { readonly logs: NonNullable<NewNetwork["flowLogs"]> },
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:FlowLogs", name, {}, opts);

    const group = new LogGroup(
      `${name}-group`,
      { ...logs.logGroup, tags: namedTags(context, "flow-logs") },
      { parent: this },
    );
    const writer = new WorkloadRole(`${name}-writer`, { context, plan: logs.role }, { parent: this });
    new FlowLog(
      `${name}-log`,
      {
        vpcId: vpc.id,
        trafficType: "ALL",
        logDestinationType: "cloud-watch-logs",
        logDestination: group.arn,
        iamRoleArn: writer.arn,
        tags: namedTags(context, "flow-log"),
      },
      { parent: this, dependsOn: [writer] },
    );
    this.registerOutputs({});
  }
}
