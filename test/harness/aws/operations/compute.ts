/** Machines and clusters. */
import { by, type OperationRow, own } from "./row.ts";

const EC2_TAGS = { tags: "TagSpecifications[].Tags" } as const;

export const computeOperations: Readonly<Record<string, OperationRow>> = {
  "aws:ec2/launchTemplate:LaunchTemplate": {
    operation: "ec2:CreateLaunchTemplate",
    base: "LaunchTemplateData",
    properties: {
      ...EC2_TAGS,
      name: "LaunchTemplateName",
      description: "VersionDescription",
      ramDiskId: "LaunchTemplateData.RamDiskId",
      vpcSecurityGroupIds: "LaunchTemplateData.SecurityGroupIds",
      updateDefaultVersion: own("whether a new version becomes the default"),
      "networkInterfaces.securityGroups": "Groups",
      "tagSpecifications.tags": "Tags",
    },
  },
  "aws:ec2/instance:Instance": {
    operation: "ec2:RunInstances",
    properties: {
      ...EC2_TAGS,
      ami: "ImageId",
      associatePublicIpAddress: "NetworkInterfaces[].AssociatePublicIpAddress",
      availabilityZone: "Placement.AvailabilityZone",
      tenancy: "Placement.Tenancy",
      iamInstanceProfile: "IamInstanceProfile.Name",
      monitoring: "Monitoring.Enabled",
      vpcSecurityGroupIds: "SecurityGroupIds",
      userDataBase64: "UserData",
      userDataReplaceOnChange: own("whether other user data is another instance"),
      forceDestroy: own("whether protection against termination is lifted first"),
      volumeTags: own("tags of its volumes, by a call of their own; those of the instance are checked"),
      sourceDestCheck: by("ec2:ModifyInstanceAttribute", "SourceDestCheck.Value"),
      rootBlockDevice: "BlockDeviceMappings[].Ebs",
      "rootBlockDevice.tags": own("as `volumeTags`"),
      ebsBlockDevices: own("not used: its root volume is its only one"),
      "launchTemplate.id": "LaunchTemplateId",
      "launchTemplate.name": "LaunchTemplateName",
      "capacityReservationSpecification.capacityReservationTarget": "CapacityReservationTarget",
      "instanceMarketOptions.spotOptions": "SpotOptions",
    },
    filled: ["MinCount", "MaxCount"],
  },
  "aws:ec2/volumeAttachment:VolumeAttachment": {
    operation: "ec2:AttachVolume",
    properties: {
      deviceName: "Device",
      forceDetach: by("ec2:DetachVolume", "Force"),
      skipDestroy: own("whether the end of the machine is what detaches it"),
      stopInstanceBeforeDetaching: own("whether the provider stops the machine first"),
    },
  },
  "aws:autoscaling/tag:Tag": {
    operation: "autoscaling:CreateOrUpdateTags",
    properties: { autoscalingGroupName: "Tags[].ResourceId", tag: "Tags[]" },
  },
  "aws:eks/cluster:Cluster": {
    operation: "eks:CreateCluster",
    properties: {
      vpcConfig: "resourcesVpcConfig",
      enabledClusterLogTypes: "logging.clusterLogging[].types",
      forceUpdateVersion: by("eks:UpdateClusterVersion", "force"),
      defaultAddonsToRemoves: own(
        "from which the provider tells bootstrapSelfManagedAddons of older clusters",
      ),
    },
  },
  "aws:eks/nodeGroup:NodeGroup": {
    operation: "eks:CreateNodegroup",
    properties: {
      nodeGroupName: "nodegroupName",
      nodeGroupNamePrefix: "nodegroupName",
      nodeRoleArn: "nodeRole",
      subnetIds: "subnets",
      forceUpdateVersion: by("eks:UpdateNodegroupVersion", "force"),
    },
    // EKS' own model accepts any text.
    allowed: { instanceTypes: "ec2:InstanceType" },
    // EKS accepts 63 characters; the provider adds 26 to a prefix.
    longest: { nodegroupName: 37 },
  },
  "aws:eks/addon:Addon": {
    operation: "eks:CreateAddon",
    properties: {
      resolveConflictsOnCreate: "resolveConflicts",
      resolveConflictsOnUpdate: by("eks:UpdateAddon", "resolveConflicts"),
      preserve: by("eks:DeleteAddon", "preserve"),
    },
  },
  "aws:eks/accessEntry:AccessEntry": {
    operation: "eks:CreateAccessEntry",
    properties: { userName: "username" },
  },
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": { operation: "eks:AssociateAccessPolicy" },
  "aws:eks/podIdentityAssociation:PodIdentityAssociation": { operation: "eks:CreatePodIdentityAssociation" },
  "aws:ssm/document:Document": {
    operation: "ssm:CreateDocument",
    properties: { attachmentsSources: "Attachments" },
  },
  "aws:ssm/association:Association": {
    operation: "ssm:CreateAssociation",
    properties: {
      waitForSuccessTimeoutSeconds: own("how long the provider waits for its end"),
    },
  },
};
