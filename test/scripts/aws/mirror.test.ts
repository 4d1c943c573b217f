import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { ImageState } from "../../../scripts/images/image-states.ts";
import { makeImage } from "../../../scripts/images/make-images.ts";
import { mirroredBases, mirrorImage, mirrorLines, mirrorStates } from "../../../scripts/images/mirror.ts";
import { hostProbe } from "../../../scripts/preflight/host-probe.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { ACCOUNT, type Answers, account, EKS_STACK, REGION } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

const REGISTRY = `${ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/engine-room`;
const SOURCE = "nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3";
const DIGEST = `sha256:${"0123456789abcdef".repeat(4)}`;
const OWN_ENGINE = "unix:///var/run/docker.sock";
const bases = mirroredBases(["services", "trtllm", "encoders", "mongo"], { release: "25.07" });

/** A `docker` that writes down how it was called; its registry has one digest of everything. */
const FAKE_DOCKER = `#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE_LOG"
case "$3" in
  inspect) [ -z "$FAKE_SILENT" ] || { echo "unauthorized: no entry" >&2; exit 1; }
    printf '{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"%s","size":1609}' "$FAKE_DIGEST" ;;
  create) [ -z "$FAKE_FAILS" ] ;;
esac
`;

let folder: string;
let aws: FakeAws | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-mirror-"));
  writeFileSync(join(folder, "docker"), FAKE_DOCKER);
  chmodSync(join(folder, "docker"), 0o755);
  writeFileSync(join(folder, "log"), "");
  const environment = {
    PATH: `${folder}:${process.env.PATH}`,
    FAKE_LOG: join(folder, "log"),
    FAKE_DIGEST: DIGEST,
    AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
    AWS_SECRET_ACCESS_KEY: "example",
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
  await aws?.close();
});
const calls = () => readFileSync(join(folder, "log"), "utf8").trim().split("\n");

async function use(answers: Answers): Promise<void> {
  aws = await startFakeAws(account(answers));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
}
const LACKS: Answers = { "ecr:DescribeImages": () => ({ error: "ImageNotFoundException" }) };
const states = () => mirrorStates(bases, REGISTRY, hostProbe(OWN_ENGINE));

test("NVIDIA's images of the release are mirrored, and nobody else's", () => {
  expect(bases).toEqual([
    { image: "trtllm", source: SOURCE },
    { image: "encoders", source: "nvcr.io/nvidia/tritonserver:25.07-py3" },
  ]);
  expect(mirroredBases(["services"], null)).toEqual([]);
});

test("the stack file is told digests of the account's registry, and is valid with them", async () => {
  await use(LACKS);
  const lines = mirrorLines(await states());
  const reference = `${REGISTRY}/tritonserver@${DIGEST}`;
  expect(lines.trim().split("\n")).toEqual([
    `engine-room:image: { base: "${reference}" }`,
    `  engine-room:images: { bases: { encoders: "${reference}" } }`,
  ]);
  const values = { ...EKS_STACK, image: { base: reference }, images: { bases: { encoders: reference } } };
  expect(checkedPlan(values).plan.platform).toBe("aws");
});

describe("a copy", () => {
  test("goes by digest, under a tag that no other digest has", async () => {
    const isCopied = () => calls().some((line) => line.includes(" create "));
    await use({
      "ecr:DescribeImages": () => (isCopied() ? { json: {} } : { error: "ImageNotFoundException" }),
    });
    const [state] = await states();
    expect(state).toMatchObject({ digest: DIGEST, isThere: false });
    if (state === undefined) return expect.fail("no state");
    await mirrorImage(state, REGISTRY, OWN_ENGINE);
    expect(calls().at(-1)).toBe(
      `buildx imagetools create --prefer-index=false --tag ${REGISTRY}/tritonserver:25.07-trtllm-python-py3-0123456789ab nvcr.io/nvidia/tritonserver@${DIGEST}`,
    );
  });

  test("that the registry has is left alone", async () => {
    await use({});
    expect((await states()).map(({ isThere }) => isThere)).toEqual([true, true]);
  });

  test("that came to other bytes, or did not end well, is an error", async () => {
    await use(LACKS);
    const [state] = await states();
    if (state === undefined) return expect.fail("no state");
    await expect(mirrorImage(state, REGISTRY, OWN_ENGINE)).rejects.toThrow(`ECR has no image ${DIGEST}`);
    vi.stubEnv("FAKE_FAILS", "1");
    await expect(mirrorImage(state, REGISTRY, OWN_ENGINE)).rejects.toThrow("ended with exit code 1");
  });

  test("whose source can't be asked is not begun", async () => {
    await use(LACKS);
    vi.stubEnv("FAKE_SILENT", "1");
    await expect(states()).rejects.toThrow(/no digest: unauthorized: no entry\. It takes buildx/);
    expect(calls()).toHaveLength(1);
  });
});

describe("npm run images -- --mirror", () => {
  const command = (values: Readonly<Record<string, unknown>>, ...options: readonly string[]) => {
    const file = writtenStackFile(folder, values);
    return runCommand("images", "--stack", "dev", "--config-file", file, "--mirror", ...options);
  };

  test("--dry-run says what is to copy, and copies nothing", async () => {
    await use(LACKS);
    const { exitCode, stdout } = await command({ ...EKS_STACK, encoders: false }, "--dry-run");
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`${SOURCE} ${DIGEST}: to copy\n`);
    expect(calls()).toHaveLength(1);
  });

  test("copies, and the registry's password is in no argument", async () => {
    const isCopied = () => calls().some((line) => line.includes(" create "));
    await use({
      "ecr:DescribeImages": () => (isCopied() ? { json: {} } : { error: "ImageNotFoundException" }),
      "ecr:DescribeRepositories": () => ({ json: { repositories: [{}] } }),
    });
    vi.stubEnv("DOCKER_CONFIG", folder);
    const { exitCode, stdout } = await command(EKS_STACK, "--only", "trtllm");
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`engine-room:image: { base: "${REGISTRY}/tritonserver@${DIGEST}" }`);
    expect(calls().filter((line) => line.includes(" create "))).toHaveLength(1);
    // Of `AWS:password`, which the stand-in gives.
    expect(calls().join()).not.toMatch(/password|QVdTOnBhc3N3b3Jk/);
  });

  test("is refused before the repository is there, with what makes it", async () => {
    await use(LACKS);
    const { exitCode, stderr } = await command(EKS_STACK);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("no repository engine-room/tritonserver");
    expect(stderr).toContain("--registries");
  });

  test("is refused with another registry, and together with --push", async () => {
    const other = { ...EKS_STACK, images: { registry: "registry.example.org/room" } };
    expect((await command(other)).stderr).toContain("--mirror copies into ECR");
    expect((await command(EKS_STACK, "--push")).exitCode).toBe(2);
    expect(calls()).toEqual([""]);
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
  await makeImage(state, { uri: OWN_ENGINE, probe: hostProbe(OWN_ENGINE), secrets: [] });
  expect(calls()).toEqual([
    `buildx imagetools create --prefer-index=false --tag ${REGISTRY}/services:000000000000 ${reference}`,
  ]);
});
