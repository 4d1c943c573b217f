/**
 * Machines of one pool, with GPUs or, as those of controllers and encoders, without: a managed node group with a launch template.
 * Cost: its machines and their root disks, none while it is at zero.
 */
import { Tag } from "@pulumi/aws/autoscaling/tag.js";
import { LaunchTemplate } from "@pulumi/aws/ec2/launchTemplate.js";
import { NodeGroup } from "@pulumi/aws/eks/nodeGroup.js";
import * as pulumi from "@pulumi/pulumi";
import { plainName } from "../../infra/plan/aws/plain-name.ts";
import type { AwsContext, NodePoolPlan, Tags } from "../../infra/plan/aws/types.ts";
import { lastingTags, namedTags } from "./tags.ts";

interface GpuNodePoolArgs {
  readonly context: AwsContext;
  readonly plan: NodePoolPlan;
  readonly clusterName: pulumi.Input<string>;
  /** Of Kubernetes. */
  readonly version: string;
  readonly nodeRoleArn: pulumi.Input<string>;
  /** Of the network; the pool uses those of its zones. */
  readonly subnets: readonly { readonly zone: string; readonly id: pulumi.Input<string> }[];
  /** What machines need to join: the role's policies, the add-ons of the network. */
  readonly after: readonly pulumi.Resource[];
}

/** Of Amazon Linux 2023. */
const ROOT_DEVICE = "/dev/xvda";

/** Amazon's provider appends 26 digits to a prefix, and a node group's name has 63 characters. */
const PREFIX_LENGTH = 37;

/** https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html */
const TEMPLATE_NAME_LENGTH = 128;

const TAGGED = ["instance", "network-interface", "volume"] as const;

/**
 * Its name has a random end, so that another instance type makes a new group before the old one goes, of this pool alone. Nothing
 * in it is of a model.
 */
export class GpuNodePool extends pulumi.ComponentResource {
  readonly nodeGroup: NodeGroup;

  constructor(name: string, args: GpuNodePoolArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:GpuNodePool", name, {}, opts);

    const template = this.#createTemplate(name, args);
    this.nodeGroup = this.#createGroup(name, args, template);
    this.#tagGroup(name, args.plan.scalingTags);
    this.registerOutputs({});
  }

  #createTemplate(name: string, { context, plan }: GpuNodePoolArgs): LaunchTemplate {
    const tags = namedTags(context, plan.name);
    const { rootDisk, capacityReservationId } = plan;
    return new LaunchTemplate(
      `${name}-template`,
      {
        name: plainName(`${context.name}-${plan.name}`, TEMPLATE_NAME_LENGTH),
        updateDefaultVersion: true,
        // Pods are not meant to have the machine's role: what they need is given to their own ServiceAccount. Drivers of EBS and
        // EFS do without: the one asks Kubernetes then, the other is in the machine's own network.
        metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
        blockDeviceMappings: [
          {
            deviceName: ROOT_DEVICE,
            ebs: {
              volumeType: "gp3",
              volumeSize: rootDisk.sizeGiB,
              iops: rootDisk.iops,
              throughput: rootDisk.throughputMiBps,
              encrypted: "true",
              deleteOnTermination: "true",
            },
          },
        ],
        ...(capacityReservationId === null
          ? {}
          : {
              capacityReservationSpecification: {
                capacityReservationTarget: { capacityReservationId },
              },
            }),
        userData: Buffer.from(plan.userData).toString("base64"),
        // EKS does not hand a node group's tags to its machines. Another tag here replaces all of them.
        tagSpecifications: TAGGED.map((resourceType) => ({
          resourceType,
          tags: lastingTags(context, plan.name),
        })),
        tags,
      },
      { parent: this },
    );
  }

  #createGroup(name: string, args: GpuNodePoolArgs, template: LaunchTemplate): NodeGroup {
    const { context, plan, clusterName, version, nodeRoleArn, after } = args;
    return new NodeGroup(
      `${name}-group`,
      {
        nodeGroupNamePrefix: `${plan.name.slice(0, PREFIX_LENGTH - 1)}-`,
        clusterName,
        version,
        nodeRoleArn,
        subnetIds: [...subnetIds(args)],
        instanceTypes: [...plan.instanceTypes],
        amiType: plan.amiType,
        capacityType: plan.capacityType,
        launchTemplate: { id: template.id, version: pulumi.interpolate`${template.latestVersion}` },
        scalingConfig: { minSize: plan.min, maxSize: plan.max, desiredSize: plan.desired },
        updateConfig: { maxUnavailable: 1, updateStrategy: plan.updateStrategy },
        // Two servers of a model on one such machine: their budget keeps the second until the first runs elsewhere, and there
        // is no other machine. After 15 minutes EKS would give the update up, with half of the model away:
        // https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
        ...(plan.updateStrategy === "MINIMAL" ? { forceUpdateVersion: true } : {}),
        labels: { ...plan.labels },
        taints: plan.taints.map((taint) => ({ ...taint })),
        tags: { ...namedTags(context, plan.name), ...plan.sizeTags },
      },
      // Amazon's provider sends all three numbers where one is another, and the autoscaler has long changed the third: machines
      // that serve would end. `npm run up` tells EKS what is another one, and a preview shows it by the tag.
      { parent: this, dependsOn: [...after], ignoreChanges: ["scalingConfig"] },
    );
  }

  /** EKS does not hand a node group's tags to its Auto Scaling group, of which it makes exactly one. */
  #tagGroup(name: string, tags: Tags): void {
    const autoscalingGroupName = this.nodeGroup.resources.apply((resources) => {
      const group = resources[0]?.autoscalingGroups[0]?.name;
      if (group === undefined) throw new Error(`The node group of ${name} has no Auto Scaling group`);
      return group;
    });
    for (const [key, value] of Object.entries(tags)) {
      new Tag(
        `${name}-${key.slice(key.indexOf("/node-template/") + 1)}`,
        { autoscalingGroupName, tag: { key, value, propagateAtLaunch: false } },
        { parent: this },
      );
    }
  }
}

function subnetIds({ plan, subnets }: GpuNodePoolArgs): readonly pulumi.Input<string>[] {
  const own = subnets.filter(({ zone }) => plan.zones.includes(zone));
  if (own.length === 0)
    throw new Error(`The network has no subnet in a zone of the pool ${plan.name}: ${plan.zones.join(", ")}`);
  return own.map(({ id }) => id);
}
