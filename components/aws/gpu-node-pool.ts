/**
 * Machines of a pool, with or without GPUs: a managed node group with a launch template. Cost: its machines and their root disks, none
 * at zero machines.
 */
import { Tag } from "@pulumi/aws/autoscaling/tag.js";
import { LaunchTemplate } from "@pulumi/aws/ec2/launchTemplate.js";
import { NodeGroup } from "@pulumi/aws/eks/nodeGroup.js";
import * as pulumi from "@pulumi/pulumi";
import { namedTags, plainName } from "../../infra/plan/aws/context.ts";
import type { NodePoolPlan } from "../../infra/plan/aws/node-pools.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import type { ZoneSubnet } from "./network.ts";

interface GpuNodePoolArgs {
  readonly context: AwsContext;
  readonly plan: NodePoolPlan;
  readonly clusterName: pulumi.Input<string>;
  readonly nodeRoleArn: pulumi.Input<string>;
  /** Of the network; the pool uses those of its zones. */
  readonly subnets: readonly ZoneSubnet[];
  /** What machines need to join: the role's policies, the add-ons of the network. */
  readonly after: readonly pulumi.Resource[];
}

/** https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html */
const TEMPLATE_NAME_LENGTH = 128;

/** The group's name has a random end, so that another instance type creates a new group before the old one is deleted. */
export class GpuNodePool extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, plan, clusterName, nodeRoleArn, subnets, after }: GpuNodePoolArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:GpuNodePool", name, {}, opts);

    const subnetIds = subnets.filter(({ zone }) => plan.zones.includes(zone)).map(({ id }) => id);
    if (subnetIds.length === 0)
      throw new Error(
        `The network has no subnet in a zone of the pool ${plan.name}: ${plan.zones.join(", ")}`,
      );
    const tags = namedTags(context, plan.name);
    // EKS does not give a node group's tags to its machines. A change of these tags replaces all machines.
    const lastingTags = namedTags({ ...context, tags: context.lastingTags }, plan.name);
    const template = new LaunchTemplate(
      `${name}-template`,
      {
        ...plan.launchTemplate,
        name: plainName(`${context.name}-${plan.name}`, TEMPLATE_NAME_LENGTH),
        tagSpecifications: ["instance", "network-interface", "volume"].map((resourceType) => ({
          resourceType,
          tags: lastingTags,
        })),
        tags,
      },
      { parent: this },
    );
    const group = new NodeGroup(
      `${name}-group`,
      {
        ...plan.nodeGroup,
        clusterName,
        nodeRoleArn,
        subnetIds,
        launchTemplate: { id: template.id, version: pulumi.interpolate`${template.latestVersion}` },
        tags: { ...tags, ...plan.nodeGroup.tags },
      },
      // When one of the three numbers changes, Amazon's provider sends all of them, and the autoscaler has changed the desired one
      // since: machines that serve would end. `npm run up` sends new sizes to EKS itself.
      { parent: this, dependsOn: [...after], ignoreChanges: ["scalingConfig"] },
    );
    // EKS does not give a node group's tags to its Auto Scaling group, of which it creates exactly one.
    const autoscalingGroupName = group.resources.apply((resources) => {
      const created = resources[0]?.autoscalingGroups[0]?.name;
      if (created === undefined) throw new Error(`The node group of ${name} has no Auto Scaling group`);
      return created;
    });
    for (const [key, value] of Object.entries(plan.scalingTags))
      new Tag(
        `${name}-${key.slice(key.indexOf("/node-template/") + 1)}`,
        { autoscalingGroupName, tag: { key, value, propagateAtLaunch: false } },
        { parent: this },
      );
    this.registerOutputs({});
  }
}
