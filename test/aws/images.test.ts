/** Images that are copied and pushed to ECR, and its content afterwards. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DescribeImagesCommand } from "@aws-sdk/client-ecr";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { imagesThatEcrLacks, prepareEcrPush } from "../../scripts/aws/ecr.ts";
import { ask } from "../../scripts/aws/session.ts";
import type { ImageState } from "../../scripts/images/image-states.ts";
import { makeImage, mirroredBases, mirrorLines, mirrorStates } from "../../scripts/images/make-images.ts";
import { hostProbe } from "../../scripts/preflight/host-probe.ts";
import { awsTarget } from "../../scripts/program/targets.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { ecrClient, emptyManifest, makeRepository, pushImage } from "../harness/aws/resources.ts";
import { EKS_STACK } from "../harness/aws/stacks.ts";
import { checkOperations, useMoto } from "../harness/aws/use-moto.ts";
import { writtenStackFile } from "../harness/stack-files.ts";
import { runCommand } from "../scripts/plan/run-plan.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const STACK = { ...EKS_STACK, account: MOTO_ACCOUNT, region: REGION };
const REGISTRY = `${MOTO_ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/engine-room`;
const REPOSITORY = "engine-room/tritonserver";
const SOURCE = "nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3";
const { text: MANIFEST, digest: DIGEST } = emptyManifest("tritonserver");
const OWN_ENGINE = "unix:///var/run/docker.sock";
const bases = mirroredBases(["services", "trtllm", "encoders", "mongo"], { release: "25.07" });

/**
 * A `docker` that records its arguments. Publishers have one image under every name. A copy stores it in the account's
 * registry by ECR's API if Docker's configuration has ECR's login: moto stores images, but has no registry API.
 */
const FAKE_DOCKER = `#!/usr/bin/env node
const { createHash } = require("node:crypto");
const { appendFileSync, readFileSync } = require("node:fs");
const words = process.argv.slice(2);
const { AWS_ENDPOINT_URL, DOCKER_CONFIG, FAKE_LOG, FAKE_MANIFEST, FAKE_PUSHED } = process.env;
appendFileSync(FAKE_LOG, words.join(" ") + "\\n");
async function ecr(operation, body) {
  const answer = await fetch(AWS_ENDPOINT_URL, {
    method: "POST",
    headers: {
      "content-type": "application/x-amz-json-1.1",
      "x-amz-target": "AmazonEC2ContainerRegistry_V20150921." + operation,
      authorization: "AWS4-HMAC-SHA256 Credential=testing/20260101/${REGION}/ecr/aws4_request",
    },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
const digestOf = (text) => "sha256:" + createHash("sha256").update(text).digest("hex");
async function create() {
  const [host, ...path] = words[words.indexOf("--tag") + 1].split("/");
  const [repositoryName, imageTag] = path.join("/").split(":");
  const { auth } = JSON.parse(readFileSync(DOCKER_CONFIG + "/config.json", "utf8")).auths[host];
  const { authorizationData } = await ecr("GetAuthorizationToken", {});
  if (auth !== authorizationData[0].authorizationToken) throw new Error("unauthorized");
  const imageDigest = digestOf(FAKE_PUSHED);
  await ecr("PutImage", { repositoryName, imageTag, imageDigest, imageManifest: FAKE_PUSHED });
}
const refuse = (error) => {
  console.error(error.message);
  process.exit(1);
};
if (words[2] === "inspect") {
  if (FAKE_MANIFEST === "") refuse(new Error("unauthorized: no entry"));
  const mediaType = "application/vnd.oci.image.index.v1+json";
  console.log(JSON.stringify({ mediaType, digest: digestOf(FAKE_MANIFEST), size: 1609 }));
} else if (FAKE_PUSHED === "") refuse(new Error("denied"));
else if (FAKE_PUSHED !== undefined) create().catch(refuse);
`;

const moto = useMoto(REGION);
checkOperations(vi.mocked(ask), "images");
let folder: string;
beforeAll(() => moto.program("docker", FAKE_DOCKER));
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-images-"));
  writeFileSync(join(folder, "log"), "");
  const environment = {
    FAKE_LOG: join(folder, "log"),
    FAKE_MANIFEST: MANIFEST,
    FAKE_PUSHED: MANIFEST,
    DOCKER_CONFIG: folder,
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
});
afterEach(() => rmSync(folder, { recursive: true }));
const calls = () => readFileSync(join(folder, "log"), "utf8").trim().split("\n");
const states = () => mirrorStates(bases, REGISTRY, hostProbe(OWN_ENGINE));

/** Images in ECR's repository of copies. */
async function copies(): Promise<readonly object[]> {
  const { imageDetails = [] } = await ecrClient(REGION).send(
    new DescribeImagesCommand({ repositoryName: REPOSITORY }),
  );
  return imageDetails.map(({ imageDigest, imageTags }) => ({ imageDigest, imageTags }));
}

test("only NVIDIA's images of the release are mirrored", () => {
  expect(bases).toEqual([
    { image: "trtllm", source: SOURCE },
    { image: "encoders", source: "nvcr.io/nvidia/tritonserver:25.07-py3" },
  ]);
  expect(mirroredBases(["services"], null)).toEqual([]);
});

test("the printed lines for the stack file name digests of the account's registry and are valid", async () => {
  const lines = mirrorLines(await states());
  const reference = `${REGISTRY}/tritonserver@${DIGEST}`;
  expect(lines.trim().split("\n")).toEqual([
    `engine-room:image: { base: "${reference}" }`,
    `  engine-room:images: { bases: { encoders: "${reference}" } }`,
  ]);
  const values = { ...STACK, image: { base: reference }, images: { bases: { encoders: reference } } };
  expect(checkedPlan(values).plan.platform).toBe("aws");
});

test("an image that the registry has is not copied, and an image without a digest is refused", async () => {
  await makeRepository(REGION, REPOSITORY);
  expect((await states()).map(({ isMirrored }) => isMirrored)).toEqual([false, false]);
  vi.stubEnv("FAKE_MANIFEST", emptyManifest(REPOSITORY).text);
  const digest = await pushImage(REGION, REPOSITORY);
  expect((await states()).map((state) => [state.digest, state.isMirrored])).toEqual([
    [digest, true],
    [digest, true],
  ]);
  vi.stubEnv("FAKE_MANIFEST", "");
  await expect(states()).rejects.toThrow(/is not known: unauthorized: no entry\. This takes Docker/);
});

describe("npx engine-room images --mirror", () => {
  const command = (values: Readonly<Record<string, unknown>>, ...options: readonly string[]) => {
    const file = writtenStackFile(folder, values);
    return runCommand("images", "--stack", "dev", "--config-file", file, "--mirror", ...options);
  };

  test("--mirror --dry-run lists missing images and copies nothing", async () => {
    await makeRepository(REGION, REPOSITORY);
    const { exitCode, stdout } = await command({ ...STACK, encoders: false }, "--dry-run");
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`${SOURCE} ${DIGEST}: to copy\n`);
    expect(await copies()).toEqual([]);
  });

  test("--mirror copies an image once, by digest, under a tag of its digest, with ECR's login", async () => {
    await makeRepository(REGION, REPOSITORY);
    const { exitCode, stdout } = await command(STACK, "--only", "trtllm");
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`engine-room:image: { base: "${REGISTRY}/tritonserver@${DIGEST}" }`);
    const tag = `25.07-trtllm-python-py3-${DIGEST.slice("sha256:".length, "sha256:".length + 12)}`;
    expect(await copies()).toEqual([{ imageDigest: DIGEST, imageTags: [tag] }]);
    expect(calls().at(-1)).toBe(
      `buildx imagetools create --prefer-index=false --tag ${REGISTRY}/tritonserver:${tag} nvcr.io/nvidia/tritonserver@${DIGEST}`,
    );
    const again = await command(STACK, "--only", "trtllm");
    expect(again.stdout).toContain(`${DIGEST}: copied already\n`);
    expect(calls().filter((line) => line.includes(" create "))).toHaveLength(1);
  });

  test("--mirror shows ECR's password in no argument and no output", async () => {
    await makeRepository(REGION, REPOSITORY);
    const { stdout, stderr } = await command(STACK, "--only", "trtllm");
    // moto's password, and its form in Docker's configuration.
    const password = `${MOTO_ACCOUNT}-auth-token`;
    const said = [...calls(), stdout, stderr].join("\n");
    expect(said).not.toContain(password);
    expect(said).not.toContain(Buffer.from(`AWS:${password}`).toString("base64"));
    const { auths } = JSON.parse(
      readFileSync(join(process.env.DOCKER_CONFIG ?? "", "config.json"), "utf8"),
    ) as { readonly auths: Readonly<Record<string, { readonly auth: string }>> };
    expect(Buffer.from(auths[REGISTRY.split("/")[0] ?? ""]?.auth ?? "", "base64").toString()).toBe(
      `AWS:${password}`,
    );
  });

  test("a copy with other bytes, or with a failed command, is an error", async () => {
    await makeRepository(REGION, REPOSITORY);
    vi.stubEnv("FAKE_PUSHED", emptyManifest("another").text);
    const other = await command(STACK, "--only", "trtllm");
    expect(other).toMatchObject({ exitCode: 1 });
    expect(other.stderr).toContain(`ECR has no image ${DIGEST} after it was copied`);
    vi.stubEnv("FAKE_PUSHED", "");
    expect((await command(STACK, "--only", "trtllm")).stderr).toContain("ended with exit code 1");
  });

  test("--mirror without the repository is refused with the command that creates it", async () => {
    const { exitCode, stderr } = await command(STACK);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("no repository engine-room/tritonserver");
    expect(stderr).toContain("pulumi -C bootstrap up");
  });

  test("--mirror is refused with another registry and together with --push", async () => {
    const other = { ...STACK, images: { registry: "registry.example.org/room" } };
    expect((await command(other)).stderr).toContain("--mirror copies into ECR");
    expect((await command(STACK, "--push")).exitCode).toBe(2);
    expect(calls()).toEqual([""]);
  });
});

describe("a push", () => {
  const target = awsTarget(checkedPlan(STACK).plan as AwsPlan, "dev");

  test("a push without a repository is refused with the command that creates it", async () => {
    await makeRepository(REGION, "engine-room/services");
    await expect(prepareEcrPush(REGISTRY, ["services", "trtllm"])).rejects.toThrow(
      /no repository engine-room\/trtllm, .*pulumi -C bootstrap up/,
    );
    expect(process.env.DOCKER_CONFIG).toBe(folder);
  });

  test("a push copies only images that ECR lacks", async () => {
    await makeRepository(REGION, "engine-room/services");
    await makeRepository(REGION, "engine-room/trtllm");
    const digest = await pushImage(REGION, "engine-room/services");
    const images = (["services", "trtllm", "encoders"] as const).map((name) => ({
      name,
      reference: `${REGISTRY}/${name}@${digest}`,
    }));
    expect([...(await imagesThatEcrLacks({ ...target, images }))]).toEqual(["trtllm", "encoders"]);
  });
});

test("an image that is locked in another registry is copied by its digest", async () => {
  const reference = `registry.example.org/room/services@${DIGEST}`;
  const state: ImageState = {
    image: { kind: "locked", name: "services", reference },
    key: "services",
    contentHash: "0".repeat(64),
    pushReference: `${REGISTRY}/services:000000000000`,
    state: "locked",
    steps: ["copy"],
  };
  vi.stubEnv("FAKE_PUSHED", undefined);
  await makeImage(state, { uri: OWN_ENGINE, probe: hostProbe(OWN_ENGINE), secrets: [] });
  expect(calls()).toEqual([
    `buildx imagetools create --prefer-index=false --tag ${REGISTRY}/services:000000000000 ${reference}`,
  ]);
});
