/**
 * Two services in one program: one in an existing cluster, whose kubeconfig another stack has created, and one on EKS in a
 * network that this program makes.
 *
 *     npm install ../../engine-room-0.1.0.tgz     # made by `npm pack` in the folder of engine-room
 *     pulumi up
 */
import * as aws from "@pulumi/aws";
import * as pulumi from "@pulumi/pulumi";
import { InferenceStack } from "engine-room";

const config = new pulumi.Config();

const chat = new InferenceStack("chat", {
  platform: "kubernetes",
  tier: "cpu",
  kubeconfig: config.requireSecret("kubeconfig"),
  namespace: "chat",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
});

const vpc = new aws.ec2.Vpc("network", { cidrBlock: "10.20.0.0/16" });
const privateSubnets = (["a", "b"] as const).map((zone, index) => ({
  zone,
  id: new aws.ec2.Subnet(`machines-${zone}`, {
    vpcId: vpc.id,
    availabilityZone: `us-east-1${zone}`,
    cidrBlock: `10.20.${index * 16}.0/20`,
  }).id,
}));

const text = new InferenceStack("text", {
  platform: "aws",
  compute: "eks",
  account: "111122223333",
  region: "us-east-1",
  access: { apiCidrs: ["203.0.113.7/32"] },
  network: { existing: { vpcId: vpc.id, cidr: "10.20.0.0/16", privateSubnets } },
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 1 } },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  engines: { whenFull: "stopServer" },
  models: [{ name: "gpt2-medium", model: "gpt2-medium" }],
});

export const chatUrl = chat.gateway;
export const textEndpoints = text.endpoints;
