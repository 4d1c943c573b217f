/** What `up` of a stack on one machine reads of its load balancer, as AWS's own client reads it. */
import { StopInstancesCommand } from "@aws-sdk/client-ec2";
import {
  CreateListenerCommand,
  CreateLoadBalancerCommand,
  CreateTargetGroupCommand,
  ElasticLoadBalancingV2Client,
  RegisterTargetsCommand,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import { expect, test, vi } from "vitest";
import { edgePlan } from "../../infra/plan/aws/edge.ts";
import { awaitTarget } from "../../scripts/aws/load-balancer.ts";
import { ask, clientSettings } from "../../scripts/aws/session.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { ec2Client, makeMachine, makeNetwork } from "../harness/aws/resources.ts";
import { EC2_STACK } from "../harness/aws/stacks.ts";
import { useMoto, wrongRows } from "../harness/aws/use-moto.ts";
import { awsPlan } from "../infra/plan/aws/stacks.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
useMoto(REGION);

const { plan, context } = awsPlan({ ...EC2_STACK, account: MOTO_ACCOUNT, region: REGION });
const edge = edgePlan(plan, context);
const awaited = () => awaitTarget(context, edge, { limitSeconds: 0, pauseMilliseconds: 1 });

/** The stack's load balancer with its target group, and another group. @returns What puts a machine into the stack's. */
async function makeEdge() {
  const client = new ElasticLoadBalancingV2Client(clientSettings(REGION));
  const { vpcId, subnetIds } = await makeNetwork(REGION);
  const { LoadBalancers = [] } = await client.send(
    new CreateLoadBalancerCommand({
      Name: edge.loadBalancerName,
      Scheme: "internal",
      Subnets: [...subnetIds],
    }),
  );
  const makeGroup = async (Name: string) => {
    const { TargetGroups = [] } = await client.send(
      new CreateTargetGroupCommand({ Name, VpcId: vpcId, Protocol: "HTTP", Port: edge.targetPort }),
    );
    return TargetGroups[0]?.TargetGroupArn ?? "";
  };
  await makeGroup("engine-room-other");
  const TargetGroupArn = await makeGroup(edge.targetGroupName);
  await client.send(
    new CreateListenerCommand({
      LoadBalancerArn: LoadBalancers[0]?.LoadBalancerArn,
      Protocol: "HTTP",
      Port: 80,
      DefaultActions: [{ Type: "forward", TargetGroupArn }],
    }),
  );
  return (Id: string) =>
    client.send(new RegisterTargetsCommand({ TargetGroupArn, Targets: [{ Id, Port: edge.targetPort }] }));
}

test("a machine that runs is behind the stack's load balancer once it is in its group", async () => {
  const put = await makeEdge();
  const id = await makeMachine(REGION, { type: "g5.xlarge" });
  await expect(awaited()).rejects.toThrow(/sends no requests to its machine after 0 s: no machine/);
  await put(id);
  expect(await awaited()).toBe("");
});

test("one that is stopped is not waited for", async () => {
  const put = await makeEdge();
  const id = await makeMachine(REGION, { type: "g5.xlarge" });
  await put(id);
  await ec2Client(REGION).send(new StopInstancesCommand({ InstanceIds: [id] }));
  expect(await awaited()).toBe("");
});

test("without a group of the stack it is not known", async () => {
  expect(await awaited()).toBe(
    `Whether the load balancer sends requests to the machine is not known: there is no target group ${edge.targetGroupName}.\n`,
  );
});

test("moto has answered what the table of operations says", () => {
  expect(wrongRows(vi.mocked(ask), "load-balancer")).toEqual([]);
});
