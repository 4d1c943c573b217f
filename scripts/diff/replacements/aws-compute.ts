/** Machines and clusters of AWS; `aws-row.ts` says where the rows come from. */
import { awsRow } from "./aws-row.ts";
import type { ReplacementRow } from "./types.ts";

export const awsComputeRows: Readonly<Record<string, ReplacementRow>> = {
  // Each change is a new version of it.
  "aws:ec2/launchTemplate:LaunchTemplate": awsRow(
    ["name"],
    [
      "blockDeviceMappings",
      "capacityReservationSpecification",
      "description",
      "ebsOptimized",
      "iamInstanceProfile",
      "imageId",
      "instanceMarketOptions",
      "instanceType",
      "metadataOptions",
      "monitoring",
      "networkInterfaces",
      "placement",
      "tagSpecifications",
      "updateDefaultVersion",
      "userData",
      "vpcSecurityGroupIds",
    ],
  ),
  "aws:ec2/instance:Instance": awsRow(
    [
      "ami",
      "associatePublicIpAddress",
      "availabilityZone",
      "ebsOptimized",
      "keyName",
      "launchTemplate.id",
      "launchTemplate.name",
      "privateIp",
      "rootBlockDevice.encrypted",
      "rootBlockDevice.kmsKeyId",
      "subnetId",
      "tenancy",
    ],
    [
      "capacityReservationSpecification",
      "disableApiTermination",
      "iamInstanceProfile",
      // It is stopped and started: what lies on its instance store is gone.
      "instanceType",
      "metadataOptions",
      "monitoring",
      "rootBlockDevice.deleteOnTermination",
      "rootBlockDevice.iops",
      "rootBlockDevice.tags",
      "rootBlockDevice.throughput",
      "rootBlockDevice.volumeSize",
      "rootBlockDevice.volumeType",
      "userDataReplaceOnChange",
      "volumeTags",
      "vpcSecurityGroupIds",
    ],
    {
      replacesWhen: {
        paths: ["userData", "userDataBase64"],
        is: ({ after }) => after.userDataReplaceOnChange === true,
      },
    },
  ),
  "aws:ec2/volumeAttachment:VolumeAttachment": awsRow(
    ["deviceName", "instanceId", "volumeId"],
    ["forceDetach", "skipDestroy", "stopInstanceBeforeDetaching"],
  ),
  "aws:autoscaling/tag:Tag": awsRow(
    ["autoscalingGroupName", "tag.key"],
    ["tag.propagateAtLaunch", "tag.value"],
  ),
  "aws:eks/cluster:Cluster": awsRow(
    [
      "accessConfig.bootstrapClusterCreatorAdminPermissions",
      "bootstrapSelfManagedAddons",
      "kubernetesNetworkConfig.ipFamily",
      "kubernetesNetworkConfig.serviceIpv4Cidr",
      "name",
      "remoteNetworkConfig",
      "roleArn",
    ],
    [
      "accessConfig.authenticationMode",
      "deletionProtection",
      "enabledClusterLogTypes",
      "upgradePolicy",
      "version",
      "vpcConfig",
      "zonalShiftConfig",
    ],
    {
      // `ForceNewIfChange`: it can be given to a cluster, and never be taken away.
      replacesWhen: {
        paths: ["encryptionConfig"],
        is: ({ before, after }) =>
          before.encryptionConfig !== undefined && after.encryptionConfig === undefined,
      },
    },
  ),
  "aws:eks/nodeGroup:NodeGroup": awsRow(
    [
      "amiType",
      "capacityType",
      "clusterName",
      "diskSize",
      "instanceTypes",
      "launchTemplate.id",
      "launchTemplate.name",
      "nodeGroupName",
      "nodeGroupNamePrefix",
      "nodeRoleArn",
      "remoteAccess",
      "subnetIds",
    ],
    [
      "forceUpdateVersion",
      "labels",
      "launchTemplate.version",
      "nodeRepairConfig",
      "releaseVersion",
      "scalingConfig",
      "taints",
      "updateConfig",
      "version",
    ],
  ),
  "aws:eks/addon:Addon": awsRow(
    ["addonName", "clusterName"],
    [
      "addonVersion",
      "configurationValues",
      "podIdentityAssociations",
      "preserve",
      "resolveConflictsOnCreate",
      "resolveConflictsOnUpdate",
      "serviceAccountRoleArn",
    ],
  ),
  "aws:eks/accessEntry:AccessEntry": awsRow(
    ["clusterName", "principalArn", "type"],
    ["kubernetesGroups", "userName"],
  ),
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": awsRow(
    ["accessScope", "clusterName", "policyArn", "principalArn"],
    [],
  ),
  "aws:eks/podIdentityAssociation:PodIdentityAssociation": awsRow(
    ["clusterName", "namespace", "serviceAccount"],
    ["roleArn"],
  ),
  "aws:ssm/document:Document": awsRow(
    ["name"],
    ["content", "documentFormat", "permissions", "targetType", "versionName"],
  ),
  "aws:ssm/association:Association": awsRow(
    ["name"],
    [
      "applyOnlyAtCronInterval",
      "associationName",
      "complianceSeverity",
      "documentVersion",
      "maxConcurrency",
      "maxErrors",
      "outputLocation",
      "parameters",
      "scheduleExpression",
      "syncCompliance",
      "targets",
      "waitForSuccessTimeoutSeconds",
    ],
  ),
};
