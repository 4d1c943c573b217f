import { describe, expect, test } from "vitest";
import { Instance } from "../../../components/aws/instance.ts";
import { InstanceSecurity } from "../../../components/aws/instance-security.ts";
import type { InstancePlan } from "../../../infra/plan/aws/types.ts";
import { ec2Values, instanceOf, secretValues } from "../../infra/plan/aws/machine/stacks.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

function made(plan: InstancePlan) {
  return registeredBy(
    () => {
      new Instance("instance", {
        context: CONTEXT,
        plan,
        subnet: { id: "subnet-1" },
        securityGroupId: "sg-1",
        fileSystem: { fileSystemId: "fs-1", accessPointId: "fsap-1", mountTargets: [] },
        secrets: { hubToken: "hf_1", mongoUri: "mongodb://1", vectorApiKey: "1" },
      });
    },
    { "aws:secretsmanager/secretVersion:SecretVersion": () => ({ versionId: "v1" }) },
  );
}

const short = (plan: InstancePlan) => plan.tasks.map(({ name }) => name);

test("a machine is its role, its profile, its template, its databases' disk, and two resources for each task", async () => {
  const plan = instanceOf(ec2Values);
  expect(treeOf(await made(plan))).toEqual(
    [
      "aws:ebs/volume:Volume instance-databases < instance",
      "aws:ec2/instance:Instance instance-machine < instance",
      "aws:ec2/launchTemplate:LaunchTemplate instance-template < instance",
      "aws:ec2/volumeAttachment:VolumeAttachment instance-databases-attachment < instance",
      "aws:iam/instanceProfile:InstanceProfile instance-profile < instance",
      "aws:iam/role:Role instance-role-role < instance-role",
      "aws:iam/rolePolicy:RolePolicy instance-role-policy < instance-role",
      "engine-room:aws:Instance instance < engine-room-demo",
      "engine-room:aws:InstanceSecrets instance-secrets < instance",
      "engine-room:aws:InstanceTasks instance-tasks < instance",
      "engine-room:aws:WorkloadRole instance-role < instance",
      ...short(plan).flatMap((name) => [
        `aws:ssm/association:Association instance-tasks-${name} < instance-tasks`,
        `aws:ssm/document:Document instance-tasks-${name}-document < instance-tasks`,
      ]),
    ].sort(),
  );
});

test("no container has the machine's role, nobody a key, and the disk is encrypted", async () => {
  const registrations = await made(instanceOf(ec2Values));
  const machine = byName(registrations, "instance-machine");
  expect(machine.inputs).toMatchObject({
    instanceType: "g5.xlarge",
    subnetId: "subnet-1",
    vpcSecurityGroupIds: ["sg-1"],
    associatePublicIpAddress: false,
    metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
    disableApiTermination: false,
  });
  expect(machine.inputs).not.toHaveProperty("keyName");
  expect(machine.inputs.userData).toContain("fs-1:/ /srv/engine-room/store efs");
  expect(machine.inputs.userData).toContain("accesspoint=fsap-1 ");
  expect(machine.options.ignoreChanges).toEqual(["launchTemplate", "userData"]);
  expect(machine.dependencies).toContain(byName(registrations, "instance-role-policy").urn);
  expect(byName(registrations, "instance-template").inputs).toMatchObject({
    imageId: expect.stringMatching(/^resolve:ssm:\/aws\/service\/deeplearning\/ami\//),
    blockDeviceMappings: [
      {
        deviceName: "/dev/xvda",
        ebs: { volumeType: "gp3", volumeSize: 150, encrypted: "true", deleteOnTermination: "true" },
      },
    ],
  });
});

test("a retained machine is protected, and so is the disk of its databases, which outlives the stack", async () => {
  const retained = await made(instanceOf({ ...ec2Values, retain: ["demo"] }));
  const machine = byName(retained, "instance-machine");
  expect(machine.options.protect).toBe(true);
  expect(machine.inputs.disableApiTermination).toBe(true);
  expect(byName(retained, "instance-databases").options).toMatchObject({
    protect: true,
    retainOnDelete: true,
  });
  const preview = byName(await made(instanceOf(ec2Values)), "instance-databases").options;
  expect([preview.protect, preview.retainOnDelete]).toEqual([undefined, undefined]);
});

describe("the disk of the databases", () => {
  test("is encrypted, in the machine's zone, of the size that the stack file says", async () => {
    const sized = { ...ec2Values, databaseStorage: { sizeGiB: 35 } };
    expect(byName(await made(instanceOf(sized)), "instance-databases").inputs).toEqual({
      availabilityZone: `${CONTEXT.region}a`,
      type: "gp3",
      size: 35,
      encrypted: true,
      tags: { ...CONTEXT.tags, Name: `${CONTEXT.name}-databases` },
    });
  });

  test("has its own tags: the machine's are not those of each of its volumes", async () => {
    const registrations = await made(instanceOf(ec2Values));
    expect(byName(registrations, "instance-machine").inputs).not.toHaveProperty("volumeTags");
    expect(byName(registrations, "instance-template").inputs.tagSpecifications).toEqual([
      { resourceType: "volume", tags: { ...CONTEXT.tags, Name: `${CONTEXT.name}-instance` } },
    ]);
  });

  test("goes to the next machine when the one before has ended: nobody takes it from one that runs", async () => {
    const registrations = await made(instanceOf(ec2Values));
    const [machine, volume, attachment] = ["machine", "databases", "databases-attachment"].map((name) =>
      byName(registrations, `instance-${name}`),
    );
    expect(attachment?.inputs).toEqual({
      volumeId: "instance-databases",
      instanceId: "instance-machine",
      deviceName: "/dev/sdf",
      skipDestroy: true,
    });
    expect(machine?.options.deleteBeforeReplace).toBe(true);
    expect(attachment?.options.deleteBeforeReplace).toBe(true);
    // What depends goes first: at the end of a stack the machine, then the disk.
    expect(machine?.dependencies).toContain(volume?.urn);
    expect(machine?.inputs.userData).toContain("/nvme-Amazon_Elastic_Block_Store_instancedatabases\n");
    expect(byName(registrations, "instance-tasks").dependencies).toContain(attachment?.urn);
  });
});

describe("tasks", () => {
  test("wait for their success, one after the other, and are made anew for other machines and secrets", async () => {
    const plan = instanceOf(secretValues);
    const registrations = await made(plan);
    const tasks = plan.tasks.map((task) => ({
      task,
      association: byName(registrations, `instance-tasks-${task.name}`),
    }));
    for (const [index, { task, association }] of tasks.entries()) {
      expect(association.inputs).toEqual({
        name: task.document.name,
        targets: [{ key: "InstanceIds", values: ["instance-machine"] }],
        ...(task.readsSecrets ? { parameters: { secretVersions: "v1 v1 v1" } } : {}),
        waitForSuccessTimeoutSeconds: task.waitSeconds,
        tags: { ...CONTEXT.tags, Name: task.document.name },
      });
      expect(association.options.replaceOnChanges).toEqual(["parameters", "targets"]);
      const before = tasks[index - 1];
      if (before !== undefined) expect(association.dependencies).toContain(before.association.urn);
    }
  });

  test("secrets are made under names that a next stack may take", async () => {
    const registrations = await made(instanceOf(secretValues));
    expect(byName(registrations, "instance-secrets-hubToken").inputs).toMatchObject({
      name: "engine-room-demo/hub-token",
      recoveryWindowInDays: 0,
    });
  });
});

test("a machine reaches what its plan names, and nobody reaches it until the load balancer says so", async () => {
  const registrations = await registeredBy(() => {
    new InstanceSecurity("security", {
      ...{ context: CONTEXT, vpcId: "vpc-1" },
      egressPorts: { https: 443, nfs: 2049, mongo: 27017 },
    });
  });
  expect(treeOf(registrations)).toEqual([
    "aws:ec2/securityGroup:SecurityGroup security-group < security",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule security-egress-https < security",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule security-egress-mongo < security",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule security-egress-nfs < security",
    "engine-room:aws:InstanceSecurity security < engine-room-demo",
  ]);
  expect(byName(registrations, "security-egress-nfs").inputs).toMatchObject({ fromPort: 2049, toPort: 2049 });
});
