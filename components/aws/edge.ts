/**
 * The door for clients: a load balancer that ends TLS and hands requests to the gateway, within the VPC or to the internet.
 * Cost: 0.0225 USD an hour and 0.008 an hour for each capacity unit, of about 1 GB an hour (us-east-1).
 */
import { SecurityGroup } from "@pulumi/aws/ec2/securityGroup.js";
import { Listener } from "@pulumi/aws/lb/listener.js";
import { LoadBalancer } from "@pulumi/aws/lb/loadBalancer.js";
import { TargetGroup } from "@pulumi/aws/lb/targetGroup.js";
import { TargetGroupAttachment } from "@pulumi/aws/lb/targetGroupAttachment.js";
import { Record as DnsRecord } from "@pulumi/aws/route53/record.js";
import { SecurityGroupEgressRule } from "@pulumi/aws/vpc/securityGroupEgressRule.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import type { AwsContext, EdgePlan } from "../../infra/plan/aws/types.ts";
import { GROUP_OPTIONS } from "./security-group.ts";
import { namedTags } from "./tags.ts";

interface EdgeArgs {
  readonly context: AwsContext;
  readonly plan: EdgePlan;
  readonly vpcId: pulumi.Input<string>;
  /** Two zones or more: the public subnets where the plan is public, else the private ones. */
  readonly subnets: readonly { readonly zone: string; readonly id: pulumi.Input<string> }[];
  readonly target: {
    /** Of the machines or pods, which are opened to the load balancer. */
    readonly securityGroupId: pulumi.Input<string>;
    /** The one machine; absent: who knows the pods registers them. */
    readonly instanceId?: pulumi.Input<string>;
  };
}

/** TLS 1.2 and 1.3 with forward secrecy: AWS's advice of https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html */
const TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09";

const HEALTH_CHECK = { interval: 10, timeout: 5, healthyThreshold: 2, unhealthyThreshold: 3 } as const;

/**
 * Their names change with what AWS can't change about them, so that both can be there at once. Amazon's provider does not look at
 * that: what has a name of the program goes first, and a target group that a listener has can't go.
 */
const MAKES_FIRST = { deleteBeforeReplace: false } as const;

export class Edge extends pulumi.ComponentResource {
  /** By which clients reach the gateway, without a slash at its end. */
  readonly url: pulumi.Output<string>;
  /** Of the load balancer, as AWS names it. */
  readonly dnsName: pulumi.Output<string>;
  readonly targetGroupArn: pulumi.Output<string>;
  readonly securityGroupId: pulumi.Output<string>;
  readonly #name: string;
  readonly #context: AwsContext;

  constructor(name: string, args: EdgeArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Edge", name, {}, opts);
    this.#name = name;
    this.#context = args.context;

    const group = this.#createGroup(args);
    this.#letClientsIn(group, args.plan);
    this.#openTargets(group, args);
    const balancer = this.#createBalancer(group, args);
    const targets = this.#createTargets(args);
    this.#createListener(balancer, targets, args.plan);
    this.#createRecord(balancer, args.plan);
    this.url =
      args.plan.url === null ? pulumi.interpolate`http://${balancer.dnsName}` : pulumi.output(args.plan.url);
    this.dnsName = balancer.dnsName;
    this.targetGroupArn = targets.arn;
    this.securityGroupId = group.id;
    this.registerOutputs({ url: this.url, dnsName: this.dnsName });
  }

  #createGroup({ vpcId }: EdgeArgs): SecurityGroup {
    return new SecurityGroup(
      `${this.#name}-group`,
      {
        name: `${this.#context.name}-edge`,
        description: "Load balancer of the gateway",
        vpcId,
        tags: this.#tags("edge"),
      },
      { parent: this, ...GROUP_OPTIONS },
    );
  }

  #letClientsIn(group: SecurityGroup, plan: EdgePlan): void {
    const { port } = listening(plan);
    for (const cidr of plan.cidrs)
      new SecurityGroupIngressRule(
        `${this.#name}-from-${cidr.replaceAll(/[./]/g, "-")}`,
        {
          securityGroupId: group.id,
          description: `Clients of ${cidr}`,
          cidrIpv4: cidr,
          ipProtocol: "tcp",
          fromPort: port,
          toPort: port,
          tags: this.#tags("edge-clients"),
        },
        { parent: this },
      );
  }

  /** Both ends of the one way that the load balancer has. */
  #openTargets(group: SecurityGroup, { plan, target }: EdgeArgs): void {
    const way = { ipProtocol: "tcp", fromPort: plan.targetPort, toPort: plan.targetPort };
    new SecurityGroupEgressRule(
      `${this.#name}-to-targets`,
      {
        securityGroupId: group.id,
        description: "The gateway",
        referencedSecurityGroupId: target.securityGroupId,
        ...way,
        tags: this.#tags("edge-to-targets"),
      },
      { parent: this },
    );
    new SecurityGroupIngressRule(
      `${this.#name}-into-targets`,
      {
        securityGroupId: target.securityGroupId,
        description: `The load balancer of ${this.#context.name}`,
        referencedSecurityGroupId: group.id,
        ...way,
        tags: this.#tags("edge-into-targets"),
      },
      { parent: this },
    );
  }

  #createBalancer(group: SecurityGroup, { plan, subnets, context }: EdgeArgs): LoadBalancer {
    return new LoadBalancer(
      `${this.#name}-balancer`,
      {
        name: plan.loadBalancerName,
        loadBalancerType: "application",
        internal: !plan.isPublic,
        subnets: subnets.map(({ id }) => id),
        securityGroups: [group.id],
        idleTimeout: plan.idleTimeoutSeconds,
        dropInvalidHeaderFields: true,
        enableDeletionProtection: context.isRetained,
        tags: this.#tags("edge"),
      },
      { parent: this, ...MAKES_FIRST },
    );
  }

  #createTargets({ plan, vpcId, target }: EdgeArgs): TargetGroup {
    const targets = new TargetGroup(
      `${this.#name}-targets`,
      {
        name: plan.targetGroupName,
        vpcId,
        targetType: plan.targetType,
        protocol: "HTTP",
        port: plan.targetPort,
        deregistrationDelay: plan.drainSeconds,
        healthCheck: { ...HEALTH_CHECK, path: plan.healthPath, matcher: "200" },
        tags: this.#tags("edge"),
      },
      { parent: this, ...MAKES_FIRST },
    );
    if (target.instanceId !== undefined)
      new TargetGroupAttachment(
        `${this.#name}-machine`,
        { targetGroupArn: targets.arn, targetId: target.instanceId, port: plan.targetPort },
        { parent: this },
      );
    return targets;
  }

  #createListener(balancer: LoadBalancer, targets: TargetGroup, plan: EdgePlan): void {
    new Listener(
      `${this.#name}-listener`,
      {
        loadBalancerArn: balancer.arn,
        ...listening(plan),
        ...(plan.certificateArn === null
          ? {}
          : { certificateArn: plan.certificateArn, sslPolicy: TLS_POLICY }),
        defaultActions: [{ type: "forward", targetGroupArn: targets.arn }],
        tags: this.#tags("edge"),
      },
      // Where the load balancer alone is another one, its targets leave the old one first: they have one.
      { parent: this, deleteBeforeReplace: true },
    );
  }

  #createRecord(balancer: LoadBalancer, { hostname, zoneId }: EdgePlan): void {
    if (hostname === null || zoneId === null) return;
    new DnsRecord(
      `${this.#name}-record`,
      {
        zoneId,
        name: hostname,
        type: "A",
        aliases: [{ name: balancer.dnsName, zoneId: balancer.zoneId, evaluateTargetHealth: false }],
      },
      { parent: this },
    );
  }

  #tags(subject: string): Record<string, string> {
    return namedTags(this.#context, subject);
  }
}

/** There is no second listener that redirects: a key that was sent to it in clear would be lost already. */
function listening({ certificateArn }: EdgePlan): { readonly protocol: string; readonly port: number } {
  return certificateArn === null ? { protocol: "HTTP", port: 80 } : { protocol: "HTTPS", port: 443 };
}
