/**
 * Calls by which Amazon's provider manages each type of resource, as the actions of IAM that a deployer of a stack
 * needs. Read in terraform-provider-aws 6 (internal/service/SERVICE/TYPE.go) where it has `conn.`; further permissions
 * that AWS requires of the caller have their source beside them. Waiting is reading; calls for properties that no stack
 * has are left out.
 */

interface ProviderCalls {
  /** Actions between spaces. */
  readonly read: string;
  readonly create: string;
  readonly update?: string;
  /** Absent: nothing is deleted, or the provider forgets it. */
  readonly delete?: string;
}

const EC2_TAGS = "ec2:CreateTags ec2:DeleteTags";
const ELB_TAGS = "elasticloadbalancing:AddTags elasticloadbalancing:RemoveTags";
const EKS_TAGS = "eks:TagResource eks:UntagResource";
const SSM_TAGS = "ssm:AddTagsToResource ssm:RemoveTagsFromResource";

const RULE: ProviderCalls = {
  read: "ec2:DescribeSecurityGroupRules",
  create: "ec2:CreateTags",
  update: `ec2:ModifySecurityGroupRules ${EC2_TAGS}`,
};

/** Calls by type; an administrator creates those of bootstrap/. */
export const PROVIDER_CALLS: Readonly<Record<string, ProviderCalls>> = {
  "aws:acm/certificate:Certificate": {
    read: "acm:DescribeCertificate acm:ListTagsForCertificate",
    create: "acm:RequestCertificate acm:AddTagsToCertificate",
    update: "acm:AddTagsToCertificate acm:RemoveTagsFromCertificate",
    delete: "acm:DeleteCertificate",
  },
  "aws:acm/certificateValidation:CertificateValidation": {
    read: "acm:DescribeCertificate",
    create: "acm:DescribeCertificate",
  },
  "aws:autoscaling/tag:Tag": {
    read: "autoscaling:DescribeTags",
    create: "autoscaling:CreateOrUpdateTags",
    update: "autoscaling:CreateOrUpdateTags",
    delete: "autoscaling:DeleteTags",
  },
  "aws:backup/plan:Plan": {
    read: "backup:GetBackupPlan backup:ListTags",
    create: "backup:CreateBackupPlan backup:TagResource",
    update: "backup:UpdateBackupPlan backup:TagResource backup:UntagResource",
    delete: "backup:DeleteBackupPlan",
  },
  "aws:backup/selection:Selection": {
    read: "backup:GetBackupSelection",
    create: "backup:CreateBackupSelection iam:PassRole",
    delete: "backup:DeleteBackupSelection",
  },
  // It outlives the stack. https://docs.aws.amazon.com/aws-backup/latest/devguide/access-control.html
  "aws:backup/vault:Vault": {
    read: "backup:DescribeBackupVault backup:ListTags",
    create:
      "backup:CreateBackupVault backup:TagResource backup-storage:MountCapsule kms:CreateGrant kms:DescribeKey",
    update: "backup:TagResource backup:UntagResource",
  },
  // https://docs.aws.amazon.com/cost-management/latest/userguide/billing-permissions-ref.html
  "aws:budgets/budget:Budget": {
    read: "budgets:ViewBudget budgets:ListTagsForResource",
    create: "budgets:ModifyBudget budgets:TagResource",
    update: "budgets:ModifyBudget budgets:TagResource budgets:UntagResource",
    delete: "budgets:ModifyBudget",
  },
  "aws:cloudwatch/logGroup:LogGroup": {
    read: "logs:DescribeLogGroups logs:ListTagsForResource",
    create: "logs:CreateLogGroup logs:PutRetentionPolicy logs:TagResource",
    update: "logs:PutRetentionPolicy logs:DeleteRetentionPolicy logs:TagResource logs:UntagResource",
    delete: "logs:DeleteLogGroup",
  },
  "aws:ebs/volume:Volume": {
    read: "ec2:DescribeVolumes",
    // With `kmsKeyArn`: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html
    create:
      "ec2:CreateVolume ec2:CreateTags kms:CreateGrant kms:Decrypt kms:DescribeKey kms:GenerateDataKeyWithoutPlaintext kms:ReEncryptFrom kms:ReEncryptTo",
    update: `ec2:ModifyVolume ${EC2_TAGS}`,
    delete: "ec2:DeleteVolume",
  },
  // It is tagged before its rules are removed (resourceDefaultSecurityGroupCreate).
  "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": {
    read: "ec2:DescribeSecurityGroups",
    create: "ec2:CreateTags ec2:RevokeSecurityGroupEgress ec2:RevokeSecurityGroupIngress",
    update: EC2_TAGS,
  },
  "aws:ec2/eip:Eip": {
    read: "ec2:DescribeAddresses ec2:DescribeAddressesAttribute",
    create: "ec2:AllocateAddress ec2:CreateTags",
    update: EC2_TAGS,
    delete: "ec2:DisassociateAddress ec2:ReleaseAddress",
  },
  "aws:ec2/flowLog:FlowLog": {
    read: "ec2:DescribeFlowLogs",
    // https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
    create: "ec2:CreateFlowLogs ec2:CreateTags iam:PassRole",
    update: EC2_TAGS,
    delete: "ec2:DeleteFlowLogs",
  },
  "aws:ec2/instance:Instance": {
    read: "ec2:DescribeIamInstanceProfileAssociations ec2:DescribeInstanceAttribute ec2:DescribeInstanceCreditSpecifications ec2:DescribeInstances ec2:DescribeInstanceTypes ec2:DescribeLaunchTemplates ec2:DescribeLaunchTemplateVersions ec2:DescribeTags ec2:DescribeVolumes ec2:DescribeVpcs",
    // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/iam-roles-for-amazon-ec2.html asks for the right to pass the profile's role.
    create: "ec2:RunInstances ec2:CreateTags ec2:DescribeImages iam:PassRole",
    update: `ec2:AssociateIamInstanceProfile ec2:ModifyInstanceAttribute ec2:ModifyInstanceCapacityReservationAttributes ec2:ModifyInstanceMetadataOptions ec2:ModifyVolume ec2:MonitorInstances ec2:ReplaceIamInstanceProfileAssociation ec2:StartInstances ec2:StopInstances ec2:UnmonitorInstances ${EC2_TAGS}`,
    delete: "ec2:ModifyInstanceAttribute ec2:TerminateInstances",
  },
  "aws:ec2/internetGateway:InternetGateway": {
    read: "ec2:DescribeInternetGateways",
    create: "ec2:CreateInternetGateway ec2:AttachInternetGateway ec2:CreateTags",
    update: `ec2:AttachInternetGateway ec2:DetachInternetGateway ${EC2_TAGS}`,
    delete: "ec2:DetachInternetGateway ec2:DeleteInternetGateway",
  },
  "aws:ec2/launchTemplate:LaunchTemplate": {
    read: "ec2:DescribeLaunchTemplates ec2:DescribeLaunchTemplateVersions",
    create: "ec2:CreateLaunchTemplate ec2:CreateTags",
    update: `ec2:CreateLaunchTemplateVersion ec2:ModifyLaunchTemplate ${EC2_TAGS}`,
    delete: "ec2:DeleteLaunchTemplate",
  },
  "aws:ec2/natGateway:NatGateway": {
    read: "ec2:DescribeNatGateways",
    create: "ec2:CreateNatGateway ec2:CreateTags",
    update: EC2_TAGS,
    delete: "ec2:DeleteNatGateway",
  },
  "aws:ec2/route:Route": {
    read: "ec2:DescribeRouteTables",
    create: "ec2:CreateRoute",
    update: "ec2:ReplaceRoute",
    delete: "ec2:DeleteRoute",
  },
  "aws:ec2/routeTable:RouteTable": {
    read: "ec2:DescribeRouteTables",
    create: "ec2:CreateRouteTable ec2:CreateTags",
    update: EC2_TAGS,
    delete: "ec2:DisassociateRouteTable ec2:DeleteRouteTable",
  },
  "aws:ec2/routeTableAssociation:RouteTableAssociation": {
    read: "ec2:DescribeRouteTables",
    create: "ec2:AssociateRouteTable",
    update: "ec2:ReplaceRouteTableAssociation",
    delete: "ec2:DisassociateRouteTable",
  },
  "aws:ec2/securityGroup:SecurityGroup": {
    read: "ec2:DescribeSecurityGroups",
    // The rule that AWS gives each group, which lets all traffic out, is removed.
    create: "ec2:CreateSecurityGroup ec2:CreateTags ec2:RevokeSecurityGroupEgress",
    update: EC2_TAGS,
    // It waits for what AWS's services leave in a group.
    delete: "ec2:DeleteSecurityGroup ec2:DescribeNetworkInterfaces",
  },
  "aws:ec2/subnet:Subnet": {
    read: "ec2:DescribeSubnets",
    create: "ec2:CreateSubnet ec2:CreateTags ec2:ModifySubnetAttribute",
    update: `ec2:ModifySubnetAttribute ${EC2_TAGS}`,
    delete: "ec2:DeleteSubnet ec2:DescribeNetworkInterfaces",
  },
  "aws:ec2/volumeAttachment:VolumeAttachment": {
    read: "ec2:DescribeInstances ec2:DescribeVolumes",
    create: "ec2:AttachVolume",
    delete: "ec2:DetachVolume ec2:StopInstances",
  },
  "aws:ec2/vpc:Vpc": {
    read: "ec2:DescribeNetworkAcls ec2:DescribeRouteTables ec2:DescribeSecurityGroups ec2:DescribeVpcAttribute ec2:DescribeVpcs",
    create: "ec2:CreateVpc ec2:CreateTags ec2:ModifyVpcAttribute",
    update: `ec2:ModifyVpcAttribute ${EC2_TAGS}`,
    delete: "ec2:DeleteVpc",
  },
  "aws:ec2/vpcEndpoint:VpcEndpoint": {
    read: "ec2:DescribeNetworkInterfaces ec2:DescribePrefixLists ec2:DescribeVpcEndpoints",
    create: "ec2:CreateVpcEndpoint ec2:CreateTags",
    update: `ec2:ModifyVpcEndpoint ${EC2_TAGS}`,
    delete: "ec2:DeleteVpcEndpoints",
  },
  "aws:efs/accessPoint:AccessPoint": {
    read: "elasticfilesystem:DescribeAccessPoints",
    create: "elasticfilesystem:CreateAccessPoint elasticfilesystem:TagResource",
    update: "elasticfilesystem:TagResource elasticfilesystem:UntagResource",
    delete: "elasticfilesystem:DeleteAccessPoint",
  },
  "aws:efs/backupPolicy:BackupPolicy": {
    read: "elasticfilesystem:DescribeBackupPolicy",
    create: "elasticfilesystem:PutBackupPolicy iam:CreateServiceLinkedRole",
    update: "elasticfilesystem:PutBackupPolicy",
    delete: "elasticfilesystem:PutBackupPolicy",
  },
  "aws:efs/fileSystem:FileSystem": {
    read: "elasticfilesystem:DescribeFileSystems elasticfilesystem:DescribeLifecycleConfiguration",
    create:
      "elasticfilesystem:CreateFileSystem elasticfilesystem:PutLifecycleConfiguration elasticfilesystem:TagResource elasticfilesystem:UpdateFileSystemProtection",
    update:
      "elasticfilesystem:PutLifecycleConfiguration elasticfilesystem:TagResource elasticfilesystem:UntagResource elasticfilesystem:UpdateFileSystem elasticfilesystem:UpdateFileSystemProtection",
    delete: "elasticfilesystem:DeleteFileSystem",
  },
  "aws:efs/fileSystemPolicy:FileSystemPolicy": {
    read: "elasticfilesystem:DescribeFileSystemPolicy",
    create: "elasticfilesystem:PutFileSystemPolicy",
    update: "elasticfilesystem:PutFileSystemPolicy",
    delete: "elasticfilesystem:DeleteFileSystemPolicy",
  },
  "aws:efs/mountTarget:MountTarget": {
    read: "elasticfilesystem:DescribeMountTargets elasticfilesystem:DescribeMountTargetSecurityGroups",
    // https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html
    create:
      "elasticfilesystem:CreateMountTarget ec2:CreateNetworkInterface ec2:DescribeNetworkInterfaces ec2:DescribeSubnets iam:CreateServiceLinkedRole",
    // https://docs.aws.amazon.com/efs/latest/ug/API_ModifyMountTargetSecurityGroups.html
    update: "elasticfilesystem:ModifyMountTargetSecurityGroups ec2:ModifyNetworkInterfaceAttribute",
    // https://docs.aws.amazon.com/efs/latest/ug/API_DeleteMountTarget.html
    delete: "elasticfilesystem:DeleteMountTarget ec2:DeleteNetworkInterface",
  },
  "aws:eks/accessEntry:AccessEntry": {
    read: "eks:DescribeAccessEntry",
    create: "eks:CreateAccessEntry eks:TagResource",
    update: `eks:UpdateAccessEntry ${EKS_TAGS}`,
    delete: "eks:DeleteAccessEntry",
  },
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": {
    read: "eks:ListAssociatedAccessPolicies",
    create: "eks:AssociateAccessPolicy",
    delete: "eks:DisassociateAccessPolicy",
  },
  // Add-ons make, change and delete the associations that they are given:
  // https://docs.aws.amazon.com/eks/latest/userguide/add-ons-iam.html
  "aws:eks/addon:Addon": {
    read: "eks:DescribeAddon eks:DescribePodIdentityAssociation",
    create: "eks:CreateAddon eks:CreatePodIdentityAssociation eks:TagResource iam:GetRole iam:PassRole",
    update: `eks:DescribeUpdate eks:UpdateAddon eks:UpdatePodIdentityAssociation ${EKS_TAGS}`,
    delete: "eks:DeleteAddon eks:DeletePodIdentityAssociation",
  },
  "aws:eks/cluster:Cluster": {
    read: "eks:DescribeCluster",
    // https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html, and using-service-linked-roles-eks.html beside it
    create:
      "eks:CreateCluster eks:TagResource iam:CreateServiceLinkedRole iam:GetRole iam:PassRole kms:CreateGrant kms:DescribeKey",
    update: `eks:AssociateEncryptionConfig eks:DescribeUpdate eks:UpdateClusterConfig eks:UpdateClusterVersion ${EKS_TAGS}`,
    delete: "eks:DeleteCluster",
  },
  "aws:eks/nodeGroup:NodeGroup": {
    read: "eks:DescribeNodegroup",
    // https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-nodegroups.html, and of the launch template
    // https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
    create:
      "eks:CreateNodegroup eks:TagResource ec2:CreateTags ec2:DescribeLaunchTemplateVersions ec2:RunInstances iam:CreateServiceLinkedRole iam:GetRole iam:ListAttachedRolePolicies iam:PassRole",
    update: `eks:DescribeUpdate eks:UpdateNodegroupConfig eks:UpdateNodegroupVersion ${EKS_TAGS}`,
    delete: "eks:DeleteNodegroup",
  },
  // https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html
  "aws:eks/podIdentityAssociation:PodIdentityAssociation": {
    read: "eks:DescribePodIdentityAssociation",
    create: "eks:CreatePodIdentityAssociation eks:TagResource iam:GetRole iam:PassRole",
    update: `eks:UpdatePodIdentityAssociation ${EKS_TAGS}`,
    delete: "eks:DeletePodIdentityAssociation",
  },
  "aws:iam/instanceProfile:InstanceProfile": {
    read: "iam:GetInstanceProfile iam:GetRole",
    create: "iam:AddRoleToInstanceProfile iam:CreateInstanceProfile iam:PassRole iam:TagInstanceProfile",
    update:
      "iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:TagInstanceProfile iam:UntagInstanceProfile",
    delete: "iam:DeleteInstanceProfile iam:RemoveRoleFromInstanceProfile",
  },
  "aws:iam/role:Role": {
    read: "iam:GetRole iam:GetRolePolicy iam:ListAttachedRolePolicies iam:ListRolePolicies",
    create: "iam:CreateRole iam:TagRole",
    update:
      "iam:DeleteRolePermissionsBoundary iam:PutRolePermissionsBoundary iam:TagRole iam:UntagRole iam:UpdateAssumeRolePolicy iam:UpdateRole iam:UpdateRoleDescription",
    // It detaches policies (forceDetachPolicies), and leaves the profiles.
    delete:
      "iam:DeleteRole iam:DeleteRolePolicy iam:DetachRolePolicy iam:ListInstanceProfilesForRole iam:RemoveRoleFromInstanceProfile",
  },
  "aws:iam/rolePolicy:RolePolicy": {
    read: "iam:GetRolePolicy",
    create: "iam:PutRolePolicy",
    update: "iam:PutRolePolicy",
    delete: "iam:DeleteRolePolicy",
  },
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": {
    read: "iam:ListAttachedRolePolicies",
    create: "iam:AttachRolePolicy",
    delete: "iam:DetachRolePolicy",
  },
  "aws:kms/key:Key": {
    read: "kms:DescribeKey kms:GetKeyPolicy kms:GetKeyRotationStatus kms:ListResourceTags",
    create: "kms:CreateKey kms:EnableKeyRotation kms:TagResource",
    update:
      "kms:DisableKeyRotation kms:EnableKeyRotation kms:PutKeyPolicy kms:TagResource kms:UntagResource kms:UpdateKeyDescription",
    delete: "kms:ScheduleKeyDeletion",
  },
  "aws:lb/listener:Listener": {
    read: "elasticloadbalancing:DescribeListenerAttributes elasticloadbalancing:DescribeListeners elasticloadbalancing:DescribeTags",
    create: "elasticloadbalancing:CreateListener elasticloadbalancing:AddTags",
    update: `elasticloadbalancing:ModifyListener elasticloadbalancing:ModifyListenerAttributes ${ELB_TAGS}`,
    delete: "elasticloadbalancing:DeleteListener",
  },
  "aws:lb/loadBalancer:LoadBalancer": {
    read: "elasticloadbalancing:DescribeCapacityReservation elasticloadbalancing:DescribeLoadBalancerAttributes elasticloadbalancing:DescribeLoadBalancers elasticloadbalancing:DescribeTags",
    create:
      "elasticloadbalancing:AddTags elasticloadbalancing:CreateLoadBalancer elasticloadbalancing:ModifyLoadBalancerAttributes iam:CreateServiceLinkedRole",
    update: `elasticloadbalancing:ModifyLoadBalancerAttributes elasticloadbalancing:SetIpAddressType elasticloadbalancing:SetSecurityGroups elasticloadbalancing:SetSubnets ${ELB_TAGS}`,
    delete: "elasticloadbalancing:DeleteLoadBalancer ec2:DescribeNetworkInterfaces",
  },
  "aws:lb/targetGroup:TargetGroup": {
    read: "elasticloadbalancing:DescribeTags elasticloadbalancing:DescribeTargetGroupAttributes elasticloadbalancing:DescribeTargetGroups",
    create:
      "elasticloadbalancing:AddTags elasticloadbalancing:CreateTargetGroup elasticloadbalancing:ModifyTargetGroupAttributes",
    update: `elasticloadbalancing:ModifyTargetGroup elasticloadbalancing:ModifyTargetGroupAttributes ${ELB_TAGS}`,
    delete: "elasticloadbalancing:DeleteTargetGroup",
  },
  "aws:lb/targetGroupAttachment:TargetGroupAttachment": {
    read: "elasticloadbalancing:DescribeTargetHealth",
    create: "elasticloadbalancing:RegisterTargets",
    delete: "elasticloadbalancing:DeregisterTargets",
  },
  "aws:route53/record:Record": {
    read: "route53:GetHostedZone route53:ListResourceRecordSets",
    create: "route53:ChangeResourceRecordSets route53:GetChange",
    update: "route53:ChangeResourceRecordSets route53:GetChange",
    delete: "route53:ChangeResourceRecordSets route53:GetChange",
  },
  "aws:secretsmanager/secret:Secret": {
    read: "secretsmanager:DescribeSecret secretsmanager:GetResourcePolicy",
    create: "secretsmanager:CreateSecret secretsmanager:TagResource",
    update: "secretsmanager:TagResource secretsmanager:UntagResource secretsmanager:UpdateSecret",
    delete: "secretsmanager:DeleteSecret",
  },
  "aws:secretsmanager/secretVersion:SecretVersion": {
    read: "secretsmanager:GetSecretValue",
    // With `kmsKeyArn`: https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html
    create: "secretsmanager:PutSecretValue kms:Decrypt kms:GenerateDataKey",
    delete: "secretsmanager:UpdateSecretVersionStage",
  },
  "aws:ssm/association:Association": {
    read: "ssm:DescribeAssociation ssm:ListTagsForResource",
    create: "ssm:CreateAssociation ssm:AddTagsToResource",
    update: `ssm:UpdateAssociation ${SSM_TAGS}`,
    delete: "ssm:DeleteAssociation",
  },
  "aws:ssm/document:Document": {
    read: "ssm:DescribeDocument ssm:DescribeDocumentPermission ssm:GetDocument",
    create: "ssm:CreateDocument ssm:AddTagsToResource",
    update: `ssm:UpdateDocument ssm:UpdateDocumentDefaultVersion ${SSM_TAGS}`,
    delete: "ssm:DeleteDocument",
  },
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": {
    ...RULE,
    create: `ec2:AuthorizeSecurityGroupEgress ${RULE.create}`,
    delete: "ec2:RevokeSecurityGroupEgress",
  },
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": {
    ...RULE,
    create: `ec2:AuthorizeSecurityGroupIngress ${RULE.create}`,
    delete: "ec2:RevokeSecurityGroupIngress",
  },
  // https://docs.aws.amazon.com/waf/latest/APIReference/API_AssociateWebACL.html asks for the load balancer's part.
  "aws:wafv2/webAclAssociation:WebAclAssociation": {
    read: "wafv2:GetWebACL wafv2:GetWebACLForResource",
    create: "elasticloadbalancing:SetWebAcl wafv2:AssociateWebACL",
    delete: "elasticloadbalancing:SetWebAcl wafv2:DisassociateWebACL",
  },
};

/** Calls of the provider itself, for every stack: `allowedAccountIds` checks whose credentials these are. */
export const PROVIDER_OWN = ["sts:GetCallerIdentity"];

/** Actions by which the AWS CLI answers; `eks get-token` signs a question to STS, which needs no right. */
export const CLI_ACTIONS: Readonly<Record<string, readonly string[]>> = {
  "eks get-token": [],
  // https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-quickstart.html
  "ssm start-session": ["ssm:ResumeSession", "ssm:StartSession", "ssm:TerminateSession"],
};

/** All actions that manage a type, or read it. */
export function actionsFor({
  read,
  create,
  update = "",
  delete: deletion = "",
}: ProviderCalls): readonly string[] {
  return [read, create, update, deletion].flatMap((words) => words.split(" ").filter((word) => word !== ""));
}

export const readActions = ({ read }: ProviderCalls) => read.split(" ");
