/** `platform: aws`, `compute: ec2`: one machine, and on it the containers of `platform: docker`. */
import * as pulumi from "@pulumi/pulumi";
import { Instance } from "../../components/aws/instance.ts";
import { InstanceSecurity } from "../../components/aws/instance-security.ts";
import type { Network } from "../../components/aws/network.ts";
import { planInstanceImages } from "../image-inputs.ts";
import type { DeployedStack } from "../outputs.ts";
import { type Ec2Stack, ec2Stack } from "../plan/aws/aws-stack.ts";
import { dockerStack } from "../plan/docker/docker-stack.ts";
import { SECRET_PATHS } from "../plan/docker/types.ts";
import type { Ec2Plan } from "../plan/gpu-stack.ts";
import { planOutputs } from "../plan-outputs.ts";
import { awsProvider, deployAccount, deployEdge, deployFileSystem, withEdge } from "./aws-account.ts";
import { leaveOutStackTraces, refuseUnpulled, secretValues } from "./program.ts";

/**
 * Registers the resources of a stack on one EC2 instance.
 *
 * @throws ConfigError where an image has no digest. A preview shows such a stack all the same, and warns.
 */
export function deploy(plan: Ec2Plan): DeployedStack {
  leaveOutStackTraces();
  const { images, problems } = planInstanceImages(plan);
  refuseUnpulled(problems);
  const name = pulumi.getStack();
  const host = dockerStack(plan, {
    stack: name,
    images: images.map((image) => ({ kind: "locked", ...image })),
  });
  const aws = ec2Stack(plan, name, host);
  const opts = { providers: { aws: awsProvider(aws.context) } };

  const network = deployAccount(aws, opts);
  const { edge, store } = deployMachine(aws, network, opts);

  return planOutputs(plan, () => "instance", {
    // The notes of a host are for who keeps it.
    ...withEdge({ ...host, notes: [] }, aws, plan, edge),
    engineStore: store.fileSystemId,
  });
}

/** The machine with its store, and the load balancer before it. */
function deployMachine(aws: Ec2Stack, network: Network, opts: pulumi.ComponentResourceOptions) {
  const { context, instance: plan } = aws;
  const { vpcId } = network;
  const subnet = network.privateSubnets.find(({ zone }) => zone === plan.zone);
  if (subnet === undefined) throw new Error(`The network has no subnet in zone ${plan.zone}.`);
  const machineGroup = new InstanceSecurity(
    "instance-security",
    { context, vpcId, egressPorts: plan.egressPorts },
    opts,
  );
  const store = deployFileSystem(
    aws,
    network,
    { name: "instance", securityGroupId: machineGroup.securityGroupId },
    opts,
  );
  const secrets = secretValues(SECRET_PATHS, plan.stackSecrets);
  const instance = new Instance(
    "instance",
    { context, plan, subnet, securityGroupId: machineGroup.securityGroupId, fileSystem: store, secrets },
    // Its first start downloads: routes, NAT gateways and rules are there before, which subnet and group don't refer to.
    { ...opts, dependsOn: [network, machineGroup] },
  );
  const target = { securityGroupId: machineGroup.securityGroupId, instanceId: instance.instanceId };
  const edge = deployEdge(aws, network, target, opts);
  return { edge, store };
}
