/** What preflight finds of an account itself, and of what a stack names and does not make. */
import { ACMClient, RequestCertificateCommand } from "@aws-sdk/client-acm";
import { AllocateAddressCommand, CreateVolumeCommand } from "@aws-sdk/client-ec2";
import { CreateFileSystemCommand, CreateMountTargetCommand, EFSClient } from "@aws-sdk/client-efs";
import {
  CreateSecretCommand,
  PutSecretValueCommand,
  SecretsManagerClient,
} from "@aws-sdk/client-secrets-manager";
import { AssumeRoleCommand, STSClient } from "@aws-sdk/client-sts";
import { afterEach, describe, expect, test, vi } from "vitest";
import { ask, clientSettings } from "../../scripts/aws/session.ts";
import { awsNeeds } from "../../scripts/preflight/aws-needs.ts";
import { readAws } from "../../scripts/preflight/aws-reading.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import {
  found,
  inNetwork,
  ofCheck,
  REGION,
  STACK,
  targetOf,
  VALUES,
  type Values,
} from "../harness/aws/preflight.ts";
import {
  ec2Client,
  makeCluster,
  makeMachine,
  makeNetwork,
  tagSpecifications,
} from "../harness/aws/resources.ts";
import { useMoto, wrongRows } from "../harness/aws/use-moto.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

useMoto(REGION);
afterEach(() => vi.unstubAllEnvs());

describe("a file system that is there", () => {
  const stored = (fileSystemId: string, network: Values): Values => ({
    ...network,
    engineStore: { existing: { fileSystemId, securityGroupId: "sg-0123456789abcdef0" } },
  });

  test("is one with a mount target in each zone", async () => {
    const efs = new EFSClient(clientSettings(REGION));
    const network = await makeNetwork(REGION);
    const { FileSystemId = "" } = await efs.send(new CreateFileSystemCommand({ Encrypted: true }));
    const mount = (SubnetId = "") => efs.send(new CreateMountTargetCommand({ FileSystemId, SubnetId }));
    await mount(network.subnetIds[0]);
    const values = stored(FileSystemId, inNetwork(network));
    const [finding] = ofCheck(await found(values), "engineStore");
    expect(finding).toMatchObject({ severity: "problem" });
    expect(finding?.what).toBe(`The file system ${FileSystemId} has no mount target in ${REGION}b.`);
    await mount(network.subnetIds[1]);
    expect(ofCheck(await found(values), "engineStore")).toEqual([]);
  });

  test("is a problem where it is not", async () => {
    const values = stored("fs-0123456789abcdef0", VALUES);
    const [finding] = ofCheck(await found(values), "engineStore");
    expect(finding).toMatchObject({
      severity: "problem",
      what: "There is no file system fs-0123456789abcdef0.",
    });
  });
});

describe("a certificate", () => {
  const certificateFindings = async (certificateArn: string, hostname: string) => {
    const gateway = {
      exposure: "public",
      hostname,
      tls: { certificateArn },
      apiKeys: [{ name: "one", sha256: "0".repeat(64) }],
    };
    const findings = ofCheck(await found({ ...VALUES, gateway }), "certificate");
    return findings.map(({ what, why }) => `${what} ${why}`);
  };

  test("is issued for the host name, by a star, or it is a problem", async () => {
    const { CertificateArn = "" } = await new ACMClient(clientSettings(REGION)).send(
      new RequestCertificateCommand({ DomainName: "*.example.org", ValidationMethod: "DNS" }),
    );
    // moto issues it a minute after it was asked for.
    const pending = expect.stringContaining("is not issued. Its status is PENDING_VALIDATION");
    expect(await certificateFindings(CertificateArn, "models.example.org")).toEqual([pending]);
    expect(await certificateFindings(CertificateArn, "models.example.com")).toEqual([
      pending,
      expect.stringMatching(/is not for models\.example\.com\. It is for \*\.example\.org,/),
    ]);
  });

  test("is a problem where it is not", async () => {
    const arn = `arn:aws:acm:${REGION}:${MOTO_ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012`;
    expect(await certificateFindings(arn, "models.example.org")).toEqual([
      expect.stringMatching(/^The certificate of the gateway is not there\./),
    ]);
  });
});

test("the secret with the hub's token is read, or is a problem where it has no token", async () => {
  const secrets = new SecretsManagerClient(clientSettings(REGION));
  const { ARN = "" } = await secrets.send(new CreateSecretCommand({ Name: "hub-token" }));
  const whats = async () =>
    ofCheck(await found({ ...VALUES, hub: { tokenSecretArn: ARN } }), "hubToken").map(({ what }) => what);
  expect(await whats()).toEqual(["The secret with the hub's token is not there."]);
  const store = (SecretString: string) =>
    secrets.send(new PutSecretValueCommand({ SecretId: ARN, SecretString }));
  await store('{"token":"hf_x"}');
  expect(await whats()).toEqual(["The secret with the hub's token holds no token."]);
  await store("hf_x");
  expect(await whats()).toEqual([]);
});

test("machines, networks and addresses of the account are counted as AWS tells them", async () => {
  await makeMachine(REGION, { type: "g5.4xlarge", tags: { owner: "me" } });
  await makeMachine(REGION, { type: "m5.large", isStopped: true });
  await ec2Client(REGION).send(new AllocateAddressCommand({ Domain: "vpc" }));
  const target = targetOf(VALUES);
  const reading = await readAws(target, awsNeeds(target), async () => ({ kind: "there" }));
  expect(reading.running).toMatchObject({
    value: [{ type: "g5.4xlarge", isSpot: false, state: "running", tags: new Map([["owner", "me"]]) }],
  });
  expect(reading.vcpus).toEqual({ kind: "answer", value: new Map([["g5.4xlarge", 16]]) });
  expect(reading.vpcs).toMatchObject({ kind: "answer", value: [{ cidrs: ["172.31.0.0/16"] }] });
  expect(reading.addresses).toEqual({ kind: "answer", value: [new Map()] });
  expect(reading.quotas.get("L-F678F1CE")).toEqual({ kind: "answer", value: 5 });
});

test("the databases' disk of an instance is the one with the stack's tags", async () => {
  const { access: _access, ...shared } = VALUES;
  const values = { ...shared, compute: "ec2", pools: [{ name: "gpu", instanceType: "g5.xlarge" }] };
  const make = (Name: string, stack: string, zone: string) =>
    ec2Client(REGION).send(
      new CreateVolumeCommand({
        AvailabilityZone: `${REGION}${zone}`,
        Size: 30,
        TagSpecifications: tagSpecifications("volume", { Name, "engine-room:stack": stack }),
      }),
    );
  await make("engine-room-other-databases", "other", "b");
  await make("engine-room-preflight-instance", STACK, "b");
  expect(ofCheck(await found(values), "databaseDisk")).toEqual([]);
  const { VolumeId } = await make("engine-room-preflight-databases", STACK, "b");
  const [finding] = ofCheck(await found(values), "databaseDisk");
  expect(finding?.what).toBe(
    `The databases' disk ${VolumeId} is in ${REGION}b, and the machine would be in ${REGION}a.`,
  );
  await make("engine-room-preflight-databases", STACK, "a");
  const [smaller] = ofCheck(await found(values), "databaseDisk");
  expect(smaller?.what).toMatch(/ has 30 GiB, and the stack file says 20\.$/);
});

test("a role that makes the cluster is no administrator besides, until the cluster is there", async () => {
  const role = `arn:aws:iam::${MOTO_ACCOUNT}:role/team`;
  const admins = { ...VALUES, access: { apiCidrs: ["1.2.3.4/32"], admins: [role] } };
  expect(ofCheck(await found(admins), "access")).toEqual([]);
  const { Credentials } = await new STSClient(clientSettings(REGION)).send(
    new AssumeRoleCommand({ RoleArn: role, RoleSessionName: "me" }),
  );
  vi.stubEnv("AWS_ACCESS_KEY_ID", Credentials?.AccessKeyId);
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", Credentials?.SecretAccessKey);
  vi.stubEnv("AWS_SESSION_TOKEN", Credentials?.SessionToken);
  expect(ofCheck(await found(admins), "access")).toMatchObject([{ severity: "problem" }]);
  await makeCluster(REGION, `engine-room-${STACK}`);
  // moto has no entries: whether the role has one is then a warning.
  expect(ofCheck(await found(admins), "access")).toMatchObject([{ severity: "warning" }]);
});

test("moto has answered what the table of operations says", () => {
  expect(wrongRows(vi.mocked(ask), "account")).toEqual([]);
});
