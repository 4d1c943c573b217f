/** AWS operations of scripts and the project's own provider: moto answers them in tests, or a fake if moto 5.2.5 lacks it. */

export type Answerer =
  /** moto answers it in each of these files, which hold the table to that. */
  | { readonly by: "moto"; readonly files: readonly `test/aws/${string}.test.ts`[] }
  | {
      readonly by: "fake";
      readonly file: `test/${string}.test.ts`;
      /** moto's answer to the call. */
      readonly lacks: string;
    };

const moto = (...names: readonly string[]): Answerer => ({
  by: "moto",
  files: names.map((name) => `test/aws/${name}.test.ts` as const),
});
const fakeOfPreflight = (name: string, lacks: string): Answerer => ({
  by: "fake",
  file: `test/scripts/aws/preflight/${name}.test.ts`,
  lacks,
});

/** Answerers by IAM's action, for all files that import a client of the SDK, including the project's own provider. */
export const SDK_OPERATIONS: Readonly<Record<string, Answerer>> = {
  "acm:DescribeCertificate": moto("preflight"),
  "ec2:DescribeCapacityReservations": fakeOfPreflight("compute", "500: it has not this operation"),
  "ec2:DescribeInstanceTypeOfferings": moto("preflight"),
  "ec2:DescribeInstances": moto("preflight", "instance"),
  "ec2:DescribeSubnets": moto("preflight"),
  "ec2:DescribeVolumes": moto("preflight"),
  "ec2:DescribeVpcs": moto("preflight"),
  "ec2:GetEbsDefaultKmsKeyId": fakeOfPreflight("account", "500: it has not this operation"),
  "ec2:StartInstances": moto("instance"),
  "ec2:StopInstances": moto("instance"),
  "ecr:DescribeImages": moto("preflight", "images"),
  "ecr:DescribeRepositories": moto("images"),
  "ecr:GetAuthorizationToken": moto("images"),
  "eks:DescribeCluster": moto("cluster"),
  "eks:DescribeNodegroup": moto("cluster"),
  "eks:DescribeUpdate": {
    by: "fake",
    file: "test/components/aws/node-group-size.test.ts",
    lacks: "404 without a body of EKS: it has no updates",
  },
  "eks:ListAddons": fakeOfPreflight("cluster", "404 without a body of EKS: it has no add-ons"),
  "eks:ListNodegroups": moto("cluster"),
  "eks:UpdateClusterConfig": moto("cluster"),
  "eks:UpdateNodegroupConfig": moto("cluster"),
  "elasticfilesystem:DescribeMountTargets": moto("preflight"),
  "elasticloadbalancing:DescribeTargetHealth": {
    by: "fake",
    file: "test/components/aws/ready-machine.test.ts",
    lacks: "nothing: moto answers it in test/aws/instance.test.ts, where the provider's own client asks",
  },
  "secretsmanager:DescribeSecret": moto("preflight"),
  "secretsmanager:GetSecretValue": moto("preflight"),
  "servicequotas:GetAWSDefaultServiceQuota": fakeOfPreflight("compute", "500: it has not this operation"),
  "servicequotas:GetServiceQuota": fakeOfPreflight("compute", "500: of quotas it has those of VPCs alone"),
  "ssm:DescribeInstanceAssociationsStatus": {
    by: "fake",
    file: "test/components/aws/ready-machine.test.ts",
    lacks: "500: it has not this operation of Systems Manager",
  },
  "ssm:GetParameter": fakeOfPreflight("machine-images", "ParameterNotFound: it has no images of EKS"),
  "sts:GetCallerIdentity": moto("preflight"),
  "tag:GetResources": moto("leftovers"),
};

/** Answerers by the words after `aws`, for every file that starts AWS's CLI or has it started. */
export const CLI_OPERATIONS: Readonly<Record<string, Answerer>> = {
  "eks get-token": moto("cluster"),
  "ssm start-session": {
    by: "fake",
    file: "test/aws/instance.test.ts",
    lacks: "500: it has not this operation of Systems Manager, and no agent that a session reaches",
  },
};
