/** Values of the smallest stacks on AWS; tests change what they are about. */

export const ACCOUNT = "111122223333";
export const REGION = "us-east-1";

const SHARED = {
  platform: "aws",
  account: ACCOUNT,
  region: REGION,
  models: [{ name: "gpt2-medium", model: "gpt2-medium" }],
};

export const EKS_STACK = {
  ...SHARED,
  // No address for examples: preflight knows these.
  access: { apiCidrs: ["1.2.3.4/32"] },
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 2 } },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  engines: { whenFull: "stopServer" },
};

const { access: _access, ...REST } = EKS_STACK;

/** In someone else's cluster. */
export const EXISTING_CLUSTER_STACK = {
  ...REST,
  namespace: "chat",
  network: {
    existing: {
      vpcId: "vpc-0123456789abcdef0",
      cidr: "10.20.0.0/16",
      privateSubnets: [
        { zone: "a", id: "subnet-0123456789abcdef0" },
        { zone: "b", id: "subnet-0123456789abcdef1" },
      ],
    },
  },
  cluster: { existing: { name: "platform" } },
};

export const EC2_STACK = {
  ...SHARED,
  compute: "ec2",
  pools: [{ name: "gpu", instanceType: "g5.xlarge" }],
};

/** Values that a gateway on the internet requires. */
export const PUBLIC_GATEWAY = {
  exposure: "public",
  hostname: "models.example.org",
  zoneId: "Z0123456789ABCDEFGHIJ",
  apiKeys: [{ name: "alice", sha256: "0".repeat(64) }],
  tls: { certificateArn: `arn:aws:acm:${REGION}:${ACCOUNT}:certificate/12345678` },
};
