import { expect, test } from "vitest";
import { Instance, InstanceSecurity } from "../../../components/aws/instance.ts";
import { fixedValues } from "../../../components/local/provider/fixed-values.ts";
import type { InstancePlan } from "../../../infra/plan/aws/machine/instance.ts";
import { ec2Values, instanceOf, secretValues } from "../../infra/plan/aws/machine/stacks.ts";
import { byName, CONTEXT, once, registeredBy, treeOf } from "./registered.ts";

function made(plan: InstancePlan, context = CONTEXT) {
  return registeredBy(
    () => {
      new Instance("instance", {
        context,
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

const small = instanceOf(ec2Values);
const withSecrets = instanceOf(secretValues);
const usual = once(() => made(small));
const madeWithSecrets = once(() => made(withSecrets));

const short = (plan: InstancePlan) => plan.tasks.map(({ name }) => name);

test("a machine has exactly a role, profile, template, databases' disk and two resources for each task", async () => {
  expect(treeOf(await usual())).toEqual(
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
      "local:index:FixedValues instance-databases-place < instance",
      ...short(small).flatMap((name) => [
        `aws:ssm/association:Association instance-tasks-${name} < instance-tasks`,
        `aws:ssm/document:Document instance-tasks-${name}-document < instance-tasks`,
      ]),
    ].sort(),
  );
});

test("the machine keeps its role from containers, has no SSH key and an encrypted disk", async () => {
  const registrations = await usual();
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
  expect(machine.inputs.userData).toContain("\nFILE_SYSTEM_ID='fs-1'\nACCESS_POINT_ID='fsap-1'\n");
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

test("another zone of the databases' disk is refused before the disk is replaced", async () => {
  const registrations = await usual();
  const place = byName(registrations, "instance-databases-place");
  expect(place.inputs.values).toEqual({ availabilityZone: "us-east-1a" });
  expect(byName(registrations, "instance-databases").dependencies).toContain(place.urn);
  const inputs = (zone: string) => ({ ...place.inputs, values: { availabilityZone: zone } });
  const { failures } = await fixedValues.check(inputs("us-east-1b"), inputs("us-east-1a"));
  expect(failures).toEqual([
    {
      property: "values.availabilityZone",
      reason: expect.stringMatching(
        /^The databases' disk has availabilityZone us-east-1a; us-east-1b would replace it with an empty resource\. Write the old value/,
      ),
    },
  ]);
  for (const olds of [inputs("us-east-1b"), {}])
    expect((await fixedValues.check(inputs("us-east-1b"), olds)).failures).toEqual([]);
});

test("another key of the databases' disk is refused as another zone is", async () => {
  const key = (id: string) => `arn:aws:kms:us-east-1:111122223333:key/${id}`;
  const placeOf = async (values: object) =>
    byName(await made(instanceOf({ ...ec2Values, ...values })), "instance-databases-place").inputs;
  const none = await placeOf({});
  const one = await placeOf({ kmsKeyArn: key("1") });
  const other = await placeOf({ kmsKeyArn: key("2") });
  expect(one.values).toEqual({ availabilityZone: "us-east-1a", kmsKeyId: key("1") });
  for (const [before, after, says] of [
    [none, one, /^The databases' disk has kmsKeyId of AWS's choice; arn:\S+key\/1 would replace it/],
    [one, other, /has kmsKeyId arn:\S+key\/1; arn:\S+key\/2 would replace it/],
    [other, none, /has kmsKeyId arn:\S+key\/2; another one would replace it/],
  ] as const) {
    const { failures } = await fixedValues.check(after, before);
    expect(failures).toEqual([{ property: "values.kmsKeyId", reason: expect.stringMatching(says) }]);
  }
});

test("a retained machine and its databases' disk are protected, and the disk is kept", async () => {
  const retained = await made(instanceOf({ ...ec2Values, retain: ["demo"] }), {
    ...CONTEXT,
    isRetained: true,
  });
  const machine = byName(retained, "instance-machine");
  expect(machine.options.protect).toBe(true);
  expect(machine.inputs.disableApiTermination).toBe(true);
  expect(byName(retained, "instance-databases").options).toMatchObject({
    protect: true,
    retainOnDelete: true,
  });
  const preview = byName(await usual(), "instance-databases").options;
  expect([preview.protect, preview.retainOnDelete]).toEqual([undefined, undefined]);
});

test("the databases' disk is encrypted, in the machine's zone and of the size of the stack file", async () => {
  const sized = { ...ec2Values, databaseStorage: { sizeGiB: 35 } };
  expect(byName(await made(instanceOf(sized)), "instance-databases").inputs).toEqual({
    availabilityZone: "us-east-1a",
    type: "gp3",
    size: 35,
    encrypted: true,
    tags: { ...CONTEXT.tags, Name: `${CONTEXT.name}-databases` },
  });
});

test("the databases' disk has its own tags and not those of the machine's volumes", async () => {
  const registrations = await usual();
  expect(byName(registrations, "instance-machine").inputs).not.toHaveProperty("volumeTags");
  expect(byName(registrations, "instance-template").inputs.tagSpecifications).toEqual([
    { resourceType: "volume", tags: { ...CONTEXT.tags, Name: `${CONTEXT.name}-instance` } },
  ]);
});

test("the databases' disk is attached to a new machine only after the old machine has ended", async () => {
  const registrations = await usual();
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
  // Dependents are deleted first: at the end of a stack the machine, then the disk.
  expect(machine?.dependencies).toContain(volume?.urn);
  expect(machine?.inputs.userData).toContain("\nDATABASE_VOLUME_ID='instance-databases'\n");
  expect(byName(registrations, "instance-tasks").dependencies).toContain(attachment?.urn);
});

test("tasks run one after the other and are replaced for another machine or secret", async () => {
  const registrations = await madeWithSecrets();
  const tasks = withSecrets.tasks.map((task) => ({
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
    expect(association.options.replaceOnChanges).toEqual(["parameters", "targets", "#initerror"]);
    const before = tasks[index - 1];
    if (before !== undefined) expect(association.dependencies).toContain(before.association.urn);
  }
});

test("secrets are deleted at once, so that the next stack can use their names", async () => {
  const registrations = await madeWithSecrets();
  expect(byName(registrations, "instance-secrets-hubToken").inputs).toMatchObject({
    name: "engine-room-demo/hub-token",
    recoveryWindowInDays: 0,
  });
});

test("a machine's security group has the planned egress rules and no ingress rules", async () => {
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
