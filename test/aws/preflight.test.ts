/** Preflight's questions, asked by AWS's own client of what keeps to AWS's protocols; what moto lacks is a finding, and no crash. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { imageInputs } from "../../infra/image-inputs.ts";
import { repositoryPlans } from "../../infra/plan/aws/registries.ts";
import { lockKey } from "../../infra/plan/docker/images.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { ask } from "../../scripts/aws/session.ts";
import { imageTarget } from "../../scripts/images/image-target.ts";
import type { Finding } from "../../scripts/preflight/finding.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
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
  type MadeNetwork,
  makeNetwork,
  makeRepository,
  pushImage as push,
} from "../harness/aws/resources.ts";
import { useMoto, wrongRows } from "../harness/aws/use-moto.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const CLI_TIMEOUT_MILLISECONDS = 100_000;
const REGISTRY = `${MOTO_ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/engine-room`;
const moto = useMoto(REGION);

/** @returns The digest of an image in a repository of the stack. */
async function pushImage(name: string): Promise<string> {
  await makeRepository(REGION, `engine-room/${name}`, { "engine-room:stack": STACK });
  return push(REGION, `engine-room/${name}`);
}

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
    ["problem", `The pool gpu finds no g5.xlarge in ${REGION}d.`],
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
    expect(await problems(inNetwork(await makeNetwork(REGION)))).toEqual([]);
  });

  test("has its subnets where it has them, whatever the stack file says", async () => {
    const { vpcId, subnetIds } = await makeNetwork(REGION);
    const [finding, ...rest] = await problems(inNetwork({ vpcId, subnetIds }, ["a", "c"]));
    expect(rest).toEqual([]);
    expect(`${finding?.what} ${finding?.why}`).toContain(subnetIds[1]);
  });

  test("is a problem where it is not", async () => {
    const network: MadeNetwork = {
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

describe("repositories that are there already", () => {
  const findings = async (values: Values = VALUES) => ofCheck(await found(values), "repositories");
  const shared = { ...VALUES, images: { repositories: "existing" } };

  test.each([
    [{ "engine-room:stack": "prod" }, "of prod"],
    [{}, "of nobody's stack"],
  ])("with the tags %j are a problem that says what to write", async (tags, words) => {
    await makeRepository(REGION, "engine-room/services", tags);
    const [finding, ...rest] = await findings();
    expect(rest).toEqual([]);
    expect(finding).toMatchObject({
      severity: "problem",
      what: `engine-room/services is there already, and not of ${STACK}.`,
      why: expect.stringContaining(words),
      fix: expect.stringContaining("images: { repositories: existing }"),
    });
  });

  test("are what a stack wants that makes none", async () => {
    const [finding, ...rest] = await findings(shared);
    expect(rest).toEqual([]);
    expect(finding?.what).toContain("engine-room/tritonserver");
    const { plan, images } = targetOf(VALUES);
    for (const { name } of repositoryPlans(
      plan.config,
      images.map((one) => one.name),
    ))
      await makeRepository(REGION, name);
    expect(await findings(shared)).toEqual([]);
  });
});

describe("npm run preflight", () => {
  test("says the same as a table and as JSON, and nothing on standard error", async () => {
    const lockFile = join(moto.folder(), "images.lock.json");
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
    const configFile = join(moto.folder(), "Pulumi.preflight.yaml");
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
        env: { ...process.env, ENGINE_ROOM_IMAGE_LOCK: lockFile, DOCKER_CONFIG: moto.folder() },
        timeout: CLI_TIMEOUT_MILLISECONDS,
      },
    );
  }
});

test("moto has answered what the table of operations says", () => {
  expect(wrongRows(vi.mocked(ask), "preflight")).toEqual([]);
});
