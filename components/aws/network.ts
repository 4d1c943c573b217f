/**
 * The network of a stack: subnets for machines, which reach the internet and are not reached from it, and public ones for
 * NAT gateways and load balancers. An existing network is taken as it is.
 *
 * Cost: 0.045 USD an hour for each NAT gateway and 0.045 USD a GB through it (us-east-1), and what its endpoints and flow logs
 * cost; the rest is free.
 */
import { DefaultSecurityGroup } from "@pulumi/aws/ec2/defaultSecurityGroup.js";
import { Eip } from "@pulumi/aws/ec2/eip.js";
import { InternetGateway } from "@pulumi/aws/ec2/internetGateway.js";
import { NatGateway } from "@pulumi/aws/ec2/natGateway.js";
import { Route } from "@pulumi/aws/ec2/route.js";
import { RouteTable } from "@pulumi/aws/ec2/routeTable.js";
import { RouteTableAssociation } from "@pulumi/aws/ec2/routeTableAssociation.js";
import { Subnet } from "@pulumi/aws/ec2/subnet.js";
import { Vpc } from "@pulumi/aws/ec2/vpc.js";
import * as pulumi from "@pulumi/pulumi";
import type { AwsContext, NetworkPlan, SubnetPlan, Tags } from "../../infra/plan/aws/types.ts";
import { FlowLogs } from "./flow-logs.ts";
import { NetworkEndpoints } from "./network-endpoints.ts";
import { namedTags } from "./tags.ts";

interface NetworkArgs {
  readonly context: AwsContext;
  readonly plan: NetworkPlan;
}

interface ZoneSubnet {
  /** Letter after the region's name. */
  readonly zone: string;
  readonly id: pulumi.Input<string>;
}

type NewNetwork = Extract<NetworkPlan, { kind: "create" }>;

const EVERYWHERE = "0.0.0.0/0";

/** Who needs the internet, or an endpoint, depends on the component: subnets are there before their routes. */
export class Network extends pulumi.ComponentResource {
  readonly vpcId: pulumi.Output<string>;
  /** One a zone, in the order of the plan. */
  readonly privateSubnets: readonly ZoneSubnet[];
  readonly publicSubnets: readonly ZoneSubnet[];
  readonly #name: string;
  readonly #context: AwsContext;

  constructor(name: string, { context, plan }: NetworkArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Network", name, {}, opts);
    this.#name = name;
    this.#context = context;

    if (plan.kind === "existing") {
      this.vpcId = pulumi.output(plan.vpcId);
      this.privateSubnets = plan.privateSubnets;
      this.publicSubnets = plan.publicSubnets;
    } else {
      const vpc = this.#createVpc(plan);
      this.vpcId = vpc.id;
      this.#emptyDefaultGroup(vpc);
      const publicSubnets = this.#createSubnets(vpc, "public", plan.publicSubnets, plan.publicSubnetTags);
      const privateSubnets = this.#createSubnets(vpc, "private", plan.privateSubnets, plan.privateSubnetTags);
      const internet = this.#openPublicSubnets(vpc, publicSubnets);
      const natGateways = this.#createNatGateways(plan.natZones, publicSubnets, internet);
      const routeTables = this.#openPrivateSubnets(vpc, privateSubnets, natGateways);
      this.privateSubnets = idsOf(privateSubnets);
      new NetworkEndpoints(
        `${name}-endpoints`,
        { context, plan, vpcId: vpc.id, routeTables, subnets: this.privateSubnets },
        { parent: this },
      );
      if (plan.flowLogs !== null)
        new FlowLogs(`${name}-flow-logs`, { context, plan: plan.flowLogs, vpcId: vpc.id }, { parent: this });
      this.publicSubnets = idsOf(publicSubnets);
    }
    this.registerOutputs({ vpcId: this.vpcId });
  }

  #createVpc({ cidr }: NewNetwork): Vpc {
    return new Vpc(
      `${this.#name}-vpc`,
      // Names of interface endpoints, of mount targets and of machines are answered within the VPC by both together.
      { cidrBlock: cidr, enableDnsSupport: true, enableDnsHostnames: true, tags: this.#tags("vpc") },
      { parent: this },
    );
  }

  /** What is made without a group gets this one, and then reaches nothing. */
  #emptyDefaultGroup(vpc: Vpc): void {
    new DefaultSecurityGroup(
      `${this.#name}-default-group`,
      { vpcId: vpc.id, ingress: [], egress: [], tags: this.#tags("default-unused") },
      { parent: this },
    );
  }

  #createSubnets(
    vpc: Vpc,
    kind: "public" | "private",
    plans: readonly SubnetPlan[],
    tags: Tags,
  ): ReadonlyMap<string, Subnet> {
    return new Map(
      plans.map(({ zone, cidr }) => [
        zone,
        new Subnet(
          `${this.#name}-${kind}-${zone}`,
          {
            vpcId: vpc.id,
            cidrBlock: cidr,
            availabilityZone: `${this.#context.region}${zone}`,
            // A NAT gateway has an address of its own, and load balancers get theirs from AWS.
            mapPublicIpOnLaunch: false,
            tags: { ...this.#tags(`${kind}-${zone}`), ...tags },
          },
          { parent: this },
        ),
      ]),
    );
  }

  #openPublicSubnets(vpc: Vpc, subnets: ReadonlyMap<string, Subnet>): InternetGateway {
    const gateway = new InternetGateway(
      `${this.#name}-internet`,
      { vpcId: vpc.id, tags: this.#tags("internet") },
      // It leaves no VPC that has addresses of the internet, and those of the old one go last.
      { parent: this, replaceOnChanges: ["vpcId"] },
    );
    const table = this.#createRouteTable(vpc, "public");
    new Route(
      `${this.#name}-public-default`,
      { routeTableId: table.id, destinationCidrBlock: EVERYWHERE, gatewayId: gateway.id },
      { parent: this },
    );
    for (const [zone, subnet] of subnets) this.#associate(`public-${zone}`, subnet, table);
    return gateway;
  }

  #createNatGateways(
    zones: readonly string[],
    subnets: ReadonlyMap<string, Subnet>,
    internet: InternetGateway,
  ): ReadonlyMap<string, NatGateway> {
    return new Map(
      zones.map((zone) => {
        // Addresses of the internet work only with its gateway, which they don't refer to.
        const opts = { parent: this, dependsOn: [internet] };
        const tags = this.#tags(`nat-${zone}`);
        const address = new Eip(`${this.#name}-nat-${zone}-address`, { domain: "vpc", tags }, opts);
        const gateway = new NatGateway(
          `${this.#name}-nat-${zone}`,
          { allocationId: address.id, subnetId: ofZone(subnets, zone).id, tags },
          opts,
        );
        return [zone, gateway];
      }),
    );
  }

  /** @returns The table of each zone. */
  #openPrivateSubnets(
    vpc: Vpc,
    subnets: ReadonlyMap<string, Subnet>,
    natGateways: ReadonlyMap<string, NatGateway>,
  ): readonly RouteTable[] {
    const [shared] = natGateways.values();
    return [...subnets].map(([zone, subnet]) => {
      const table = this.#createRouteTable(vpc, `private-${zone}`);
      const gateway = natGateways.get(zone) ?? shared;
      if (gateway !== undefined)
        new Route(
          `${this.#name}-private-${zone}-default`,
          { routeTableId: table.id, destinationCidrBlock: EVERYWHERE, natGatewayId: gateway.id },
          { parent: this },
        );
      this.#associate(`private-${zone}`, subnet, table);
      return table;
    });
  }

  #createRouteTable(vpc: Vpc, subject: string): RouteTable {
    return new RouteTable(
      `${this.#name}-${subject}-routes`,
      { vpcId: vpc.id, tags: this.#tags(subject) },
      { parent: this },
    );
  }

  #associate(subject: string, subnet: Subnet, table: RouteTable): void {
    new RouteTableAssociation(
      `${this.#name}-${subject}-association`,
      { subnetId: subnet.id, routeTableId: table.id },
      { parent: this },
    );
  }

  #tags(subject: string): Record<string, string> {
    return namedTags(this.#context, subject);
  }
}

function idsOf(subnets: ReadonlyMap<string, Subnet>): readonly ZoneSubnet[] {
  return [...subnets].map(([zone, { id }]) => ({ zone, id }));
}

function ofZone(subnets: ReadonlyMap<string, Subnet>, zone: string): Subnet {
  const subnet = subnets.get(zone);
  if (subnet === undefined) throw new Error(`The plan has no public subnet in zone ${zone}`);
  return subnet;
}
