/**
 * The load balancer of the gateway: it ends TLS and answers the VPC or the internet. Cost: 0.0225 USD an hour and 0.008 an hour for
 * each capacity unit, of about 1 GB an hour (us-east-1); certificates of ACM are free.
 */
import { Certificate } from "@pulumi/aws/acm/certificate.js";
import { CertificateValidation } from "@pulumi/aws/acm/certificateValidation.js";
import { Listener } from "@pulumi/aws/lb/listener.js";
import { LoadBalancer } from "@pulumi/aws/lb/loadBalancer.js";
import { TargetGroup } from "@pulumi/aws/lb/targetGroup.js";
import { TargetGroupAttachment } from "@pulumi/aws/lb/targetGroupAttachment.js";
import { Record as DnsRecord } from "@pulumi/aws/route53/record.js";
import { SecurityGroupEgressRule } from "@pulumi/aws/vpc/securityGroupEgressRule.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import { WebAclAssociation } from "@pulumi/aws/wafv2/webAclAssociation.js";
import * as pulumi from "@pulumi/pulumi";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";
import type { EdgePlan } from "../../infra/plan/aws/edge.ts";
import { securityGroup, tcp, type ZoneSubnet } from "./network.ts";

interface EdgeArgs {
  readonly context: AwsContext;
  readonly plan: EdgePlan;
  readonly vpcId: pulumi.Input<string>;
  /** Subnets in two zones or more: public if the plan is public, otherwise private. */
  readonly subnets: readonly ZoneSubnet[];
  readonly target: {
    /** Security group of machines or pods; it gets a rule that lets the load balancer in. */
    readonly securityGroupId: pulumi.Input<string>;
    /** The only machine; absent: a controller registers pods. */
    readonly instanceId?: pulumi.Input<string>;
  };
}

/**
 * Old and new resource coexist under different names. Amazon's provider would first delete a resource with a fixed name, and AWS refuses to
 * delete a target group in use by a listener.
 */
const MAKES_FIRST = { deleteBeforeReplace: false };

export class Edge extends pulumi.ComponentResource {
  /** URL of the gateway for clients, without a final slash. */
  readonly url: pulumi.Output<string>;
  /** Name that AWS gives the load balancer. */
  readonly dnsName: pulumi.Output<string>;
  readonly targetGroupArn: pulumi.Output<string>;

  constructor(
    name: string,
    { context, plan, vpcId, subnets, target }: EdgeArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Edge", name, {}, opts);

    const own = { parent: this };
    const tags = namedTags(context, "edge");
    const description = "Load balancer of the gateway";
    const group = securityGroup(`${name}-group`, { context, subject: "edge", description, vpcId }, this);
    for (const cidrIpv4 of plan.cidrs)
      new SecurityGroupIngressRule(
        `${name}-from-${cidrIpv4.replaceAll(/[./]/g, "-")}`,
        {
          ...tcp(plan.listener.port),
          securityGroupId: group.id,
          description: `Clients of ${cidrIpv4}`,
          cidrIpv4,
          tags: namedTags(context, "edge-clients"),
        },
        own,
      );
    new SecurityGroupEgressRule(
      `${name}-to-targets`,
      {
        ...tcp(plan.targetGroup.port),
        securityGroupId: group.id,
        description: "The gateway",
        referencedSecurityGroupId: target.securityGroupId,
        tags: namedTags(context, "edge-to-targets"),
      },
      own,
    );
    new SecurityGroupIngressRule(
      `${name}-into-targets`,
      {
        ...tcp(plan.targetGroup.port),
        securityGroupId: target.securityGroupId,
        description: `The load balancer of ${context.name}`,
        referencedSecurityGroupId: group.id,
        tags: namedTags(context, "edge-into-targets"),
      },
      own,
    );
    const balancer = new LoadBalancer(
      `${name}-balancer`,
      { ...plan.loadBalancer, subnets: subnets.map(({ id }) => id), securityGroups: [group.id], tags },
      { ...own, ...MAKES_FIRST },
    );
    const guards =
      plan.webAclArn === null
        ? []
        : [
            new WebAclAssociation(
              `${name}-acl`,
              { resourceArn: balancer.arn, webAclArn: plan.webAclArn },
              // Deleting an association removes whatever web ACL the load balancer has by then.
              { ...own, deleteBeforeReplace: true },
            ),
          ];
    const targets = new TargetGroup(
      `${name}-targets`,
      { ...plan.targetGroup, vpcId, tags },
      { ...own, ...MAKES_FIRST },
    );
    if (target.instanceId !== undefined)
      new TargetGroupAttachment(
        `${name}-machine`,
        { targetGroupArn: targets.arn, targetId: target.instanceId, port: plan.targetGroup.port },
        own,
      );
    const made =
      plan.certificate === null || plan.zoneId === null
        ? {}
        : { certificateArn: issued(name, plan.certificate, { zoneId: plan.zoneId, tags, parent: this }) };
    new Listener(
      `${name}-listener`,
      {
        ...plan.listener,
        ...made,
        loadBalancerArn: balancer.arn,
        defaultActions: [{ type: "forward", targetGroupArn: targets.arn }],
        tags,
      },
      // A target group belongs to one load balancer, and leaves it before that is replaced.
      { ...own, deleteBeforeReplace: true, dependsOn: guards },
    );
    const { hostname, zoneId, url } = plan;
    if (hostname !== null && zoneId !== null)
      new DnsRecord(
        `${name}-record`,
        {
          zoneId,
          name: hostname,
          type: "A",
          aliases: [{ name: balancer.dnsName, zoneId: balancer.zoneId, evaluateTargetHealth: false }],
        },
        own,
      );
    this.url = url === null ? pulumi.interpolate`http://${balancer.dnsName}` : pulumi.output(url);
    this.dnsName = balancer.dnsName;
    this.targetGroupArn = targets.arn;
    this.registerOutputs({ url: this.url, dnsName: this.dnsName });
  }
}

/** ACM looks for the record every few minutes; a record that is still missing then is not in the zone that the internet asks. */
const ISSUE_TIMEOUT = "30m";

interface IssuedOptions {
  readonly zoneId: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly parent: pulumi.Resource;
}

/** ARN of a certificate that is issued: one host name has one record, by which ACM renews the certificate too. */
function issued(
  name: string,
  plan: NonNullable<EdgePlan["certificate"]>,
  { zoneId, tags, parent }: IssuedOptions,
): pulumi.Output<string> {
  const own = { parent };
  const certificate = new Certificate(`${name}-certificate`, { ...plan, tags }, own);
  const proof = certificate.domainValidationOptions.apply(([option]) => {
    if (option === undefined) throw new Error(`ACM names no record for ${plan.domainName}`);
    return option;
  });
  const record = new DnsRecord(
    `${name}-certificate-record`,
    {
      zoneId,
      name: proof.resourceRecordName,
      type: proof.resourceRecordType,
      records: [proof.resourceRecordValue],
      ttl: 300,
      // An account's certificates of one name have the same record.
      allowOverwrite: true,
    },
    own,
  );
  return new CertificateValidation(
    `${name}-certificate-issued`,
    { certificateArn: certificate.arn, validationRecordFqdns: [record.fqdn] },
    { ...own, customTimeouts: { create: ISSUE_TIMEOUT } },
  ).certificateArn;
}
