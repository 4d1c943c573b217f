/**
 * Ways from a VPC to services of AWS, past the NAT gateways. Cost: 0.01 USD an hour for each interface endpoint in each zone, and
 * 0.01 USD a GB through them (us-east-1); that of S3 is free.
 */
import { SecurityGroup } from "@pulumi/aws/ec2/securityGroup.js";
import { VpcEndpoint } from "@pulumi/aws/ec2/vpcEndpoint.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import type { AwsContext, NetworkPlan } from "../../infra/plan/aws/types.ts";
import { GROUP_OPTIONS } from "./security-group.ts";
import { namedTags } from "./tags.ts";

interface NetworkEndpointsArgs {
  readonly context: AwsContext;
  readonly plan: Pick<Extract<NetworkPlan, { kind: "create" }>, "cidr" | "interfaceEndpoints">;
  readonly vpcId: pulumi.Input<string>;
  /** Of the private subnets. */
  readonly routeTables: readonly { readonly id: pulumi.Input<string> }[];
  /** One a zone: those of the machines. */
  readonly subnets: readonly { readonly id: pulumi.Input<string> }[];
}

const HTTPS_PORT = 443;

export class NetworkEndpoints extends pulumi.ComponentResource {
  readonly #name: string;
  readonly #context: AwsContext;

  constructor(name: string, args: NetworkEndpointsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:NetworkEndpoints", name, {}, opts);
    this.#name = name;
    this.#context = args.context;

    this.#createStorageEndpoint(args);
    if (args.plan.interfaceEndpoints.length > 0) this.#createInterfaceEndpoints(args);
    this.registerOutputs({});
  }

  /** S3 has the layers of ECR's images, and is free by a gateway. */
  #createStorageEndpoint({ vpcId, routeTables }: NetworkEndpointsArgs): void {
    new VpcEndpoint(
      `${this.#name}-s3`,
      {
        vpcId,
        vpcEndpointType: "Gateway",
        serviceName: this.#serviceName("s3"),
        routeTableIds: routeTables.map(({ id }) => id),
        tags: this.#tags("s3"),
      },
      { parent: this },
    );
  }

  #createInterfaceEndpoints({ plan, vpcId, subnets }: NetworkEndpointsArgs): void {
    const group = this.#createGroup(vpcId, plan.cidr);
    for (const service of plan.interfaceEndpoints) {
      const subject = service.replaceAll(".", "-");
      new VpcEndpoint(
        `${this.#name}-${subject}`,
        {
          vpcId,
          vpcEndpointType: "Interface",
          serviceName: this.#serviceName(service),
          privateDnsEnabled: true,
          subnetIds: subnets.map(({ id }) => id),
          securityGroupIds: [group.id],
          tags: this.#tags(subject),
        },
        { parent: this },
      );
    }
  }

  #createGroup(vpcId: pulumi.Input<string>, cidr: string): SecurityGroup {
    const group = new SecurityGroup(
      `${this.#name}-group`,
      {
        name: `${this.#context.name}-endpoints`,
        description: "Endpoints of AWS services within the VPC",
        vpcId,
        tags: this.#tags("endpoints"),
      },
      { parent: this, ...GROUP_OPTIONS },
    );
    new SecurityGroupIngressRule(
      `${this.#name}-https`,
      {
        securityGroupId: group.id,
        description: "HTTPS from the VPC",
        cidrIpv4: cidr,
        ipProtocol: "tcp",
        fromPort: HTTPS_PORT,
        toPort: HTTPS_PORT,
        tags: this.#tags("endpoints-https"),
      },
      { parent: this },
    );
    return group;
  }

  #serviceName(service: string): string {
    return `com.amazonaws.${this.#context.region}.${service}`;
  }

  #tags(subject: string): Record<string, string> {
    return namedTags(this.#context, subject);
  }
}
