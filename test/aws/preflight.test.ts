/**
 * Preflight by AWS's own client against moto: the account, existing resources that a stack names, and its images. A call
 * that moto does not support is a finding instead of a crash.
 */
import { rmSync, writeFileSync } from "node:fs";
import { ACMClient, RequestCertificateCommand } from "@aws-sdk/client-acm";
import { CreateVolumeCommand } from "@aws-sdk/client-ec2";
import { CreateFileSystemCommand, CreateMountTargetCommand, EFSClient } from "@aws-sdk/client-efs";
import {
  CreateSecretCommand,
  PutSecretValueCommand,
  SecretsManagerClient,
} from "@aws-sdk/client-secrets-manager";
import { afterEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { imageInputs } from "../../infra/image-inputs.ts";
import { lockKey } from "../../infra/plan/docker/images.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { runningMachines } from "../../scripts/aws/machine.ts";
import { ask, clientSettings } from "../../scripts/aws/session.ts";
import type { Finding } from "../../scripts/preflight/finding.ts";
import { awsTarget } from "../../scripts/program/targets.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { found, inNetwork, ofCheck, REGION, STACK, VALUES, type Values } from "../harness/aws/preflight.ts";
import {
  ec2Client,
  type MadeNetwork,
  makeMachine,
  makeNetwork,
  makeRepository,
  pushImage as push,
  tagSpecifications,
} from "../harness/aws/resources.ts";
import { checkOperations, useMoto } from "../harness/aws/use-moto.ts";
import { writtenStackFile } from "../harness/stack-files.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

/** The path is read when modules are loaded. Only one test writes the file. */
const lockFile = vi.hoisted(() => {
  process.env.ENGINE_ROOM_IMAGE_LOCK = `/tmp/engine-room-preflight-${process.pid}.lock.json`;
  return process.env.ENGINE_ROOM_IMAGE_LOCK;
});
afterEach(() => rmSync(lockFile, { force: true }));

const REGISTRY = `${MOTO_ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/engine-room`;
const moto = useMoto(REGION);
checkOperations(vi.mocked(ask), "preflight");

/** @returns The digest of an image in a repository of the stack. */
async function pushImage(name: string): Promise<string> {
  await makeRepository(REGION, `engine-room/${name}`, { "engine-room:stack": STACK });
  return push(REGION, `engine-room/${name}`);
}

test("credentials of the stack's account have no finding", async () => {
  expect(ofCheck(await found(), "credentials")).toEqual([]);
});

test("credentials of another account are the only finding", async () => {
  const findings = await found({ ...VALUES, account: "111122223333" });
  expect(findings).toMatchObject([{ severity: "problem", check: "credentials" }]);
  expect(findings[0]?.what).toContain(MOTO_ACCOUNT);
});

test("a zone without the instance type of a pool is a problem that names both", async () => {
  expect(ofCheck(await found(), "offerings")).toEqual([]);
  const findings = ofCheck(await found({ ...VALUES, network: { zones: ["c", "d"] } }), "offerings");
  expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
    ["problem", `The pool gpu finds no g5.xlarge in ${REGION}d.`],
  ]);
});

describe("an existing network", () => {
  test("an existing network with the subnets of the stack file has no finding", async () => {
    expect(await problems(inNetwork(await makeNetwork(REGION)))).toEqual([]);
  });

  test("a subnet in another zone than the stack file says is a problem", async () => {
    const { vpcId, subnetIds } = await makeNetwork(REGION);
    const [finding, ...rest] = await problems(inNetwork({ vpcId, subnetIds }, ["a", "c"]));
    expect(rest).toEqual([]);
    expect(`${finding?.what} ${finding?.why}`).toContain(subnetIds[1]);
  });

  test("a missing network is a problem", async () => {
    const network: MadeNetwork = {
      vpcId: "vpc-0123456789abcdef0",
      subnetIds: ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    };
    const whats = (await problems(inNetwork(network))).map(({ what }) => what);
    expect(whats.join(" ")).toContain("vpc-0123456789abcdef0");
  });

  /** Without that of the images, which were not pushed. */
  async function problems(values: Values): Promise<readonly Finding[]> {
    return (await found(values)).filter(
      ({ severity, check }) => severity === "problem" && check !== "images",
    );
  }
});

test("each image whose digest ECR does not have is a problem", async () => {
  const digest = await pushImage("services");
  const absent = `sha256:${"0".repeat(64)}`;
  const findings = await found(VALUES, [
    { name: "services", reference: `${REGISTRY}/services@${digest}` },
    { name: "encoders", reference: `${REGISTRY}/services@${absent}` },
    { name: "trtllm", reference: `${REGISTRY}/trtllm@${absent}` },
  ]);
  const host = REGISTRY.split("/")[0];
  expect(ofCheck(findings, "images").map(({ severity, what }) => [severity, what])).toEqual([
    ["problem", `The registry ${host} does not have encoders, trtllm.`],
  ]);
});

describe("npx engine-room preflight", () => {
  test("preflight prints the same findings as a table and as JSON, and nothing on standard error", async () => {
    writeFileSync(lockFile, JSON.stringify(lockOf(await pushImage("services"))));
    vi.stubEnv("DOCKER_CONFIG", moto.folder());
    const table = await run([]);
    expect(table.stderr).toBe("");
    expect(table.exitCode).toBe(1);
    expect(table.stdout).toMatch(/^credentials and account +ok$/m);
    expect(table.stdout).toMatch(/^zones that offer the instance types +ok$/m);
    expect(table.stdout).toMatch(/^images and registries +1 problem$/m);
    expect(table.stdout).toContain(`the account ${MOTO_ACCOUNT} in ${REGION}: `);

    const json = await run(["--json"]);
    const { host, checks, findings } = JSON.parse(json.stdout) as {
      readonly host: string;
      readonly checks: readonly { readonly looksAt: string; readonly findings: number }[];
      readonly findings: readonly Finding[];
    };
    expect(host).toBe(`the account ${MOTO_ACCOUNT} in ${REGION}`);
    expect(checks).toContainEqual({ looksAt: "images and registries", findings: 1 });
    expect(checks.reduce((sum, one) => sum + one.findings, 0)).toBe(findings.length);
    for (const { what } of findings) expect(table.stdout).toContain(what);
  });

  /** Locks every image by one digest, which the registry has only in the repository `services`. */
  function lockOf(digest: string) {
    const plan = checkedPlan(VALUES).plan as AwsPlan;
    const { needed, inputs } = awsTarget(plan, "demo");
    const { contentHashes } = imageInputs(needed, inputs);
    const images = needed.map((name) => [
      lockKey(name, inputs.triton),
      { contentHash: contentHashes[name], reference: `registry.example.org/room/${name}@${digest}` },
    ]);
    return { version: 1, images: Object.fromEntries(images) as unknown };
  }

  function run(options: readonly string[]) {
    const configFile = writtenStackFile(moto.folder(), VALUES);
    return runCommand("preflight", "--stack", STACK, "--config-file", configFile, ...options);
  }
});

describe("an existing file system", () => {
  const stored = (fileSystemId: string, network: Values): Values => ({
    ...network,
    engineStore: { existing: { fileSystemId, securityGroupId: "sg-0123456789abcdef0" } },
  });

  test("an existing file system needs a mount target in each zone", async () => {
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

  test("a missing file system is a problem", async () => {
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

  test("a certificate that is pending, or for another host name, is a problem", async () => {
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

  test("a missing certificate is a problem", async () => {
    const arn = `arn:aws:acm:${REGION}:${MOTO_ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012`;
    expect(await certificateFindings(arn, "models.example.org")).toEqual([
      expect.stringMatching(/^The certificate of the gateway is not found\./),
    ]);
  });
});

test("a missing secret, or a secret without a token, is a problem of the hub's token", async () => {
  const secrets = new SecretsManagerClient(clientSettings(REGION));
  const { ARN = "" } = await secrets.send(new CreateSecretCommand({ Name: "hub-token" }));
  const whats = async () =>
    ofCheck(await found({ ...VALUES, hub: { tokenSecretArn: ARN } }), "hubToken").map(({ what }) => what);
  expect(await whats()).toEqual(["The secret with the hub's token does not exist."]);
  const store = (SecretString: string) =>
    secrets.send(new PutSecretValueCommand({ SecretId: ARN, SecretString }));
  await store('{"token":"hf_x"}');
  expect(await whats()).toEqual(["The secret with the hub's token holds no token."]);
  await store("hf_x");
  expect(await whats()).toEqual([]);
});

test("preflight reads the machines that run", async () => {
  await makeMachine(REGION, { type: "g5.4xlarge", tags: { owner: "me" } });
  await makeMachine(REGION, { type: "m5.large", isStopped: true });
  expect(await runningMachines(REGION)).toMatchObject([
    { type: "g5.4xlarge", isSpot: false, state: "running", tags: new Map([["owner", "me"]]) },
  ]);
  // moto has no quotas of EC2, and no defaults.
  const whats = ofCheck(await found(), "quotas").map(({ what }) => what);
  expect(whats).toEqual([expect.stringMatching(/^servicequotas:\w+ does not answer\.$/)]);
});

test("the databases' disk with the stack's tags is a problem in another zone or of another size", async () => {
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
