/** Preflight's questions, asked by AWS's own client of what keeps to AWS's protocols; what moto lacks is a finding, and no crash. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CreateSubnetCommand, CreateVpcCommand, EC2Client } from "@aws-sdk/client-ec2";
import { CreateRepositoryCommand, ECRClient, PutImageCommand } from "@aws-sdk/client-ecr";
import { CreateFileSystemCommand, CreateMountTargetCommand, EFSClient } from "@aws-sdk/client-efs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { imageInputs } from "../../infra/image-inputs.ts";
import { lockKey } from "../../infra/plan/docker/images.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { clientSettings } from "../../scripts/aws/session.ts";
import { imageTarget } from "../../scripts/images/image-target.ts";
import { awsPreflight } from "../../scripts/preflight/aws-checks.ts";
import { awsNeeds } from "../../scripts/preflight/aws-needs.ts";
import type { Finding } from "../../scripts/preflight/finding.ts";
import { awsTarget } from "../../scripts/program/aws-target.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { type AwsStandIn, MOTO_ACCOUNT, startMoto } from "../harness/aws/moto.ts";

/** Its zone d has machines without GPUs, and no g5. */
const REGION = "us-west-2";
const STACK = "preflight";
const CLI_TIMEOUT_MILLISECONDS = 100_000;

const VALUES = {
  platform: "aws",
  account: MOTO_ACCOUNT,
  region: REGION,
  access: { apiCidrs: ["1.2.3.4/32"] },
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 2 } },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  engines: { whenFull: "stopServer" },
  models: [{ name: "gpt2-medium", model: "gpt2-medium" }],
};
type Values = Readonly<Record<string, unknown>>;

let aws: AwsStandIn;
let folder: string;
const before = { ...process.env };
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-preflight-"));
  aws = await startMoto({ region: REGION });
  Object.assign(process.env, aws.environment);
});
beforeEach(() => aws.reset());
afterAll(async () => {
  process.env = { ...before };
  rmSync(folder, { recursive: true });
  await aws.stop();
});

async function found(values: Values = VALUES, images?: ReturnType<typeof awsTarget>["images"]) {
  const target = awsTarget(checkedPlan(values).plan as AwsPlan, STACK);
  const own = images === undefined ? target : { ...target, images, imageProblems: [] };
  const checks = await awsPreflight(own, awsNeeds(own), async () => ({ kind: "there" }));
  return checks.flatMap(({ findings }) => findings);
}

const ofCheck = (findings: readonly Finding[], check: string) =>
  findings.filter((finding) => finding.check === check);

const ec2 = () => new EC2Client(clientSettings(REGION));

async function makeNetwork(): Promise<{ vpcId: string; subnetIds: readonly string[] }> {
  const { Vpc } = await ec2().send(new CreateVpcCommand({ CidrBlock: "10.1.0.0/16" }));
  const vpcId = Vpc?.VpcId ?? "";
  const subnetIds: string[] = [];
  for (const [index, zone] of ["a", "b"].entries()) {
    const CidrBlock = `10.1.${index * 16}.0/20`;
    const AvailabilityZone = `${REGION}${zone}`;
    const { Subnet } = await ec2().send(
      new CreateSubnetCommand({ VpcId: vpcId, CidrBlock, AvailabilityZone }),
    );
    subnetIds.push(Subnet?.SubnetId ?? "");
  }
  return { vpcId, subnetIds };
}

/** Of a VPC that is there. @param zones - As the stack file says it, of both subnets. */
function inNetwork(
  { vpcId, subnetIds }: Awaited<ReturnType<typeof makeNetwork>>,
  zones = ["a", "b"],
): Values {
  const privateSubnets = subnetIds.map((id, index) => ({ id, zone: zones[index] }));
  return { ...VALUES, network: { existing: { vpcId, cidr: "10.1.0.0/16", privateSubnets } } };
}

/** @returns The digest of a manifest that the account's registry has from then on. */
async function pushImage(name: string): Promise<string> {
  const ecr = new ECRClient(clientSettings(REGION));
  const repositoryName = `engine-room/${name}`;
  const tags = [{ Key: "engine-room:stack", Value: STACK }];
  await ecr.send(new CreateRepositoryCommand({ repositoryName, tags }));
  const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
  const imageManifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: { mediaType: "application/vnd.oci.image.config.v1+json", size: 2, digest: digestOf(name) },
    layers: [],
  });
  const { image } = await ecr.send(new PutImageCommand({ repositoryName, imageManifest, imageTag: "one" }));
  return image?.imageId?.imageDigest ?? "";
}

const REGISTRY = `${MOTO_ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/engine-room`;

describe("credentials", () => {
  test("of the stack's account have no finding", async () => {
    expect(ofCheck(await found(), "credentials")).toEqual([]);
  });

  test("of another account are the only one", async () => {
    const findings = await found({ ...VALUES, account: "111122223333" });
    expect(findings).toMatchObject([{ severity: "problem", check: "credentials" }]);
    expect(findings[0]?.what).toContain(MOTO_ACCOUNT);
  });
});

test("zones without the instance type are those of the pool that wants it", async () => {
  expect(ofCheck(await found(), "offerings")).toEqual([]);
  const findings = ofCheck(await found({ ...VALUES, network: { zones: ["c", "d"] } }), "offerings");
  expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
    ["warning", `The pool gpu finds no g5.xlarge in ${REGION}d.`],
  ]);
});

test("what the stand-in lacks is one warning a question, each of one line", async () => {
  const silent = (await found()).filter(({ what }) => what.endsWith("gives no answer."));
  expect(silent.map(({ severity, check }) => [severity, check])).toEqual([
    ["warning", "quotas"],
    ["warning", "quotas"],
    ["warning", "kubernetesVersion"],
    ["warning", "addOns"],
  ]);
  for (const { why } of silent)
    expect(why).toMatch(/^It answers with status (404|500), and not as AWS does; /);
});

describe("a network that is there", () => {
  test("with the subnets of the stack file has no finding", async () => {
    expect(await problems(inNetwork(await makeNetwork()))).toEqual([]);
  });

  test("has its subnets where it has them, whatever the stack file says", async () => {
    const { vpcId, subnetIds } = await makeNetwork();
    const [finding, ...rest] = await problems(inNetwork({ vpcId, subnetIds }, ["a", "c"]));
    expect(rest).toEqual([]);
    expect(`${finding?.what} ${finding?.why}`).toContain(subnetIds[1]);
  });

  test("is a problem where it is not", async () => {
    const network = {
      vpcId: "vpc-0123456789abcdef0",
      subnetIds: ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    };
    const whats = (await problems(inNetwork(network))).map(({ what }) => what);
    expect(whats.join(" ")).toContain("vpc-0123456789abcdef0");
  });

  /** But that of images, which nobody pushed. */
  async function problems(values: Values): Promise<readonly Finding[]> {
    return (await found(values)).filter(
      ({ severity, check }) => severity === "problem" && check !== "images",
    );
  }
});

describe("a file system that is there", () => {
  const stored = (fileSystemId: string, network: Values): Values => ({
    ...network,
    engineStore: { existing: { fileSystemId, securityGroupId: "sg-0123456789abcdef0" } },
  });

  test("is one with a mount target in each zone", async () => {
    const efs = new EFSClient(clientSettings(REGION));
    const network = await makeNetwork();
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

test("images of ECR are there by their digests, or each is a problem", async () => {
  const digest = await pushImage("services");
  const absent = `sha256:${"0".repeat(64)}`;
  const findings = await found(VALUES, [
    { name: "services", reference: `${REGISTRY}/services@${digest}` },
    { name: "encoders", reference: `${REGISTRY}/services@${absent}` },
    { name: "trtllm", reference: `${REGISTRY}/trtllm@${absent}` },
  ]);
  const host = REGISTRY.split("/")[0];
  expect(ofCheck(findings, "images").map(({ severity, what }) => [severity, what])).toEqual([
    ["problem", `The registry ${host} does not have encoders.`],
    ["problem", `The registry ${host} does not have trtllm.`],
  ]);
  expect(ofCheck(findings, "repositories")).toEqual([]);
});

test("a repository that another stack made is a problem", async () => {
  await pushImage("services");
  const target = awsTarget(checkedPlan(VALUES).plan as AwsPlan, "another");
  const checks = await awsPreflight(target, awsNeeds(target), async () => ({ kind: "there" }));
  const findings = ofCheck(
    checks.flatMap((one) => one.findings),
    "repositories",
  );
  expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
    ["problem", "engine-room/services is there already, and not of another."],
  ]);
});

describe("npm run preflight", () => {
  test("says the same as a table and as JSON, and nothing on standard error", async () => {
    const lockFile = join(folder, "images.lock.json");
    writeFileSync(lockFile, JSON.stringify(lockOf(await pushImage("services"))));
    const table = run([], lockFile);
    expect(table.stderr).toBe("");
    expect(table.status).toBe(1);
    expect(table.stdout).toMatch(/^credentials and account +ok$/m);
    expect(table.stdout).toMatch(/^zones that offer the instance types +ok$/m);
    expect(table.stdout).toMatch(/^images and registries +2 problems$/m);
    expect(table.stdout).toContain(`the account ${MOTO_ACCOUNT} in ${REGION}: `);

    const json = run(["--json"], lockFile);
    const { host, checks, findings } = JSON.parse(json.stdout) as {
      readonly host: string;
      readonly checks: readonly { readonly looksAt: string; readonly findings: number }[];
      readonly findings: readonly Finding[];
    };
    expect(host).toBe(`the account ${MOTO_ACCOUNT} in ${REGION}`);
    expect(checks).toContainEqual({ looksAt: "images and registries", findings: 2 });
    expect(checks.reduce((sum, one) => sum + one.findings, 0)).toBe(findings.length);
    for (const { what } of findings) expect(table.stdout).toContain(what);
  });

  /** Every image is locked by one digest, which the registry has in the repository `services` alone. */
  function lockOf(digest: string) {
    const plan = checkedPlan(VALUES).plan as AwsPlan;
    const { needed, options } = imageTarget(plan) ?? { needed: [], options: null };
    if (options === null) throw new Error("A stack on AWS has images.");
    const { contentHashes } = imageInputs(needed, options);
    const images = needed.map((name) => [
      lockKey(name, options.triton),
      { contentHash: contentHashes[name], reference: `registry.example.org/room/${name}@${digest}` },
    ]);
    return { version: 1, images: Object.fromEntries(images) as unknown };
  }

  function run(options: readonly string[], lockFile: string) {
    const configFile = join(folder, "Pulumi.preflight.yaml");
    const config = Object.fromEntries(
      Object.entries(VALUES).map(([key, value]) => [`engine-room:${key}`, value]),
    );
    writeFileSync(configFile, JSON.stringify({ config }));
    return spawnSync(
      process.execPath,
      ["scripts/cli.mjs", "preflight", "--stack", STACK, "--config-file", configFile, ...options],
      {
        cwd: projectRoot,
        encoding: "utf8",
        env: { ...process.env, ENGINE_ROOM_IMAGE_LOCK: lockFile, DOCKER_CONFIG: folder },
        timeout: CLI_TIMEOUT_MILLISECONDS,
      },
    );
  }
});
