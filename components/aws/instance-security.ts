/** The security group of an instance, and what it may reach. Who reaches it is said by the load balancer. Cost: none. */
import { SecurityGroup } from "@pulumi/aws/ec2/securityGroup.js";
import { SecurityGroupEgressRule } from "@pulumi/aws/vpc/securityGroupEgressRule.js";
import * as pulumi from "@pulumi/pulumi";
import { namedTags } from "../../infra/plan/aws/context.ts";
import type { InstancePlan } from "../../infra/plan/aws/machine/instance.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import { GROUP_OPTIONS } from "./network.ts";

interface InstanceSecurityArgs {
  readonly context: AwsContext;
  readonly vpcId: pulumi.Input<string>;
  readonly egressPorts: InstancePlan["egressPorts"];
}

export class InstanceSecurity extends pulumi.ComponentResource {
  readonly securityGroupId: pulumi.Output<string>;

  constructor(name: string, args: InstanceSecurityArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:InstanceSecurity", name, {}, opts);

    this.securityGroupId = this.#createGroup(name, args).id;
    for (const [subject, port] of Object.entries(args.egressPorts))
      this.#allowEgress(name, args, subject, port);
    this.registerOutputs({ securityGroupId: this.securityGroupId });
  }

  #createGroup(name: string, { context, vpcId }: InstanceSecurityArgs): SecurityGroup {
    const tags = namedTags(context, "instance");
    return new SecurityGroup(
      `${name}-group`,
      {
        name: tags.Name,
        description: "The machine that runs the stack",
        vpcId,
        tags,
      },
      { parent: this, ...GROUP_OPTIONS },
    );
  }

  #allowEgress(name: string, { context }: InstanceSecurityArgs, subject: string, port: number): void {
    new SecurityGroupEgressRule(
      `${name}-egress-${subject}`,
      {
        securityGroupId: this.securityGroupId,
        cidrIpv4: "0.0.0.0/0",
        ipProtocol: "tcp",
        fromPort: port,
        toPort: port,
        tags: namedTags(context, `instance-${subject}`),
      },
      { parent: this },
    );
  }
}
