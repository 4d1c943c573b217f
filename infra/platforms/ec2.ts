/** `platform: aws`, `compute: ec2`: one machine, and on it the containers of `platform: docker`. */
import { EngineFileSystem } from "../../components/aws/engine-file-system.ts";
import { Instance, InstanceSecurity } from "../../components/aws/instance.ts";
import { ReadyMachine } from "../../components/local/resources.ts";
import { pulledImages } from "../image-inputs.ts";
import { type DeployedStack, planOutputs } from "../outputs.ts";
import { ec2Stack } from "../plan/aws/account.ts";
import { dockerStack } from "../plan/docker/docker-stack.ts";
import type { Ec2Plan } from "../plan/gpu-stack.ts";
import { deployAccount, deployEdge, protectStack, withEdge } from "./aws-account.ts";
import { inPlace, leaveOutStackTraces, type Place, refuseUnpulled, secretValues } from "./program.ts";

/**
 * Registers the resources of a stack on one EC2 instance.
 *
 * @throws ConfigError if an image has no digest. A preview shows such a stack all the same, and warns.
 */
export function deploy(plan: Ec2Plan, place: Place): DeployedStack {
  leaveOutStackTraces(place);
  const { images, problems } = pulledImages(plan);
  refuseUnpulled(problems);
  const { name } = place;
  const host = dockerStack(plan, {
    stack: name,
    images: images.map((image) => ({ kind: "locked", ...image })),
  });
  const aws = ec2Stack(plan, name, host);
  const { context, instance } = aws;

  const { network, opts, parts } = deployAccount(aws, place);
  const { vpcId, privateSubnets: subnets } = network;
  const subnet = subnets.find(({ zone }) => zone === instance.zone);
  if (subnet === undefined) throw new Error(`The network has no subnet in zone ${instance.zone}.`);
  const { egressPorts } = instance;
  const group = new InstanceSecurity("instance-security", { context, vpcId, egressPorts }, opts);
  const { securityGroupId } = group;
  const client = { name: "instance", securityGroupId };
  const fileSystem = new EngineFileSystem(
    "engine-store",
    { context, plan: aws.fileSystem, vpcId, subnets, client },
    opts,
  );
  const own = instance.secrets.filter(({ secretName }) => secretName !== null);
  const secrets = secretValues(place, new Set(own.map((secret) => secret.name)));
  const machine = new Instance(
    "instance",
    { context, plan: instance, subnet, securityGroupId, fileSystem, secrets },
    // Its first start downloads: routes, NAT gateways and rules are there before, which subnet and group don't refer to.
    { ...opts, dependsOn: [network, group] },
  );
  const edge = deployEdge(aws, network, { securityGroupId, instanceId: machine.instanceId }, opts);
  const ready = new ReadyMachine(
    "instance-ready",
    {
      region: context.region,
      instanceId: machine.instanceId,
      targetGroupArn: edge.targetGroupArn,
      commands: machine.commands,
      commandSeconds: instance.tasks.reduce((sum, { waitSeconds }) => sum + waitSeconds, 0),
    },
    { ...inPlace(place), dependsOn: [machine, edge] },
  );
  protectStack(aws, place, [...parts, group, fileSystem, machine, edge, ready]);

  return planOutputs(plan, () => "instance", {
    // The notes of a host are for who keeps it.
    ...withEdge({ ...host, notes: [] }, aws, plan, edge),
    engineStore: fileSystem.fileSystemId,
  });
}
